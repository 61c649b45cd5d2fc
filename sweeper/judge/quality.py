"""Task quality: how many answers solve their task, and whether fewer do than the baseline's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import bdtr

from sweeper.judge.bootstrap import Figure, resample, undefined
from sweeper.scores import Grade, Quality


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityFigures:
    """``share`` of answers that pass, or of pairs in which this point's answer was preferred.

    ``change`` is the difference to the baseline's share (to one half, for pairs), ``p_value`` that
    of the exact paired test that there is none.
    """

    share: Figure
    change: Figure
    p_value: float | None = None


def quality_figures(
    quality: Quality | None, baseline: Quality | None, *, is_baseline: bool, seed: int
) -> QualityFigures:
    """The figures of one point; with reasons where something is missing."""
    if quality is None or quality.problem:
        reason = quality.problem if quality else "answers were not graded"
        return QualityFigures(share=undefined(reason), change=undefined(reason))
    if quality.preferences:
        return _preferred(quality, seed)
    share = _share(quality.grades, seed)
    if is_baseline:
        return QualityFigures(share=share, change=undefined("is the baseline"))
    if baseline is None or baseline.problem or baseline.grader != quality.grader:
        reason = "the baseline's answers were not graded alike"
        return QualityFigures(share=share, change=undefined(reason))
    pairs = _paired(baseline.grades, quality.grades)
    rows = ((p, {"n": 1.0, "d": float(c) - float(b)}) for p, b, c in pairs)
    change = resample(rows, names=("n", "d"), seed=seed).figure(lambda s: s["d"] / s["n"])
    return QualityFigures(share=share, change=change, p_value=_p_value(pairs))


def sign_test(better: int, worse: int) -> float:
    """Two-sided exact p-value; of prompts answered once it is McNemar's exact test."""
    trials = better + worse
    return min(1.0, 2 * float(bdtr(min(better, worse), trials, 0.5))) if trials else 1.0


def _preferred(quality: Quality, seed: int) -> QualityFigures:
    rows = ((p.prompt_id, {"n": 1.0, "won": p.better}) for p in quality.preferences)
    drawn = resample(rows, names=("n", "won"), seed=seed)
    better = sum(p.better == 1.0 for p in quality.preferences)
    worse = sum(p.better == 0.0 for p in quality.preferences)
    return QualityFigures(
        share=drawn.figure(lambda s: s["won"] / s["n"]),
        change=drawn.figure(lambda s: s["won"] / s["n"] - 0.5),
        p_value=sign_test(better, worse),
    )


def _share(grades: Sequence[Grade], seed: int) -> Figure:
    rows = ((g.prompt_id, {"n": 1.0, "passed": float(g.passed)}) for g in grades)
    drawn = resample(rows, names=("n", "passed"), seed=seed)
    return drawn.figure(lambda s: s["passed"] / s["n"])


def _paired(baseline: Sequence[Grade], other: Sequence[Grade]) -> list[tuple[str, bool, bool]]:
    """Prompt, whether the baseline's answer passed, whether the other's did."""
    base = {(g.prompt_id, g.turn, g.repeat): g.passed for g in baseline}
    at = ((g, (g.prompt_id, g.turn, g.repeat)) for g in other)
    return [(g.prompt_id, base[key], g.passed) for g, key in at if key in base]


def _p_value(pairs: Sequence[tuple[str, bool, bool]]) -> float:
    """Over prompts: those with more passes than the baseline's against those with fewer."""
    balance: dict[str, int] = {}
    for prompt, base, other in pairs:
        balance[prompt] = balance.get(prompt, 0) + int(other) - int(base)
    return sign_test(sum(b > 0 for b in balance.values()), sum(b < 0 for b in balance.values()))
