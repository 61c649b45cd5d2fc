"""What is known to be different about two measurements of one setting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sweeper.judge.arms import Arm
from sweeper.judge.comparable import HARDWARE
from sweeper.values import Json, PointResult, ServerSpec


def differences(before: Arm, after: Arm) -> Iterator[str]:
    """Of the server's command, hardware, versions and the engine: what a change may come from."""
    yield from _servers(before.planned.point.server, after.planned.point.server)
    for name, only in (("host", HARDWARE), ("versions", ()), ("engine", ())):
        old, new = section(before.result, name), section(after.result, name)
        for key in only or sorted(old.keys() | new.keys()):
            if old.get(key) != new.get(key):
                yield f"{name}.{key}: {_say(old.get(key))} → {_say(new.get(key))}"


def _servers(before: ServerSpec, after: ServerSpec) -> Iterator[str]:
    """What only one of the two has."""
    if before.command != after.command:
        yield f"server.command: {' '.join(before.command)} → {' '.join(after.command)}"
    parts = {
        "args": (_flags(before.args), _flags(after.args)),
        "env": tuple([f"{k}={v}" for k, v in s.env] for s in (before, after)),
        "workarounds": (before.workarounds, after.workarounds),
    }
    for name, (old, new) in parts.items():
        gone, come = (_only(old, new), _only(new, old))
        if gone or come:
            yield f"server.{name}: {gone or 'nothing'} → {come or 'nothing'}"


def _flags(args: Sequence[str]) -> list[str]:
    """Every flag with its values."""
    found: list[str] = []
    for token in args:
        if token.startswith("-") or not found:
            found.append(token)
        else:
            found[-1] += f" {token}"
    return found


def _only(these: Iterable[str], others: Iterable[str]) -> str:
    known = set(others)
    return ", ".join(one for one in these if one not in known)


def section(result: PointResult | None, name: str) -> Mapping[str, Json]:
    """A part of the provenance; empty where it is not there."""
    provenance = result.provenance if result else None
    found = provenance.get(name) if isinstance(provenance, dict) else None
    return found if isinstance(found, dict) else {}


def _say(value: Json) -> str:
    return "not recorded" if value is None else str(value)
