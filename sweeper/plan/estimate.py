"""How long a plan will take: by earlier sweeps of the same model, else by stated assumptions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from sweeper.plan.amount import requests_of, rounds_of
from sweeper.plan.parallel import gpus
from sweeper.plan.past import Past, PastPoint
from sweeper.values import Group, Plan, PlannedPoint, Point

START_S = 120.0
"""Assumed from launch to the first completion: weights, profiling, graph capture of a small model
on a GPU, or a CPU server."""
TOKEN_S = 0.05
"""Assumed for a token of one stream: 20 tokens a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointEstimate:
    """Seconds of one point, canary and warm-up included."""

    number: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEstimate:
    """Seconds of one group: until its servers are ready, and of all its points.

    ``gpus`` is how many it holds meanwhile, 0 on a CPU. ``starts`` has the seconds of each of its
    servers, by :func:`start_of` its points.
    """

    key: str
    start_s: float
    run_s: float
    gpus: int
    points: tuple[PointEstimate, ...]
    starts: Mapping[tuple[str, str], float] = field(default_factory=dict)

    @property
    def total_s(self) -> float:
        return self.start_s + self.run_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Of the groups in the order of the plan; ``source`` says what it goes by, for people."""

    groups: tuple[GroupEstimate, ...]
    source: str

    @property
    def start_s(self) -> float:
        return sum(g.start_s for g in self.groups)

    @property
    def run_s(self) -> float:
        return sum(g.run_s for g in self.groups)

    @property
    def total_s(self) -> float:
        """One server after another."""
        return self.start_s + self.run_s

    @property
    def gpu_hours(self) -> float:
        return sum(g.total_s * g.gpus for g in self.groups) / 3600

    def seconds(self) -> dict[int, float]:
        """Of every point by number."""
        return {p.number: p.seconds for g in self.groups for p in g.points}


def estimate(
    plan: Plan,
    past: Past | None = None,
    *,
    kept: Collection[int] = (),
    on_cpu: Callable[[Group], bool] = lambda _: False,
    profiled: bool = False,
) -> Estimate:
    """Time of every group that has something to measure.

    ``kept`` are points that are not measured again; skipped points are not either. ``profiled``:
    every server is started a second time, and its points bear that in equal parts.
    """
    past = past or Past()
    said = _Said()
    groups = [
        _group(group, points, past, said, on_cpu(group), profiled)
        for group in plan.groups
        if (points := [p for p in group.points if not p.skip and p.number not in kept])
    ]
    return Estimate(groups=tuple(groups), source=said.sentence())


@dataclass(slots=True)
class _Said:
    """What the figures so far came from."""

    sweeps: set[str] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    assumed: set[str] = field(default_factory=set)

    def sentence(self) -> str:
        parts = []
        if self.sweeps:
            several = "s" if len(self.sweeps) > 1 else ""
            where = f" on {', '.join(sorted(filter(None, self.hosts)))}" if any(self.hosts) else ""
            parts.append(f"by {len(self.sweeps)} earlier sweep{several} of this model{where}")
        if self.assumed:
            parts.append(f"assumed: {', '.join(sorted(self.assumed))}")
        return "; ".join(parts)


def _group(
    group: Group,
    points: Sequence[PlannedPoint],
    past: Past,
    said: _Said,
    on_cpu: bool,
    profiled: bool,
) -> GroupEstimate:
    parts = replace(group, points=tuple(points)).starts
    starts = {start_of(part.points[0]): _start_s(part, past, said) for part in parts}
    more = sum(starts.values()) / len(points) if profiled else 0.0
    each = tuple(
        PointEstimate(number=p.number, seconds=_point_s(p.point, past, said) + more) for p in points
    )
    return GroupEstimate(
        key=group.key,
        start_s=sum(starts.values()),
        run_s=sum(p.seconds for p in each),
        gpus=0 if on_cpu else gpus(group),
        points=each,
        starts=starts,
    )


def of_start(found: Estimate, part: Group) -> GroupEstimate | None:
    """Of one server of a group and the points it serves; ``None`` where nothing is measured."""
    numbers = {p.number for p in part.points}
    for group in found.groups:
        if points := tuple(p for p in group.points if p.number in numbers):
            start_s = group.starts[start_of(part.points[0])]
            run_s = sum(p.seconds for p in points)
            return replace(group, start_s=start_s, run_s=run_s, points=points)
    return None


def start_of(planned: PlannedPoint) -> tuple[str, str]:
    """Equal for points that one start of one server serves."""
    return planned.point.before, planned.point.server.key


def _start_s(group: Group, past: Past, said: _Said) -> float:
    """The median of the starts most like this one: same server, same method, same model."""
    if group.server.kind == "external":
        return 0.0
    method = group.points[0].point.method
    alike = [s for s in past.starts if s.model == group.server.model]
    best = max(((s.key == group.key[:8], s.method == method) for s in alike), default=None)
    nearest = [s for s in alike if (s.key == group.key[:8], s.method == method) == best]
    if not nearest:
        said.assumed.add(f"{START_S:g} s a server start")
        return START_S
    said.sweeps |= {s.sweep for s in nearest}
    said.hosts |= {s.host for s in nearest}
    return median(s.seconds for s in nearest)


def _point_s(point: Point, past: Past, said: _Said) -> float:
    """Seconds of a point; what the load itself says about its length goes first."""
    load = point.load
    one = _request_s(point, past, said)
    before = (load.warmup_requests + 1) * one
    if load.duration_s is not None:
        return before + load.duration_s + one
    if load.name == "open" and load.rate:  # prompts arrive, further turns follow their answers
        arrivals = load.requests or point.dataset.prompts * point.repeats
        return before + arrivals / load.rate + one
    return before + rounds_of(point, requests_of(point)) * one


def _request_s(point: Point, past: Past, said: _Said) -> float:
    """Seconds of one request or batch, scaled by the longest answer where that was another."""
    nearest = _nearest(point, past.points)
    if not nearest:
        said.assumed.add(f"{TOKEN_S:g} s a token of one stream, every answer at its longest")
        return point.sampling.max_tokens * TOKEN_S
    said.sweeps |= {p.sweep for p in nearest}
    said.hosts |= {p.host for p in nearest}
    return median(_seconds_each(p) * _longer(point, p.point) for p in nearest)


def _nearest(point: Point, past: Sequence[PastPoint]) -> list[PastPoint]:
    """Points of the same model under the same kind of load that are most like this one."""
    alike = [
        p
        for p in past
        if p.point.server.model == point.server.model
        and p.point.load.label in (point.load.label, "sequential")
        and p.point.load.duration_s is None
    ]
    best = max((_likeness(point, p) for p in alike), default=None)
    return [p for p in alike if _likeness(point, p) == best]


def _likeness(point: Point, other: PastPoint) -> tuple[bool, ...]:
    return (
        point.key == other.key,
        point.load.label == other.point.load.label,
        point.method == other.point.method,
        point.gamma == other.point.gamma,
        point.dataset.digest == other.point.dataset.digest,
    )


def _seconds_each(past: PastPoint) -> float:
    """Of one request: the inverse of how :func:`_point_s` puts them together."""
    load = past.point.load
    rounds = rounds_of(past.point, past.requests) + load.warmup_requests + 1
    return past.seconds / rounds


def _longer(point: Point, than: Point) -> float:
    return point.sampling.max_tokens / than.sampling.max_tokens
