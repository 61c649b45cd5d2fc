"""How long earlier sweeps took, from their files: what an estimate goes by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sweeper import store
from sweeper.errors import StoreError
from sweeper.store import SweepFolder
from sweeper.values import Json, Plan, Point

NEWEST = 20
"""Sweeps that are read; older ones say less and reading takes time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastPoint:
    """A point that completed: ``seconds`` of its whole measurement, warm-up included."""

    point: Point
    key: str
    sweep: str
    host: str
    seconds: float
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PastStart:
    """A server that became ready after ``seconds``; ``key`` is the first 8 digits of its key."""

    key: str
    model: str
    method: str
    sweep: str
    host: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What was measured before, the newest first."""

    points: tuple[PastPoint, ...] = ()
    starts: tuple[PastStart, ...] = ()


def read_past(outputs: Path) -> Past:
    """The newest sweeps below ``outputs``; folders of other versions are passed over."""
    points: list[PastPoint] = []
    starts: list[PastStart] = []
    for path in _newest(outputs):
        folder = SweepFolder(path)
        try:
            sweep = store.read_sweep(folder)
        except StoreError:
            continue
        found = list(_points(folder, sweep.plan, sweep.id))
        points += found
        hosts = {p.point.server.key[:8]: p.host for p in found}
        starts += _starts(folder, sweep.plan, sweep.id, hosts)
    return Past(points=tuple(points), starts=tuple(starts))


def _newest(outputs: Path) -> list[Path]:
    """Names begin with date and time, so their order is that of time."""
    found = sorted(outputs.glob("*/*/sweep.json"), reverse=True)
    return [path.parent for path in found[:NEWEST]]


def _points(folder: SweepFolder, plan: Plan, sweep: str) -> Iterator[PastPoint]:
    for planned in plan.points:
        result = folder.point(planned).read_result()
        if result is not None and result.status == "completed" and result.requests:
            yield PastPoint(
                point=planned.point,
                key=planned.key,
                sweep=sweep,
                host=_host(result.provenance),
                seconds=result.wall_s,
                requests=result.requests,
            )


def _starts(
    folder: SweepFolder, plan: Plan, sweep: str, hosts: dict[str, str]
) -> Iterator[PastStart]:
    starts = {part.key: part for group in plan.groups for part in group.starts}
    for group in starts.values():
        for path in sorted((folder.path / "servers").glob(f"{group.key[:8]}-*/server.json")):
            try:
                seconds = store.read_json(path).get("start_s")
            except (StoreError, AttributeError):
                continue
            if isinstance(seconds, int | float):
                yield PastStart(
                    key=group.key[:8],
                    model=group.server.model,
                    method=group.points[0].point.method,
                    sweep=sweep,
                    host=hosts.get(group.server.key[:8], ""),
                    seconds=float(seconds),
                )


def _host(provenance: Json) -> str:
    host = provenance.get("host") if isinstance(provenance, dict) else None
    return str((host or {}).get("hostname") or "")
