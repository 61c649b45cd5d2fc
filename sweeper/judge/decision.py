"""The verdict on one workload: which settings could be deployed, and which of them to take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from sweeper.judge.against import OFF
from sweeper.judge.bootstrap import Figure, forget, undefined
from sweeper.judge.breakeven import break_even, curves, family, tokens_per_step
from sweeper.judge.compare import Comparison
from sweeper.judge.evidence import (
    candidates_answer,
    output_answer,
    pays_answer,
    service_answer,
    unanswered,
)
from sweeper.judge.hurdles import calm, output, service, speed
from sweeper.judge.ranking import Ranking, rank
from sweeper.judge.recommend import recommendation
from sweeper.judge.shown import say
from sweeper.judge.verdict import SYNTHETIC, Answer, Word, WorkloadVerdict
from sweeper.values import Thresholds


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """One setting: its speed-up, answers, and what keeps it from being deployed: ``against`` it
    are facts, ``open`` are questions without an answer and what would answer them."""

    one: Comparison
    speedup: Figure
    answers: tuple[Answer, ...]
    against: tuple[str, ...]
    open: tuple[str, ...]

    @property
    def word(self) -> Word:
        return "don't" if self.against else "inconclusive" if self.open else "deploy"

    @property
    def passes(self) -> bool:
        return self.word == "deploy"


def decide(
    group: Sequence[Comparison],
    at_all_loads: Mapping[int, Sequence[Comparison]],
    thresholds: Thresholds,
    seed: int,
) -> WorkloadVerdict:
    """``group`` are the points of one workload, ``at_all_loads`` those of the sweep by setting, see
    :func:`sweeper.judge.service.over_loads`."""
    forget()
    candidates = tuple(c for c in group if not c.point.is_baseline)
    real = [c for c in candidates if not c.synthetic]
    if not real and any(c.synthetic for c in group):
        return _verdict(group, candidates, None, SYNTHETIC)
    ranking = rank([c for c in real if c.completed], seed=seed)
    if ranking.best is None:
        why = _nothing_compared(real)
        return _verdict(group, candidates, "inconclusive", why, to_conclude=(why,))
    return _decided(group, candidates, at_all_loads, ranking, thresholds, seed)


def _decided(
    group: Sequence[Comparison],
    candidates: tuple[Comparison, ...],
    at_all_loads: Mapping[int, Sequence[Comparison]],
    ranking: Ranking,
    thresholds: Thresholds,
    seed: int,
) -> WorkloadVerdict:
    families: dict[str, list[Comparison]] = {}
    for one in candidates:
        families.setdefault(family(one), []).append(one)
    cases = [
        _case(c, baseline_of(c, group), at_all_loads, families[family(c)], ranking, thresholds)
        for c in candidates
        if c.number in ranking.speedups
    ]
    passing = [case for case in cases if case.passes]
    chosen = _choose(passing, ranking if len(passing) == len(cases) else None, seed)
    shown = chosen or max(cases, key=lambda case: (not case.against, case.speedup.value or 0.0))
    missing = tuple(
        f"{c.point.label} was not measured ({c.status}{': ' + c.reason if c.reason else ''})"
        for c in candidates
        if not c.synthetic and c.number not in ranking.speedups and c.status != "skipped"
    )
    word, sentence = _word(cases, chosen, shown, ranking, missing)
    undecided = [case for case in cases if case.open and not case.against]
    return _verdict(
        group,
        candidates,
        word,
        sentence,
        best=ranking.best,
        tied=ranking.tied,
        passing=tuple(case.one for case in passing),
        chosen=None if chosen is None else chosen.one,
        shown=shown,
        words={case.one.number: case.word for case in cases},
        to_conclude=(*_to_conclude(undecided), *missing) if word == "inconclusive" else (),
    )


def _to_conclude(undecided: Sequence[_Case]) -> Iterator[str]:
    """What is open, each sentence once with the settings it is about."""
    about: dict[str, list[str]] = {}
    for case in undecided:
        for text in case.open:
            about.setdefault(text, []).append(case.one.point.label)
    return (f"{', '.join(labels)}: {text}" for text, labels in about.items())


def _case(
    one: Comparison,
    baseline: Comparison | None,
    at_all_loads: Mapping[int, Sequence[Comparison]],
    siblings: Sequence[Comparison],
    ranking: Ranking,
    thresholds: Thresholds,
) -> _Case:
    speedup = ranking.speedups[one.number]
    answers = (
        output_answer(one, thresholds),
        candidates_answer(one, tokens_per_step(one), siblings, thresholds),
        pays_answer(one, break_even(one, baseline)),
        service_answer(one, baseline, at_all_loads, thresholds),
    )
    units = "batches" if one.point.load.batches else "prompts"
    needed = ranking.prompts_needed(one.number, thresholds.min_speedup)
    slower, unsettled = speed(speedup, ranking.prompts, units, needed, thresholds)
    wrong, unchecked = output(one, answers[0], ranking.prompts, units, thresholds)
    broken, unserved = service(one, baseline, answers[3], thresholds)
    if hurried := calm(one, baseline):  # then no time speaks for or against it
        slower = broken = ""
    return _Case(
        one=one,
        speedup=speedup,
        answers=answers,
        against=tuple(text for text in (wrong, slower, broken) if text),
        open=tuple(text for text in (unchecked, hurried, unsettled, unserved) if text),
    )


def _choose(passing: Sequence[_Case], ranking: Ranking | None, seed: int) -> _Case | None:
    """The fastest; of those that cannot be told from it the one with the smallest γ. ``ranking`` is
    that of these, where it is known."""
    if not passing:
        return None
    ranking = ranking or rank([case.one for case in passing], seed=seed)
    alike = {c.number for c in (ranking.best, *ranking.tied) if c is not None}
    pool = [case for case in passing if case.one.number in alike]
    return min(pool, key=lambda case: (case.one.point.gamma, -(case.speedup.value or 0.0)))


def _word(
    cases: Sequence[_Case],
    chosen: _Case | None,
    shown: _Case,
    ranking: Ranking,
    missing: Sequence[str],
) -> tuple[Word, str]:
    label = shown.one.point.label
    if chosen is not None:
        words = f"{label}: {say(chosen.speedup)} times the baseline by {chosen.one.speedup_by}"
        return "deploy", words + _tie(chosen, ranking)
    if all(case.against for case in cases) and not missing:
        return "don't", f"{label}, the best of {len(cases)}: {'; '.join(shown.against)}"
    if shown.open:
        return "inconclusive", f"{label}: {'; '.join(shown.open)}"
    return "inconclusive", f"{label}: {'; '.join(shown.against)}; {'; '.join(missing)}"


def _tie(chosen: _Case, ranking: Ranking) -> str:
    """Names what cannot be told from the choice, fastest first."""
    alike = [c for c in (ranking.best, *ranking.tied) if c is not None and c is not chosen.one]
    if chosen.one is not ranking.best and chosen.one not in ranking.tied:
        return "; faster ones do not pass"
    if not alike:
        return "; faster than every other setting" if len(ranking.speedups) > 1 else ""
    named = ", ".join(
        f"{c.point.label} ({say(Figure(value=ranking.speedups[c.number].value))})"
        for c in sorted(alike, key=lambda c: -(ranking.speedups[c.number].value or 0.0))
    )
    larger = any(c.point.gamma > chosen.one.point.gamma for c in alike)
    rule = "the smaller γ" if larger else "of equal γ the faster"
    return f"; not told apart from {named}: {rule} is taken"


def baseline_of(one: Comparison, group: Sequence[Comparison]) -> Comparison | None:
    """The point it was compared with."""
    return next((c for c in group if c.number == one.baseline), None)


def _nothing_compared(candidates: Sequence[Comparison]) -> str:
    if not candidates:
        return "only a baseline was measured; measure a method"
    if all(c.baseline is None for c in candidates):
        off = "baseline=off: " if any(c.speedup.reason == OFF for c in candidates) else ""
        return f"{off}there is no baseline to compare with; measure one (baseline=shared)"
    reasons = dict.fromkeys(f"{c.point.label}: {c.speedup.reason}" for c in candidates)
    return "; ".join(reasons)


def _verdict(
    group: Sequence[Comparison],
    candidates: tuple[Comparison, ...],
    word: Word | None,
    sentence: str,
    *,
    best: Comparison | None = None,
    tied: tuple[Comparison, ...] = (),
    passing: tuple[Comparison, ...] = (),
    chosen: Comparison | None = None,
    shown: _Case | None = None,
    words: Mapping[int, Word] = MappingProxyType({}),
    to_conclude: tuple[str, ...] = (),
) -> WorkloadVerdict:
    point = group[0].point
    compared = [c for c in candidates if c.completed and not c.synthetic]
    return WorkloadVerdict(
        target=point.target,
        dataset=point.dataset.name,
        sampling=point.sampling.name,
        load=point.load.label,
        conditions=group[0].conditions,
        verdict=word,
        sentence=sentence,
        baselines=tuple(c for c in group if c.point.is_baseline),
        candidates=candidates,
        shown=None if shown is None else shown.one,
        best=best,
        recommended=chosen,
        tied=tied,
        passing=passing,
        speedup=shown.speedup if shown else undefined(sentence),
        answers=shown.answers if shown else unanswered(sentence),
        words=words,
        break_even=tuple(break_even(c, baseline_of(c, group)) for c in compared),
        curves=curves(candidates),
        to_conclude=to_conclude,
        recommendation=recommendation(chosen) if chosen else None,
    )
