"""``resume=DIR``: what of an earlier run of the same sweep is kept, and what is measured again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sweeper import store
from sweeper.errors import UserError
from sweeper.jobs import queue
from sweeper.jobs.attempt import attempts
from sweeper.plan.kept import together
from sweeper.store import PointFolder, SweepFolder
from sweeper.values import Json, Plan, PlannedPoint, PointResult, Sweep

SHOWN = 12
"""Differences that are listed; the rest is counted."""


def differences(old: Sweep, plan: Plan, versions: Mapping[str, Json]) -> tuple[str, ...]:
    """What is asked for now and was not then, one ``path: was x, is y`` each."""
    before, now = old.plan.points, plan.points
    found = list(_changed("versions", _as_mapping(old.versions), versions))
    keys = {p.key for p in before} ^ {p.key for p in now}
    if keys and len(before) == len(now):
        for one, other in zip(before, now, strict=True):
            name = f"point {other.number} ({other.point.label})"
            found += _changed(name, one.point.identity, other.point.identity)
    elif keys:
        found += [f"no longer asked for: {_say(p)}" for p in before if p.key in keys]
        found += [f"not asked for then: {_say(p)}" for p in now if p.key in keys]
    return tuple(dict.fromkeys(found))


def refuse_changes(folder: SweepFolder, found: Sequence[str]) -> None:
    """:raises UserError: when there are differences, with a list of them."""
    if found:
        rest = [f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
        lines = "\n  ".join([*found[:SHOWN], *rest])
        raise UserError(
            f"resume: this is not the sweep in {folder.path}:\n  {lines}\n"
            "give the same settings, start a new sweep without resume, or measure what has "
            "changed again with resume_changed=rerun"
        )


def refuse_running(folder: SweepFolder, old: Sweep) -> None:
    """:raises UserError: while jobs of the sweep are in Slurm's queue."""
    jobs = {one.job for g in old.plan.groups for one in attempts(folder.group(g.key))}
    ours = {job for job in jobs if not job.startswith("worker ")}
    states = queue.SlurmQueue().states() if ours else {}
    left = sorted(ours & set(states or {}))
    if states is None:
        raise UserError("resume: Slurm does not answer, so its jobs may still be running")
    if left:
        raise UserError(
            f"resume: {', '.join(left)} of this sweep {'is' if len(left) == 1 else 'are'} still in "
            f"Slurm's queue; wait with python -m sweeper.collect {folder.path}, or scancel them"
        )


def arrange(folder: SweepFolder, old: Sweep, plan: Plan, same_versions: bool) -> set[int]:
    """Move files so that completed points of ``plan`` are in place and no others.

    Returns the numbers of the points that are kept; with ``same_versions`` false there are none.
    What is not kept goes to ``superseded/``.
    """
    stay = {(p.number, p.key) for p in plan.points}
    for planned in old.plan.points:  # out of the way first: numbers may have changed places
        if (planned.number, planned.key) not in stay and folder.point(planned).path.exists():
            folder.point(planned).path.rename(_old(folder, planned).path)
    kept: dict[str, tuple[PointFolder, PointResult]] = {}
    for planned in old.plan.points:
        moved = _old(folder, planned)
        home = moved if moved.path.exists() else folder.point(planned)
        result = home.read_result()
        if same_versions and result and _completed(result, planned, old.id):
            kept[planned.key] = (home, result)
    left = {p.number for p in plan.points if p.key not in kept and not p.skip}
    broken = together(plan.points, left)
    for planned in plan.points:
        home = folder.point(planned)
        if planned.number in broken:
            kept.pop(planned.key, None)
        if planned.key not in kept:
            folder.set_aside(home)
        elif kept[planned.key][0].path != home.path:
            before, result = kept[planned.key]
            before.path.rename(home.path)
            store.write_json(home.result, store.to_json(replace(result, number=planned.number)))
    for planned in old.plan.points:
        moved = _old(folder, planned)
        if moved.path.exists():
            folder.set_aside(moved)
            shutil.rmtree(moved.path)
    return {p.number for p in plan.points if p.key in kept}


def completed_keys(folder: SweepFolder, old: Sweep) -> frozenset[str]:
    """Keys of the points whose results would be kept under the same versions; moves nothing."""
    results = store.read_results(folder, old.plan)
    return frozenset(
        p.key
        for p in old.plan.points
        if p.number in results and _completed(results[p.number], p, old.id)
    )


def _completed(result: PointResult, planned: PlannedPoint, sweep: str) -> bool:
    return (result.status, result.sweep, result.key) == ("completed", sweep, planned.key)


def _old(folder: SweepFolder, planned: PlannedPoint) -> PointFolder:
    home = folder.point(planned).path
    return PointFolder(home.with_name(f"old-{home.name}"))


def _changed(where: str, old: Json, new: Json) -> Iterator[str]:
    before, now = dict(_leaves(old, where)), dict(_leaves(new, where))
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name):
            yield f"{name}: was {before.get(name)!r}, is {now.get(name)!r}"


def _leaves(value: Json, path: str) -> Iterator[tuple[str, Json]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _leaves(item, f"{path}.{name}" if path else str(name))
    else:
        yield path, list(value) if isinstance(value, tuple) else value


def _as_mapping(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _say(planned: PlannedPoint) -> str:
    point = planned.point
    return f"{point.label} on {point.target}, {point.dataset.name}, {point.sampling.name}"
