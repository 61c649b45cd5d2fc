"""One point beside its baseline: what divides by the baseline, or why nothing may."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from sweeper.judge.arms import Arm
from sweeper.judge.bootstrap import Figure, draw_ahead, undefined
from sweeper.judge.comparable import engine_differences, incomparable, unrecorded
from sweeper.judge.distribution import sampled
from sweeper.judge.gathered import Gathered
from sweeper.judge.output import OutputCheck, no_output_check, output_check
from sweeper.judge.quality import QualityFigures, quality_figures
from sweeper.judge.slices import Slice, slices
from sweeper.judge.speedup import (
    COST,
    RATE,
    TIME,
    TPOT,
    Pair,
    Paired,
    pair,
    paired,
    paired_batches,
    rendered_differently,
    same_history,
)
from sweeper.judge.underload import BY_TPOT, speedup_by, throughput_ratio
from sweeper.measure.times import SHARED_STREAM
from sweeper.values import PointResult

OF_BATCHES = "a batch holds prompts of several categories and ends when its last sequence does"
NONE_HERE = "no baseline in this sweep"
OFF = "baseline=off"
"""Why there is nothing to compare with."""
NO_TEXT = "synthetic prompts: a speed-up on them says nothing about text; measure a real dataset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """The figures that need the baseline; ``paired`` is ``None`` where nothing is comparable."""

    speedup: Figure
    request_time: Figure
    throughput: Figure
    tpot: Figure
    step_cost: Figure
    output: OutputCheck
    slices: tuple[Slice, ...]
    paired: Paired | None = None
    notes: tuple[str, ...] = field(default=())
    pairs: tuple[Pair, ...] = ()


def against(
    arm: Arm,
    mine: Gathered | None,
    base: Arm | None,
    *,
    seed: int,
    missing: str = NONE_HERE,
) -> Against:
    """``arm``, of whose requests ``mine`` is gathered, against ``base``, which is ``None`` for a
    baseline and where there is none; ``missing`` says why there is none."""
    reason = _no_pair(arm, base, missing)
    if reason or mine is None or base is None or base.result is None or arm.result is None:
        output = no_output_check(reason, _graded(arm, base, seed))
        return _nothing(mine, reason, output, seed=seed)
    all_pairs = pair(base.records, arm.records)
    pairs = same_history(all_pairs)
    output = output_check(
        pairs,
        greedy=arm.planned.point.sampling.greedy,
        seed=seed,
        floor=base.floor,
        quality=_graded(arm, base, seed),
        sampled=sampled(base.samples, arm.samples, seed=seed),
    )
    notes = (
        *engine_differences(base.result, arm.result),
        *_assumed(base.result, arm.result),
        *_other_history(len(all_pairs) - len(pairs)),
    )
    reason = incomparable(base.result, arm.result) or _other_prompts(pairs)
    if arm.planned.point.dataset.synthetic:
        reason = reason or NO_TEXT
    if reason:
        return _nothing(mine, reason, output, notes, seed=seed)
    load, by_tpot = arm.planned.point.load, speedup_by(arm.planned.point) == BY_TPOT
    shared = load.stream and arm.planned.point.sampling.n > 1
    both = paired_batches(pairs) if load.batches else paired(pairs)
    draw_ahead((*mine.tables, *both.tables(RATE, TIME, TPOT, COST)), seed=seed)
    return Against(
        speedup=both.speedup(by_tpot=by_tpot, seed=seed),
        request_time=both.request_time(seed=seed),
        throughput=throughput_ratio(base.records, arm.records, load)
        if load.overlapping
        else undefined("requests do not overlap: the output rate is that of one request"),
        tpot=undefined(SHARED_STREAM) if shared else both.tpot(seed=seed),
        step_cost=_step_cost(both, base.result, arm.result, seed),
        output=output,
        slices=slices(mine.drafts, None, OF_BATCHES, seed=seed)
        if load.batches
        else slices(mine.drafts, both, "", by_tpot=by_tpot, seed=seed),
        paired=both,
        notes=notes,
        pairs=tuple(pairs),
    )


def _nothing(
    mine: Gathered | None,
    reason: str,
    output: OutputCheck,
    notes: tuple[str, ...] = (),
    *,
    seed: int,
) -> Against:
    none = undefined(reason)
    return Against(
        speedup=none,
        request_time=none,
        throughput=none,
        tpot=none,
        step_cost=none,
        output=output,
        slices=slices(mine.drafts, None, reason, seed=seed) if mine else (),
        notes=notes,
    )


def _step_cost(both: Paired, base: PointResult, result: PointResult, seed: int) -> Figure:
    """By request where requests tell, else from the counters of the two servers."""
    figure = both.step_cost(seed=seed)
    if figure.value is not None:
        return figure
    there, here = _step_seconds(base), _step_seconds(result)
    if there is None or here is None:
        return figure
    return Figure(value=here / there, reason="of the servers' counters: no interval")


def _step_seconds(result: PointResult) -> float | None:
    """Mean seconds of a decode step over the measured part, by the server's own counters."""
    counters = result.counters if isinstance(result.counters, dict) else {}
    change = counters.get("change") or {}
    steps, seconds = change.get("decode_steps"), change.get("decode_seconds")
    if not steps or not seconds or not np.isfinite(seconds / steps):
        return None
    return float(seconds / steps)


def _graded(arm: Arm, base: Arm | None, seed: int) -> QualityFigures:
    if not arm.usable:
        return QualityFigures(share=undefined(arm.why), change=undefined(arm.why))
    return quality_figures(
        arm.quality,
        base.quality if base else None,
        is_baseline=arm.planned.point.is_baseline,
        seed=seed,
    )


def _no_pair(arm: Arm, base: Arm | None, missing: str) -> str:
    """Why there is nothing to divide by, empty when there is."""
    if arm.planned.point.is_baseline:
        return "is the baseline"
    if not arm.usable:
        return arm.why
    if base is None:
        return missing
    if not base.usable:
        return f"baseline {base.why}"
    if any(r.spec is not None and r.spec.drafted for r in base.records):
        return "the baseline drafted tokens: its server speculates"
    return ""


def _other_prompts(pairs: Sequence[Pair]) -> str:
    count = rendered_differently(pairs)
    return f"not comparable: {count} prompts were rendered differently" if count else ""


def _other_history(left: int) -> Iterator[str]:
    if left:
        yield f"{left} later turns follow another earlier answer than the baseline's: not compared"


def _assumed(base: PointResult, result: PointResult) -> Iterator[str]:
    missing = sorted({*unrecorded(base), *unrecorded(result)})
    if missing:
        yield f"provenance without {' and '.join(missing)}: equal conditions are assumed"
