"""The command to paste, and one schedule for several loads."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

from sweeper.judge.breakeven import family
from sweeper.judge.compare import Comparison
from sweeper.judge.conditions import AMOUNT, called_but_load, conditions_key, told_apart
from sweeper.judge.verdict import Recommendation, Scheduled, WorkloadVerdict
from sweeper.plan.rules import GAMMA, RULES, SCHEDULE
from sweeper.plan.schedule import schedule_mistakes
from sweeper.values import Json, ServerSpec

LARGEST_BATCH = 4096
"""Last batch size of a schedule; vLLM's own limit is ``max_num_seqs``."""
Steps = tuple[tuple[int, int, int], ...]


def recommendation(one: Comparison) -> Recommendation:
    """The setting of one point."""
    spec = one.point.server
    return Recommendation(
        speculative_config=spec.speculative,
        command=serve_command(one, spec.speculative),
        sentence=_conditions(spec),
    )


VLLMS_OWN = (("-m", "vllm.entrypoints.openai.api_server"), ("vllm", "serve"))
"""How commands of vLLM's own server end; a wrapper such as TRL's is another server."""


def serve_command(one: Comparison, speculative: Json) -> str:
    """``vllm serve …`` with the flags and variables the point was measured with.

    vLLM's CPU build has no working ``vllm`` command, and a wrapper is not ``vllm serve``: there it
    is the command that was measured.
    """
    spec = one.point.server
    config = ("--speculative-config", json.dumps(speculative, sort_keys=True))
    words = (
        *((*spec.command, "--model") if _as_measured(one) else ("vllm", "serve")),
        spec.model,
        *(("--revision", spec.revision) if spec.revision else ()),
        *spec.args,
        *(config if speculative else ()),
    )
    env = [f"{name}={shlex.quote(value)}" for name, value in spec.env]
    return " ".join([*env, shlex.join(words)])


def _as_measured(one: Comparison) -> bool:
    """Whether ``vllm serve`` is not the server that was measured, or does not start."""
    found = one.result.provenance if one.result else {}
    versions = found.get("versions") if isinstance(found, dict) else None
    cpu_build = isinstance(versions, dict) and str(versions.get("torch")).endswith("+cpu")
    return cpu_build or one.point.server.command[-2:] not in VLLMS_OWN


def _conditions(spec: ServerSpec) -> str:
    if spec.kind == "external":
        return "measured on a running server: its other flags are its own"
    if spec.workarounds:
        return f"measured with {', '.join(spec.workarounds)}, which the command does not load"
    return ""


def schedules(workloads: Sequence[WorkloadVerdict]) -> tuple[Scheduled, ...]:
    """For all conditions that were measured at several concurrencies."""
    at_loads = [w for w in workloads if _concurrency(w) is not None]
    points = [w.candidates[0].point for w in at_loads]
    groups: dict[str, list[WorkloadVerdict]] = {}
    for workload, point in zip(at_loads, points, strict=True):
        groups.setdefault(conditions_key(point, AMOUNT), []).append(workload)
    names = told_apart(points, called_but_load, AMOUNT)
    found = [_scheduled(each, names[key]) for key, each in groups.items() if len(each) > 1]
    return tuple(one for one in found if one is not None)


def _scheduled(group: Sequence[WorkloadVerdict], conditions: str) -> Scheduled | None:
    """The method that is recommended at most loads; of those, the one that is first."""
    chosen = [w.recommended for w in group if w.recommended is not None]
    usable = [c for c in chosen if not unschedulable(c)]
    if not usable:
        return None
    keys = [family(c) for c in usable]
    one = usable[keys.index(max(keys, key=keys.count))]
    first = group[0]
    return Scheduled(
        target=first.target,
        dataset=first.dataset,
        sampling=first.sampling,
        method=one.point.method,
        recommendation=scheduled(one, _steps(group, family(one))),
        conditions=conditions,
    )


def unschedulable(one: Comparison) -> str:
    """Why this method takes no schedule; empty where it does."""
    speculative = one.point.server.resolved or {}
    rule = RULES.get(str(speculative.get("method")))
    if SCHEDULE in (one.point.server.speculative or {}):
        return "it was measured with a schedule of its own"
    return rule.no_schedule if rule else "its method is not known"


def scheduled(one: Comparison, steps: Steps) -> Recommendation:
    """The setting of ``one`` with another γ at every batch size.

    :raises AssertionError: never: ``steps`` are made to be what vLLM takes.
    """
    spec, listed = one.point.server, [list(step) for step in steps]
    assert not schedule_mistakes(listed, SCHEDULE)
    speculative = dict(spec.speculative or {})
    speculative |= {GAMMA: max(k for _, _, k in steps), SCHEDULE: listed}
    last = steps[-1][0] - 1
    text = f"above {last} requests at once nothing was measured, so nothing is drafted there"
    return Recommendation(
        speculative_config=speculative,
        command=serve_command(one, speculative),
        schedule=steps,
        sentence="; ".join(part for part in (_conditions(spec), text) if part),
    )


def _steps(group: Sequence[WorkloadVerdict], method: str) -> Steps:
    """γ of the method where it can be deployed, else 0; a batch between two measured
    concurrencies is taken as the higher one, where drafting gains less."""
    at = sorted((c, _gamma(w, method)) for w in group if (c := _concurrency(w)) is not None)
    steps, first = [], 1
    for concurrency, gamma in at:
        steps.append((first, concurrency, gamma))
        first = concurrency + 1
    return (*steps, (first, max(LARGEST_BATCH, first), 0))


def _gamma(workload: WorkloadVerdict, method: str) -> int:
    passing = [c for c in workload.passing if family(c) == method]
    if workload.recommended is not None and workload.recommended in passing:
        return workload.recommended.point.gamma
    return max(passing, key=_speed).point.gamma if passing else 0


def _speed(one: Comparison) -> float:
    return one.speedup.value or 0.0


def _concurrency(workload: WorkloadVerdict) -> int | None:
    load = workload.candidates[0].point.load if workload.candidates else None
    return load.concurrency if load and load.name == "closed" else None
