"""From the files of a sweep to a decision; a pure function that measures nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sweeper.judge.bootstrap import one_thread
from sweeper.judge.compare import Comparison, compare_all, seed_of
from sweeper.judge.conditions import LOAD, conditions_key
from sweeper.judge.decision import decide
from sweeper.judge.recommend import recommendation, schedules
from sweeper.judge.service import over_loads
from sweeper.judge.shared import without_collector
from sweeper.judge.verdict import (
    SYNTHETIC,
    Judgement,
    Overall,
    Recommendation,
    Scheduled,
    WorkloadVerdict,
)
from sweeper.store import SweepFolder, asked, read_sweep
from sweeper.values import Thresholds

__all__ = ["Judgement", "judge"]


def judge(folder: SweepFolder, thresholds: Thresholds | None = None) -> Judgement:
    """Comparisons, a verdict for every workload, and one over all of them.

    ``thresholds`` are those the sweep was started with, unless others are given.

    :raises StoreError: when ``folder`` holds no sweep.
    """
    sweep = read_sweep(folder)
    limits = thresholds or asked(sweep, "verdict", Thresholds)
    with one_thread(), without_collector():
        comparisons = compare_all(folder, sweep)
        loads, seed = over_loads(comparisons), seed_of(sweep)
        found = tuple(decide(group, loads, limits, seed) for group in workloads(comparisons))
    by_load = schedules(found)
    return Judgement(
        sweep=sweep.id,
        comparisons=comparisons,
        workloads=found,
        schedules=by_load,
        overall=_overall(found, by_load),
    )


def workloads(comparisons: Iterable[Comparison]) -> tuple[tuple[Comparison, ...], ...]:
    """The points of equal conditions, whatever they are called, in order of appearance."""
    found: dict[str, list[Comparison]] = {}
    for one in comparisons:
        found.setdefault(conditions_key(one.point), []).append(one)
    return tuple(tuple(group) for group in found.values())


def _overall(found: Sequence[WorkloadVerdict], over_loads: Sequence[Scheduled]) -> Overall:
    """Deploy where one setting, or one schedule, can be deployed for every workload."""
    judged = [w for w in found if w.verdict is not None]
    if not judged:
        why = SYNTHETIC if found else "nothing was measured"
        return Overall(verdict=None if found else "inconclusive", sentence=why)
    if all(w.verdict == "don't" for w in judged):
        return Overall(verdict="don't", sentence="no setting for any workload")
    everywhere = _everywhere(judged)
    if everywhere is not None:
        words = f"{everywhere.point.label} for {_all(judged)}"
        return Overall(verdict="deploy", sentence=words, recommendation=recommendation(everywhere))
    schedule = _one_schedule(judged, over_loads)
    if schedule is not None:
        words = "a schedule by the number of requests under way, off where it does not pay"
        return Overall(verdict="deploy", sentence=words, recommendation=schedule)
    return Overall(verdict="inconclusive", sentence=_divided(judged))


def _all(judged: Sequence[WorkloadVerdict]) -> str:
    return "the one workload" if len(judged) == 1 else f"all {len(judged)} workloads"


def _everywhere(judged: Sequence[WorkloadVerdict]) -> Comparison | None:
    """A setting that passes for every workload: the one recommended most often, then the one
    with the smaller γ. Workloads of several targets have no server in common."""
    keys = [{c.point.server.key for c in w.passing} for w in judged]
    common = set.intersection(*keys)
    chosen = [w.recommended.point.server.key for w in judged if w.recommended is not None]
    passing = [c for c in judged[0].passing if c.point.server.key in common]
    order = sorted(passing, key=lambda c: (-chosen.count(c.point.server.key), c.point.gamma))
    return order[0] if order else None


def _one_schedule(
    judged: Sequence[WorkloadVerdict], over_loads: Sequence[Scheduled]
) -> Recommendation | None:
    """That of the only dataset and sampling, when every workload is settled."""
    settled = all(w.verdict in ("deploy", "don't") for w in judged)
    if not settled or len(over_loads) != 1:
        return None
    conditions = {conditions_key(w.candidates[0].point, LOAD) for w in judged}
    return over_loads[0].recommendation if len(conditions) == 1 else None


def _divided(judged: Sequence[WorkloadVerdict]) -> str:
    """``deploy for code · …; don't for chat · …``."""
    parts = []
    for word in ("deploy", "don't", "inconclusive"):
        names = [w.name for w in judged if w.verdict == word]
        if names:
            parts.append(f"{word} for {', '.join(names)}")
    if all(w.verdict == "inconclusive" for w in judged):
        return f"no verdict for {_all(judged)}"
    if all(w.verdict == "deploy" for w in judged):
        return f"every workload has a setting of its own: {parts[0]}"
    return "; ".join(parts)
