"""Every point of a sweep beside its baseline: a pure function of the files of one sweep folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sweeper.judge.acceptance import Acceptance, acceptance, unmeasured_acceptance
from sweeper.judge.against import against
from sweeper.judge.arms import Arm, read_arm
from sweeper.judge.bootstrap import Figure, undefined
from sweeper.judge.cached import cache_notes, cached_share
from sweeper.judge.comparable import start_remarks
from sweeper.judge.notes import acceptance_notes, cut_notes, output_notes
from sweeper.judge.output import OutputCheck
from sweeper.judge.parts import Part, lengths
from sweeper.judge.profile import Profile, profile, profile_notes
from sweeper.judge.repeats import Repeats, repeats_of
from sweeper.judge.rollout import (
    Rollout,
    rollout,
    rollout_acceptance,
    rollout_notes,
    unmeasured_rollout,
)
from sweeper.judge.slices import Slice
from sweeper.judge.speedup import Paired
from sweeper.judge.timing import Timing, machine_of, timing, unmeasured_timing
from sweeper.judge.totals import with_totals
from sweeper.judge.underload import speedup_by
from sweeper.store import SweepFolder, from_json, read_sweep
from sweeper.values import PlannedPoint, Point, PointResult, Slo, Sweep


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One point and its figures; everything a report shows of it.

    ``status`` is that of the result, or ``lost`` and ``not measured yet`` without one. Only a
    completed point has figures. ``baseline`` is the number of the point compared with, ``None``
    for a baseline itself. ``output`` says whether the answers are still right. ``speedup`` is the
    ratio of what ``speedup_by`` names: output rates, or TPOT where requests overlap and are
    streamed. ``speedup_request_time`` is that of request times, ``speedup_tpot`` that of times
    per output token; all are paired by request and above 1 when the point is faster.
    ``speedup_throughput`` is the ratio of the output of the whole servers under an overlapping
    load, ``step_cost`` the time of a decode step over the baseline's. ``paired`` are the sums
    behind these, ``None`` where the point cannot be compared. ``rates`` and ``one_token`` are
    those of :class:`~sweeper.judge.timing.Timing`.
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
    speedup_tpot: Figure
    step_cost: Figure
    output: OutputCheck
    slices: tuple[Slice, ...]
    synthetic: bool
    paired: Paired | None = None
    notes: tuple[str, ...] = ()
    rollout: Rollout | None = None
    lengths: tuple[Part, ...] = ()
    repeats: Repeats = field(default_factory=Repeats)
    profile: Profile = field(default_factory=Profile)
    cached_share: Figure = field(default_factory=lambda: undefined("no server counters"))

    @property
    def number(self) -> int:
        return self.planned.number

    @property
    def point(self) -> Point:
        return self.planned.point

    @property
    def identical_share(self) -> Figure:
        return self.output.identical_share

    @property
    def speedup_by(self) -> str:
        return speedup_by(self.point.load)

    @property
    def slo_share(self) -> Figure:
        """Of all requests, failed ones included."""
        return self.rates["slo_share"]

    @property
    def completed(self) -> bool:
        return self.status == "completed"


def compare(folder: SweepFolder) -> tuple[Comparison, ...]:
    """All points in order of their numbers, measured or not."""
    sweep = read_sweep(folder)
    seed, slo = seed_of(sweep), _slo(sweep)
    points = sweep.plan.points
    numbered = {p.number: p for p in points}
    found = []
    for base, group in _by_baseline(points).items():  # the requests of one baseline at a time
        planned = None if base is None else numbered.get(base)
        arm = read_arm(folder, planned) if planned else None
        for p in group:
            mine = arm if arm and p is planned else read_arm(folder, p)
            found.append(_comparison(mine, None if mine is arm else arm, seed, slo))
    return tuple(sorted(found, key=lambda c: c.number))


def _by_baseline(points: Sequence[PlannedPoint]) -> dict[int | None, list[PlannedPoint]]:
    """Points by the number of their baseline, which is in its own group; ``None``: without."""
    needed = {p.baseline for p in points}
    found: dict[int | None, list[PlannedPoint]] = {}
    for p in points:
        found.setdefault(p.number if p.number in needed else p.baseline, []).append(p)
    return found


def seed_of(sweep: Sweep) -> int:
    seed = sweep.settings.get("seed") if isinstance(sweep.settings, dict) else None
    return seed if isinstance(seed, int) and seed >= 0 else 0


def _slo(sweep: Sweep) -> Slo:
    limits = sweep.settings.get("slo") if isinstance(sweep.settings, dict) else None
    return from_json(Slo, limits) if isinstance(limits, dict) else Slo()


def _comparison(arm: Arm, base: Arm | None, seed: int, slo: Slo) -> Comparison:
    drafts, times = _figures(arm, seed, slo)
    batches = _rollout(arm, seed)
    beside, load = against(arm, base, seed), arm.planned.point.load
    steps = profile(arm.split, baseline=arm.planned.point.is_baseline)
    # The answers to a prompt in one batch are numbered like repeats, and are none.
    repeated = arm.usable and not load.batches
    repeats = repeats_of(arm.records, beside.pairs, load) if repeated else Repeats()
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
        speedup=beside.speedup,
        speedup_request_time=beside.request_time,
        speedup_throughput=beside.throughput,
        speedup_tpot=beside.tpot,
        step_cost=beside.step_cost,
        output=beside.output,
        slices=beside.slices,
        synthetic=is_synthetic(arm.planned.point, arm.result),
        paired=beside.paired,
        lengths=lengths(arm.records) if arm.usable else (),
        repeats=repeats,
        profile=steps,
        cached_share=cached_share(arm.result),
        notes=(
            *arm.notes,
            *filter(None, (repeats.sentence,)),
            *cache_notes(arm.result, base.result if base else None),
            *acceptance_notes(drafts),
            *profile_notes(steps),
            *(rollout_notes(batches) if batches else ()),
            *beside.notes,
            *output_notes(beside.output),
            *(cut_notes(arm, beside.output) if arm.planned.point.is_baseline else ()),
            *(start_remarks(arm.result, base.result if base else None) if arm.result else ()),
        ),
        rollout=batches,
    )


def _rollout(arm: Arm, seed: int) -> Rollout | None:
    """``None`` for every other load."""
    if not arm.planned.point.load.batches:
        return None
    if not arm.usable:
        return unmeasured_rollout(arm.why)
    return rollout(arm.batches, arm.result, seed)


def _figures(arm: Arm, seed: int, slo: Slo) -> tuple[Acceptance, Timing]:
    if not arm.usable:
        reason = arm.why
        return unmeasured_acceptance(reason), unmeasured_timing(reason)
    point = arm.planned.point
    if point.load.batches:
        return _of_batches(arm, seed, slo)
    drafts = acceptance(arm.records, gamma=point.gamma, baseline=point.is_baseline, seed=seed)
    drafts = with_totals(drafts, arm.result.counters if arm.result else None, arm.records)
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


def _success_rate(result: PointResult | None) -> float | None:
    if result is None or not result.requests:
        return None
    return 1 - result.failed / result.requests


def is_synthetic(point: Point, result: PointResult | None) -> bool:
    """Whether prompts are no text, or drafts are accepted by a fixed rate: by the config the server
    resolved, else by the one it was to be given."""
    provenance = result.provenance if result and isinstance(result.provenance, dict) else {}
    resolved = provenance.get("resolved_speculative_config") or point.server.resolved or {}
    return point.dataset.synthetic or resolved.get("rejection_sample_method") == "synthetic"
