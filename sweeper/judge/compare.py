"""Every point of a sweep beside its baseline: a pure function of the files of one sweep folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sweeper.judge.acceptance import Acceptance, acceptance, unmeasured_acceptance
from sweeper.judge.arms import Arm, read_arm
from sweeper.judge.bootstrap import Figure, undefined
from sweeper.judge.comparable import engine_differences, incomparable, start_remarks, unrecorded
from sweeper.judge.counted import with_counters
from sweeper.judge.distribution import sampled
from sweeper.judge.output import OutputCheck, no_output_check, output_check
from sweeper.judge.quality import QualityFigures, quality_figures
from sweeper.judge.rollout import (
    Rollout,
    rollout,
    rollout_acceptance,
    rollout_notes,
    unmeasured_rollout,
)
from sweeper.judge.speedup import (
    Pair,
    output_rate_ratio,
    pair,
    rendered_differently,
    request_time_ratio,
    same_history,
)
from sweeper.judge.timing import Timing, machine_of, timing, unmeasured_timing
from sweeper.judge.underload import BY_TPOT, speedup_by, throughput_ratio, tpot_ratio
from sweeper.store import SweepFolder, from_json, read_sweep
from sweeper.values import PlannedPoint, Point, PointResult, Slo, Sweep

FEWER_BELOW = 0.01
"""The p-value of the paired test under which lower quality is said beside a point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One point and its figures; everything a report shows of it.

    ``status`` is that of the result, or ``lost`` and ``not measured yet`` without one. Only a
    completed point has figures. ``baseline`` is the number of the point compared with, ``None``
    for a baseline itself. ``output`` says whether the answers are still right. ``speedup`` is the
    ratio of what ``speedup_by`` names: output rates, or TPOT where requests overlap and are
    streamed. ``speedup_request_time`` is that of request times; both are paired by request and
    above 1 when the point is faster. ``speedup_throughput`` is the ratio of the output of the
    whole servers under an overlapping load. ``rates`` and ``one_token`` are those of
    :class:`~sweeper.judge.timing.Timing`.
    """

    planned: PlannedPoint
    result: PointResult | None
    status: str
    reason: str
    baseline: int | None
    success_rate: float | None
    acceptance: Acceptance
    request_time_s: Figure
    output_tokens_per_s: Figure
    latencies: Mapping[str, Figure]
    goodput: Figure
    rates: Mapping[str, Figure]
    one_token: int | None
    speedup: Figure
    speedup_request_time: Figure
    speedup_throughput: Figure
    identical_share: Figure
    output: OutputCheck
    synthetic: bool
    notes: tuple[str, ...] = ()
    rollout: Rollout | None = None

    @property
    def number(self) -> int:
        return self.planned.number

    @property
    def point(self) -> Point:
        return self.planned.point

    @property
    def speedup_by(self) -> str:
        return speedup_by(self.point.load)

    @property
    def completed(self) -> bool:
        return self.status == "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Against:
    """The figures that need the baseline."""

    speedup: Figure
    request_time: Figure
    throughput: Figure
    output: OutputCheck
    notes: tuple[str, ...] = field(default=())


def compare(folder: SweepFolder) -> tuple[Comparison, ...]:
    """All points in order of their numbers, measured or not."""
    sweep = read_sweep(folder)
    seed, slo = _seed(sweep), _slo(sweep)
    points = sweep.plan.points
    needed = {p.baseline for p in points}
    bases = {p.number: read_arm(folder, p) for p in points if p.number in needed}
    return tuple(
        _comparison(bases.get(p.number) or read_arm(folder, p), bases, seed, slo) for p in points
    )


def _seed(sweep: Sweep) -> int:
    seed = sweep.settings.get("seed") if isinstance(sweep.settings, dict) else None
    return seed if isinstance(seed, int) and seed >= 0 else 0


def _slo(sweep: Sweep) -> Slo:
    limits = sweep.settings.get("slo") if isinstance(sweep.settings, dict) else None
    return from_json(Slo, limits) if isinstance(limits, dict) else Slo()


def _comparison(arm: Arm, bases: Mapping[int, Arm], seed: int, slo: Slo) -> Comparison:
    point, drafts, times = arm.planned.point, *_figures(arm, seed, slo)
    base = None if arm.planned.baseline is None else bases.get(arm.planned.baseline)
    batches = _rollout(arm, seed)
    against = _against(arm, base, seed)
    return Comparison(
        planned=arm.planned,
        result=arm.result,
        status=arm.status,
        reason=arm.reason,
        baseline=arm.planned.baseline,
        success_rate=_success_rate(arm.result),
        acceptance=drafts,
        request_time_s=times.request_time_s,
        output_tokens_per_s=times.output_tokens_per_s,
        latencies=times.latencies,
        goodput=times.goodput,
        rates=times.rates,
        one_token=times.one_token,
        speedup=against.speedup,
        speedup_request_time=against.request_time,
        speedup_throughput=against.throughput,
        identical_share=against.output.identical_share,
        output=against.output,
        synthetic=_is_synthetic(point),
        notes=(
            *arm.notes,
            *_acceptance_notes(point, drafts),
            *(rollout_notes(batches) if batches else ()),
            *against.notes,
            *_output_notes(against.output),
            *(start_remarks(arm.result, base.result if base else None) if arm.result else ()),
        ),
        rollout=batches,
    )


def _rollout(arm: Arm, seed: int) -> Rollout | None:
    """``None`` for every other load."""
    if arm.planned.point.load.name != "rollout":
        return None
    if not arm.usable:
        return unmeasured_rollout(arm.why)
    return rollout(arm.batches, arm.result, seed)


def _figures(arm: Arm, seed: int, slo: Slo) -> tuple[Acceptance, Timing]:
    if not arm.usable:
        reason = arm.why
        return unmeasured_acceptance(reason), unmeasured_timing(reason)
    point = arm.planned.point
    if point.load.name == "rollout":
        return _of_batches(arm, seed, slo)
    drafts = acceptance(arm.records, gamma=point.gamma, baseline=point.is_baseline, seed=seed)
    drafts = with_counters(drafts, arm.result)
    return drafts, _timing(arm, seed, slo)


def _timing(arm: Arm, seed: int, slo: Slo) -> Timing:
    result = arm.result
    machine = machine_of(result and result.provenance, result and result.counters)
    return timing(arm.records, arm.planned.point.load, slo=slo, seed=seed, machine=machine)


def _of_batches(arm: Arm, seed: int, slo: Slo) -> tuple[Acceptance, Timing]:
    """Batches and not sequences are what is timed and counted."""
    point = arm.planned.point
    found = rollout(arm.batches, arm.result, seed)
    times = replace(
        _timing(arm, seed, slo),
        request_time_s=found.batch_time_s,
        output_tokens_per_s=found.output_tokens_per_s,
    )
    return rollout_acceptance(arm.batches, baseline=point.is_baseline, seed=seed), times


def _against(arm: Arm, base: Arm | None, seed: int) -> _Against:
    reason = _no_pair(arm, base)
    if reason or base is None or base.result is None or arm.result is None:
        none = undefined(reason)
        graded = _graded(arm, base, seed)
        return _Against(
            speedup=none, request_time=none, throughput=none, output=no_output_check(reason, graded)
        )
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
    if reason:
        none = undefined(reason)
        return _Against(
            speedup=none, request_time=none, throughput=none, output=output, notes=notes
        )
    load = arm.planned.point.load
    by_tpot = speedup_by(load) == BY_TPOT
    return _Against(
        speedup=(tpot_ratio if by_tpot else output_rate_ratio)(pairs, seed=seed),
        request_time=request_time_ratio(pairs, seed=seed),
        throughput=throughput_ratio(base.records, arm.records, load)
        if load.overlapping
        else undefined("requests do not overlap: the output rate is that of one request"),
        output=output,
        notes=notes,
    )


def _graded(arm: Arm, base: Arm | None, seed: int) -> QualityFigures:
    if not arm.usable:
        return QualityFigures(share=undefined(arm.why), change=undefined(arm.why))
    return quality_figures(
        arm.quality,
        base.quality if base else None,
        is_baseline=arm.planned.point.is_baseline,
        seed=seed,
    )


def _no_pair(arm: Arm, base: Arm | None) -> str:
    """Why there is nothing to divide by, empty when there is."""
    if arm.planned.point.is_baseline:
        return "is the baseline"
    if not arm.usable:
        return arm.why
    if base is None:
        return "no baseline in this sweep"
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


def _output_notes(output: OutputCheck) -> Iterator[str]:
    """What must not be missed in any table."""
    if output.state == "wrong":
        yield f"WRONG OUTPUT: {output.sentence}"
    fewer = output.quality_change.value is not None and output.quality_change.value < 0
    if fewer and output.quality_p is not None and output.quality_p < FEWER_BELOW:
        yield f"task quality below the baseline's (exact paired test, p={output.quality_p:.2g})"


def _acceptance_notes(point: Point, found: Acceptance) -> Iterator[str]:
    if found.violations:
        yield f"{found.violations} of {found.checked} requests: tokens and steps do not add up"
    if found.without_metrics and found.state != "no per-request metrics":
        yield f"{found.without_metrics} requests without speculation metrics are not in A/D"


def _success_rate(result: PointResult | None) -> float | None:
    if result is None or not result.requests:
        return None
    return 1 - result.failed / result.requests


def _is_synthetic(point: Point) -> bool:
    speculative = point.server.speculative or {}
    return speculative.get("rejection_sample_method") == "synthetic"
