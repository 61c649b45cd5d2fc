"""One point beside its baseline: every figure that a report shows of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sweeper.judge.acceptance import Acceptance
from sweeper.judge.bootstrap import Figure, undefined
from sweeper.judge.output import OutputCheck
from sweeper.judge.parts import Part
from sweeper.judge.profile import Profile
from sweeper.judge.repeats import Repeats
from sweeper.judge.rollout import Rollout
from sweeper.judge.slices import Slice
from sweeper.judge.speedup import Paired
from sweeper.judge.underload import speedup_by
from sweeper.values import PlannedPoint, Point, PointResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One point and its figures; everything a report shows of it.

    ``status`` is that of the result, or ``lost`` and ``not measured yet`` without one. Only a
    completed point has figures. ``baseline`` is the number of the point compared with, ``None``
    for a baseline itself. ``output`` says whether the answers are still right. ``speedup`` is the
    ratio of what ``speedup_by`` names: output rates, or TPOT where requests overlap and are
    streamed, one answer each. ``speedup_request_time`` is that of request times, ``speedup_tpot``
    that of times per output token; all are paired by request and above 1 when the point is faster.
    ``speedup_throughput`` is the ratio of the output of the whole servers under an overlapping
    load, ``step_cost`` the time of a decode step over the baseline's. ``paired`` are the sums
    behind these, ``None`` where the point cannot be compared. ``rates`` and ``one_token`` are
    those of :class:`~sweeper.judge.timing.Timing`. ``conditions`` tells its conditions from others
    of the sweep that are called the same, ``cache=warm``; mostly empty.
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
    conditions: str = ""

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
        return speedup_by(self.point)

    @property
    def slo_share(self) -> Figure:
        """Of all requests, failed ones included."""
        return self.rates["slo_share"]

    @property
    def completed(self) -> bool:
        return self.status == "completed"
