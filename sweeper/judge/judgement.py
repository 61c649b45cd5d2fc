"""From the files of a sweep to a decision; a pure function that measures nothing."""

from __future__ import annotations

from collections.abc import Iterable

from sweeper.judge.bootstrap import undefined
from sweeper.judge.compare import Comparison, compare
from sweeper.judge.verdict import (
    QUESTIONS,
    Answer,
    Judgement,
    Overall,
    WorkloadVerdict,
)
from sweeper.store import SweepFolder, read_sweep

__all__ = ["Judgement", "judge"]


def judge(folder: SweepFolder) -> Judgement:
    """Comparisons, a verdict for every workload, and one over all of them.

    :raises StoreError: when ``folder`` holds no sweep.
    """
    comparisons = compare(folder)
    return Judgement(
        sweep=read_sweep(folder).id,
        comparisons=comparisons,
        workloads=tuple(_workload(group) for group in workloads(comparisons)),
        overall=Overall(verdict="inconclusive", sentence="not judged yet"),
    )


def workloads(comparisons: Iterable[Comparison]) -> tuple[tuple[Comparison, ...], ...]:
    """The points of one target, dataset, sampling and load, in order of appearance."""
    found: dict[tuple[str, ...], list[Comparison]] = {}
    for one in comparisons:
        found.setdefault(_workload_of(one), []).append(one)
    return tuple(tuple(group) for group in found.values())


def _workload_of(one: Comparison) -> tuple[str, ...]:
    point = one.point
    return (point.target, point.dataset.name, point.sampling.name, point.load.label)


def _workload(group: tuple[Comparison, ...]) -> WorkloadVerdict:
    point = group[0].point
    return WorkloadVerdict(
        target=point.target,
        dataset=point.dataset.name,
        sampling=point.sampling.name,
        load=point.load.label,
        verdict="inconclusive",
        sentence="not judged yet",
        baseline=next((c for c in group if c.point.is_baseline), None),
        candidates=tuple(c for c in group if not c.point.is_baseline),
        best=None,
        recommended=None,
        tied=(),
        speedup=undefined("not judged yet"),
        answers=tuple(
            Answer(question=q, state="not measured", sentence="not measured: not judged yet")
            for q in QUESTIONS
        ),
    )
