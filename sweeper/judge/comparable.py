"""Whether two results were measured under the same conditions, from their provenance."""

from __future__ import annotations

from collections.abc import Iterator

from sweeper.values import Json, PointResult

HARDWARE = ("cpu", "cores", "gpu")
"""Jobs of one sweep run on several nodes; these must be of one kind."""
BUSY = 3.0
"""Load average of a core; a server on the CPU and its client keep it below 2."""


def incomparable(baseline: PointResult, candidate: PointResult) -> str:
    """Why the two must not be divided; empty when they may.

    Hardware and software versions must be equal, what both say of their caches too, and so must
    every digest (of weights, of prompts) that both recorded.
    """
    found = [*_hardware(baseline, candidate), *_between(baseline, candidate, "versions")]
    found += _between(baseline, candidate, "caches", shared_only=True)
    found += _between(baseline, candidate, "canary", shared_only=True)
    for section in ("model", "dataset"):
        found += _between(baseline, candidate, section, shared_only=True, only="digest")
    return f"not comparable: {'; '.join(found)}" if found else ""


def engine_differences(baseline: PointResult, candidate: PointResult) -> tuple[str, ...]:
    """Differences of scheduler, runner, node and the like: said, but no reason to refuse."""
    here, there = _section(candidate, "host"), _section(baseline, "host")
    node = (there.get("hostname"), here.get("hostname"))
    moved = [_difference("host.hostname", *node)] if node[0] != node[1] else []
    return (*moved, *_between(baseline, candidate, "engine"))


def busy(result: PointResult | None) -> str:
    """That the machine had too much else to do for times to mean anything; else empty."""
    provenance = result.provenance if result and isinstance(result.provenance, dict) else {}
    average, host = provenance.get("load_average"), provenance.get("host")
    cores = host.get("cores") if isinstance(host, dict) else None
    if not isinstance(average, list) or not average or not cores or average[0] <= BUSY * cores:
        return ""
    return f"the machine was busy with other work: load average {average[0]:.1f} on {cores} cores"


def start_remarks(result: PointResult, baseline: PointResult | None) -> tuple[str, ...]:
    """What the server said at its start that changes speed, without what the baseline's said too;
    one sentence, so that a table keeps its shape."""
    said = _start_warnings(result)
    if baseline is not None:
        said = [text for text in said if text not in _start_warnings(baseline)]
    return (f"at the server's start: {'; '.join(said)}",) if said else ()


def _start_warnings(result: PointResult) -> list[str]:
    found = result.provenance.get("start_warnings") if isinstance(result.provenance, dict) else None
    return [str(text) for text in found] if isinstance(found, list) else []


def unrecorded(result: PointResult) -> tuple[str, ...]:
    """The sections without which equal conditions are an assumption."""
    return tuple(s for s in ("host", "versions") if not _section(result, s))


def _hardware(baseline: PointResult, candidate: PointResult) -> Iterator[str]:
    here, there = _section(candidate, "host"), _section(baseline, "host")
    for name in HARDWARE:
        if here.get(name) != there.get(name):
            yield _difference(f"host.{name}", there.get(name), here.get(name))


def _between(
    baseline: PointResult,
    candidate: PointResult,
    section: str,
    *,
    shared_only: bool = False,
    only: str = "",
) -> Iterator[str]:
    there = dict(_leaves(section, _section(baseline, section)))
    here = dict(_leaves(section, _section(candidate, section)))
    for name in sorted(n for n in there.keys() | here.keys() if only in n):
        x, y = there.get(name), here.get(name)
        if x != y and not (shared_only and None in (x, y)):
            yield _difference(name, x, y)


def _leaves(path: str, value: Json) -> Iterator[tuple[str, Json]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _leaves(f"{path}.{name}", item)
    else:
        yield path, value


def _section(result: PointResult, name: str) -> dict[str, Json]:
    provenance = result.provenance if isinstance(result.provenance, dict) else {}
    section = provenance.get(name)
    return section if isinstance(section, dict) else {}


def _difference(name: str, baseline: Json, here: Json) -> str:
    return f"{name} is {_say(here)} here and {_say(baseline)} for the baseline"


def _say(value: Json) -> str:
    return "not recorded" if value is None else str(value)
