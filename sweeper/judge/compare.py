"""Every point of a sweep beside its baseline: a pure function of the files of one sweep folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sweeper.judge.acceptance import Acceptance, acceptance, unmeasured_acceptance
from sweeper.judge.against import NONE_HERE, OFF, against
from sweeper.judge.arms import Arm, read_arm
from sweeper.judge.bootstrap import forget
from sweeper.judge.cached import cache_notes, cached_share
from sweeper.judge.comparable import busy, start_remarks
from sweeper.judge.comparison import Comparison
from sweeper.judge.conditions import called, conditions_key, told_apart
from sweeper.judge.gathered import Gathered, gather
from sweeper.judge.notes import acceptance_notes, cut_notes, output_notes
from sweeper.judge.parts import lengths
from sweeper.judge.profile import profile, profile_notes
from sweeper.judge.repeats import Repeats, repeats_of, repeats_of_batches
from sweeper.judge.rollout import (
    Rollout,
    rollout,
    rollout_acceptance,
    rollout_notes,
    timed_as_batches,
    unmeasured_rollout,
)
from sweeper.judge.shared import shared_out
from sweeper.judge.speedup import Pair
from sweeper.judge.timing import Timing, machine_of, timing, unmeasured_timing
from sweeper.judge.totals import with_totals
from sweeper.plan.amount import batches_of
from sweeper.store import SweepFolder, asked, read_sweep
from sweeper.values import PlannedPoint, Point, PointResult, Slo, Sweep

__all__ = ["Comparison", "compare"]

TOGETHER = 16
"""Points after which a baseline is read again, so that processes can share the work."""


def compare(folder: SweepFolder) -> tuple[Comparison, ...]:
    """All points in order of their numbers, measured or not."""
    return compare_all(folder, read_sweep(folder))


def compare_all(folder: SweepFolder, sweep: Sweep) -> tuple[Comparison, ...]:
    """:func:`compare` of a ``folder`` whose ``sweep`` is read already."""
    seed, slo, missing = seed_of(sweep), asked(sweep, "slo", Slo), _missing(sweep)
    points = sweep.plan.points
    numbered = {p.number: p for p in points}
    shares = [
        Share(
            folder=folder,
            baseline=None if base is None else numbered.get(base),
            points=tuple(group[at : at + TOGETHER]),
            seed=seed,
            slo=slo,
            missing=missing,
        )
        for base, group in _by_baseline(points).items()
        for at in range(0, len(group), TOGETHER)
    ]
    made = shared_out(compared, shares, size=sum(folder.point(p).size() for p in points))
    every = sorted((c for found in made for c in found), key=lambda c: c.number)
    return _told_apart(every)


def _told_apart(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Says what differs between those that names alone make look alike."""
    more = told_apart((c.point for c in comparisons), called)
    if not any(more.values()):
        return tuple(comparisons)
    return tuple(replace(c, conditions=more[conditions_key(c.point)]) for c in comparisons)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Points that are compared with one baseline, read once for all of them; ``missing`` says why
    there is none."""

    folder: SweepFolder
    baseline: PlannedPoint | None
    points: tuple[PlannedPoint, ...]
    seed: int
    slo: Slo
    missing: str


def compared(share: Share) -> tuple[Comparison, ...]:
    """The requests of one point at a time, beside those of the baseline."""
    forget()
    planned, folder = share.baseline, share.folder
    arm = read_arm(folder, planned) if planned else None
    found = []
    for p in share.points:
        mine = arm if arm and planned and p.number == planned.number else read_arm(folder, p)
        base = None if mine is arm else arm
        found.append(_comparison(mine, base, share.seed, share.slo, share.missing))
    return tuple(found)


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


def _missing(sweep: Sweep) -> str:
    """Why a point has no baseline, if it has none."""
    policy = sweep.settings.get("baseline") if isinstance(sweep.settings, dict) else None
    return OFF if policy == "off" else NONE_HERE


def _comparison(arm: Arm, base: Arm | None, seed: int, slo: Slo, missing: str) -> Comparison:
    mine = gather(arm)
    beside = against(arm, mine, base, seed=seed, missing=missing)
    drafts, times = _figures(arm, mine, seed, slo)
    batches = _rollout(arm, seed)
    steps = profile(arm.split, baseline=arm.planned.point.is_baseline)
    repeats = _repeats(arm, beside.pairs)
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
            *filter(None, (busy(arm.result),)),
            *output_notes(beside.output),
            *(cut_notes(arm, beside.output) if arm.planned.point.is_baseline else ()),
            *(start_remarks(arm.result, base.result if base else None) if arm.result else ()),
        ),
        rollout=batches,
    )


def _repeats(arm: Arm, pairs: Sequence[Pair]) -> Repeats:
    point = arm.planned.point
    if not arm.usable:
        return Repeats()
    if point.load.batches:
        return repeats_of_batches(arm.batches, pairs, point)
    return repeats_of(arm.records, pairs, point)


def _rollout(arm: Arm, seed: int) -> Rollout | None:
    """``None`` for every other load."""
    if not arm.planned.point.load.batches:
        return None
    if not arm.usable:
        return unmeasured_rollout(arm.why)
    return rollout(arm.batches, arm.result, batches_of(arm.planned.point), seed)


def _figures(arm: Arm, mine: Gathered | None, seed: int, slo: Slo) -> tuple[Acceptance, Timing]:
    if mine is None:
        return unmeasured_acceptance(arm.why), unmeasured_timing(arm.why)
    result, load = arm.result, arm.planned.point.load
    machine = machine_of(result and result.provenance, result and result.counters)
    times = timing(mine.times, load, slo=slo, seed=seed, machine=machine)
    if load.batches:
        return _of_batches(arm, times, seed)
    drafts = acceptance(mine.drafts, seed=seed)
    return with_totals(drafts, result.counters if result else None, arm.records), times


def _of_batches(arm: Arm, times: Timing, seed: int) -> tuple[Acceptance, Timing]:
    """Batches and not sequences are what is timed and counted."""
    point = arm.planned.point
    each, baseline = batches_of(point), point.is_baseline
    found = rollout(arm.batches, arm.result, each, seed)
    drafts = rollout_acceptance(arm.batches, each, baseline=baseline, seed=seed)
    return drafts, timed_as_batches(times, found)


def _success_rate(result: PointResult | None) -> float | None:
    if result is None or not result.requests:
        return None
    return 1 - result.failed / result.requests


def is_synthetic(point: Point, result: PointResult | None) -> bool:
    """Whether prompts are no text, or drafts are accepted by a fixed rate: by the config the server
    resolved, else by the one it was to be given. A control is, with its baseline."""
    provenance = result.provenance if result and isinstance(result.provenance, dict) else {}
    resolved = provenance.get("resolved_speculative_config") or point.server.resolved or {}
    by_rate = resolved.get("rejection_sample_method") == "synthetic"
    return point.control == "synthetic" or by_rate or point.dataset.synthetic
