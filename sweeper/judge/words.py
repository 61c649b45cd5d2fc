"""A judgement as lines of text, and as the JSON that deployment scripts read."""

from __future__ import annotations

from collections.abc import Iterator

from sweeper.judge.verdict import (
    Answer,
    Judgement,
    Overall,
    Recommendation,
    WorkloadVerdict,
)
from sweeper.store import to_json
from sweeper.values import Json

_SHORT = ("output right?", "candidates?", "step pays?", "SLO holds?")
WIDTH = max(len(text) for text in _SHORT)


def lines(judgement: Judgement) -> Iterator[str]:
    """Every workload, then the schedules over several loads, then all of it; no line is empty."""
    for workload in judgement.workloads:
        yield from _workload(workload)
    for one in judgement.schedules:
        yield f"schedule of {one.method}: {one.name}"
        yield from _run(one.recommendation)
    yield f"over all: {_headline(judgement.overall)}"
    if judgement.overall.recommendation is not None:
        yield from _run(judgement.overall.recommendation)


def _workload(workload: WorkloadVerdict) -> Iterator[str]:
    yield f"{workload.name}: {_headline(workload)}"
    yield from (f"  {line}" for line in evidence_lines(workload))
    if workload.recommendation is not None:
        yield from _run(workload.recommendation)


def evidence_lines(workload: WorkloadVerdict) -> Iterator[str]:
    """The four answers, one line each, then what would settle an inconclusive verdict."""
    for short, answer in zip(_SHORT, workload.answers, strict=True):
        yield f"{short:{WIDTH}} {_answer(answer)}"
    yield from (f"to conclude: {text}" for text in workload.to_conclude)


def _headline(one: WorkloadVerdict | Overall) -> str:
    return one.sentence if one.verdict is None else f"{one.verdict}. {one.sentence}"


def _answer(answer: Answer) -> str:
    """The state is not said twice."""
    if answer.sentence.startswith(answer.state):
        return answer.sentence
    return f"{answer.state}: {answer.sentence}"


def _run(recommendation: Recommendation) -> Iterator[str]:
    if recommendation.sentence:
        yield f"  note: {recommendation.sentence}"
    yield f"  run: {recommendation.command}"


def recommended(judgement: Judgement) -> Json:
    """``report/recommended.json``: verdicts, evidence, configuration and command."""
    return {
        "sweep": judgement.sweep,
        "synthetic": judgement.synthetic,
        "overall": _overall(judgement.overall),
        "workloads": [_workload_json(w) for w in judgement.workloads],
        "schedules": [to_json(one) for one in judgement.schedules],
    }


def _overall(overall: Overall) -> Json:
    return {
        "verdict": overall.verdict,
        "sentence": overall.sentence,
        "recommendation": _optional(overall.recommendation),
    }


def _workload_json(workload: WorkloadVerdict) -> Json:
    shown = workload.shown
    return {
        "target": workload.target,
        "dataset": workload.dataset,
        "sampling": workload.sampling,
        "load": workload.load,
        "conditions": workload.conditions,
        "verdict": workload.verdict,
        "sentence": workload.sentence,
        "about": shown.point.label if shown else None,
        "point": shown.number if shown else None,
        "tied": [c.point.label for c in workload.tied],
        "speedup": to_json(workload.speedup),
        "answers": [to_json(answer) for answer in workload.answers],
        "break_even": [to_json(one) for one in workload.break_even],
        "curves": [to_json(curve) for curve in workload.curves],
        "to_conclude": list(workload.to_conclude),
        "recommendation": _optional(workload.recommendation),
    }


def _optional(recommendation: Recommendation | None) -> Json:
    return None if recommendation is None else to_json(recommendation)
