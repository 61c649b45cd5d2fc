"""Equal points once, missing baselines added, points grouped by the server that serves them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from sweeper.plan.points import baseline_of
from sweeper.values import Group, Job, Plan, PlannedPoint, Point, Refusal, content_key


def plan(
    jobs: Sequence[Job],
    *,
    baseline: bool,
    refusals: Sequence[Refusal] = (),
    skips: Mapping[str, str] = MappingProxyType({}),
) -> Plan:
    """Order the work of ``jobs``: baseline servers first, then servers as they were first met.

    ``baseline``: add the baseline of every point that has none among the jobs. ``skips``
    gives the reasons of points that cannot be measured here, by their keys; they need no baseline.
    """
    asked: dict[str, list[int]] = {}
    points: dict[str, Point] = {}
    for job in jobs:
        first = points.setdefault(job.point.key, job.point)
        points[job.point.key] = _with_warnings_of(first, job.point)
        asked.setdefault(job.point.key, []).append(job.number)
    if baseline:
        for point in list(points.values()):
            if not point.is_baseline and point.server.kind == "vllm" and point.key not in skips:
                added = baseline_of(point)
                points.setdefault(added.key, added)
    ordered = _by_server(points.values())
    numbers = {point.key: number for number, point in enumerate(ordered)}
    baselines = {_conditions(p): numbers[p.key] for p in ordered if p.is_baseline}
    planned = [
        PlannedPoint(
            number=numbers[p.key],
            key=p.key,
            point=p,
            jobs=tuple(asked.get(p.key, ())),
            baseline=None if p.is_baseline else baselines.get(_conditions(p)),
            skip=skips.get(p.key, ""),
        )
        for p in ordered
    ]
    return Plan(jobs=tuple(jobs), groups=_groups(planned), refusals=tuple(refusals))


def _with_warnings_of(first: Point, equal: Point) -> Point:
    """Another spelling of a point may have been warned of something else."""
    return replace(first, warnings=tuple(dict.fromkeys(first.warnings + equal.warnings)))


def _conditions(point: Point) -> str:
    return content_key(point.conditions)


def _by_server(points: Iterable[Point]) -> list[Point]:
    """Points of one server side by side; servers without speculation come first."""
    by_key: dict[str, list[Point]] = {}
    for point in points:
        by_key.setdefault(point.server.key, []).append(point)
    servers = sorted(by_key.values(), key=lambda of_one: not of_one[0].is_baseline)
    return [point for of_one in servers for point in of_one]


def _groups(planned: Sequence[PlannedPoint]) -> tuple[Group, ...]:
    by_key: dict[str, list[PlannedPoint]] = {}
    for one in planned:
        by_key.setdefault(one.point.server.key, []).append(one)
    return tuple(
        Group(key=key, server=of_one[0].point.server, points=tuple(of_one))
        for key, of_one in by_key.items()
    )
