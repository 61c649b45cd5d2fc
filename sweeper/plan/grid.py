"""Equal points once, missing baselines added, points grouped by the server that serves them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from sweeper.plan.points import baseline_of
from sweeper.values import Baselines, Group, Job, Plan, PlannedPoint, Point, Refusal, content_key


def plan(
    jobs: Sequence[Job],
    *,
    baseline: Baselines,
    refusals: Sequence[Refusal] = (),
    skips: Mapping[str, str] = MappingProxyType({}),
) -> Plan:
    """Order the work of ``jobs``: baseline servers first, then servers as they were first met.

    ``baseline``: add the baseline of every point that has none among the jobs, or of every server
    one of its own. ``skips`` gives the reasons of points that cannot be measured here, by their
    keys; they need no baseline.
    """
    asked: dict[str, list[int]] = {}
    points: dict[str, Point] = {}
    for job in jobs:
        first = points.setdefault(job.point.key, job.point)
        points[job.point.key] = _with_warnings_of(first, job.point)
        asked.setdefault(job.point.key, []).append(job.number)
    if baseline != "off":
        own = baseline == "per_group"
        added = _added([p for key, p in points.items() if key not in skips], own)
        for asked_for in [p for p in points.values() if p.is_baseline and own]:
            _answered_by(added.values(), asked_for, points, asked)
        for key, base in added.items():
            points.setdefault(key, base)
    ordered = _by_server(points.values())
    numbers = {point.key: number for number, point in enumerate(ordered)}
    baselines = {(_conditions(p), p.before): numbers[p.key] for p in ordered if p.is_baseline}
    planned = [
        PlannedPoint(
            number=numbers[p.key],
            key=p.key,
            point=p,
            jobs=tuple(asked.get(p.key, ())),
            baseline=None if p.is_baseline else _baseline(p, baselines),
            skip=skips.get(p.key, ""),
        )
        for p in ordered
    ]
    return Plan(jobs=tuple(jobs), groups=_groups(planned), refusals=tuple(refusals))


def _with_warnings_of(first: Point, equal: Point) -> Point:
    """Another spelling of a point may have been warned of something else."""
    return replace(first, warnings=tuple(dict.fromkeys(first.warnings + equal.warnings)))


def _added(points: Iterable[Point], own: bool) -> dict[str, Point]:
    """The baselines of ``points`` by key; ``own``: of every server for itself."""
    found = {}
    for point in points:
        if not point.is_baseline and point.server.kind == "vllm":
            base = baseline_of(point)
            base = replace(base, before=_home(point)) if own else base
            found[base.key] = base
    return found


def _answered_by(
    added: Iterable[Point], one: Point, points: dict[str, Point], asked: dict[str, list[int]]
) -> None:
    """A baseline that was asked for is not measured once more where every server has its own."""
    same = [base.key for base in added if _conditions(base) == _conditions(one)]
    if same:
        asked |= dict.fromkeys(same, asked[one.key])
        del points[one.key]


def _baseline(point: Point, baselines: Mapping[tuple[str, str], int]) -> int | None:
    """The number of the point's own server's baseline, else of the shared one."""
    conditions = _conditions(point)
    return baselines.get((conditions, _home(point)), baselines.get((conditions, "")))


def _conditions(point: Point) -> str:
    return content_key(point.conditions)


def _home(point: Point) -> str:
    """The group that a point is measured with: that of its server. A suffix tree over all requests
    is cold on a fresh server only, so with ``cache=cold`` each such point has one for itself."""
    if point.before or not (point.keeps_tree and point.cache == "cold"):
        return point.before or point.server.key
    return content_key([point.server.key, point.key])


def _by_server(points: Iterable[Point]) -> list[Point]:
    """Points of one group side by side, its own baselines first; servers without speculation come
    before all others."""
    by_key: dict[str, list[Point]] = {}
    for point in points:
        by_key.setdefault(_home(point), []).append(point)
    servers = sorted(by_key.values(), key=lambda of_one: not all(p.is_baseline for p in of_one))
    return [p for of_one in servers for p in sorted(of_one, key=lambda p: not p.before)]


def _groups(planned: Sequence[PlannedPoint]) -> tuple[Group, ...]:
    by_key: dict[str, list[PlannedPoint]] = {}
    for one in planned:
        by_key.setdefault(_home(one.point), []).append(one)
    return tuple(
        Group(key=key, server=of_one[-1].point.server, points=tuple(of_one))
        for key, of_one in by_key.items()
    )
