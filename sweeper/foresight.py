"""What a prepared sweep will cost before it starts: kept points, time, and what a budget leaves."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

import sweeper
from sweeper import store
from sweeper.config import Settings
from sweeper.durations import seconds_of
from sweeper.errors import StoreError, UserError
from sweeper.jobs.snapshot import code_digest
from sweeper.plan.budget import fit
from sweeper.plan.estimate import Estimate, estimate
from sweeper.plan.kept import together
from sweeper.plan.past import read_past
from sweeper.prepare import builds_for_cpu, server_versions
from sweeper.resume import completed_keys, differences, refuse_changes
from sweeper.store import SweepFolder
from sweeper.values import Json, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """``kept`` are numbers of points that a resumed sweep does not measure again."""

    plan: Plan
    estimate: Estimate
    kept: frozenset[int] = frozenset()


def foresee(plan: Plan, settings: Settings) -> Foreseen:
    """The plan as it will run, within ``budget`` where there is one, and how long it takes."""
    past = read_past(Path(settings.output_dir))
    keys = _kept_keys(plan, settings)

    def kept(of: Plan) -> frozenset[int]:
        left = {p.number for p in of.points if p.key not in keys and not p.skip}
        have = frozenset(p.number for p in of.points if p.key in keys)
        return have - together(of.points, left)

    twice = settings.profile.name != "none"
    found = estimate(plan, past, kept=kept(plan), on_cpu=builds_for_cpu, profiled=twice)
    if settings.budget is not None:
        budget = str(settings.budget)
        plan = fit(plan, found, seconds_of(budget) or 0.0, budget, kept(plan))
        found = estimate(plan, past, kept=kept(plan), on_cpu=builds_for_cpu, profiled=twice)
    return Foreseen(plan=plan, estimate=found, kept=kept(plan))


def check_fits(foreseen: Foreseen, settings: Settings) -> None:
    """:raises UserError: when the budget leaves nothing to measure."""
    if settings.budget is not None and not foreseen.estimate.groups and not foreseen.kept:
        raise UserError(f"budget={settings.budget}: no point fits; give more time or fewer prompts")


def check_resume(plan: Plan, settings: Settings) -> None:
    """:raises UserError: when ``resume`` names no sweep, or another one."""
    if settings.resume is not None:
        old = store.read_sweep(resumed_folder(settings.resume))
        if settings.resume_changed == "refuse":
            found = differences(old, plan, versions_now(plan))
            refuse_changes(resumed_folder(settings.resume), found)


def resumed_folder(path: str) -> SweepFolder:
    """:raises StoreError: when there is no sweep to go on with."""
    folder = SweepFolder(Path(path))
    if not folder.sweep.exists():
        raise StoreError(f"resume: {path}: no sweep.json there; give a sweep's folder")
    return folder


def versions_now(plan: Plan) -> dict[str, Json]:
    """Of this program and what it plans with; a resumed sweep must have the same."""
    return {
        "sweeper": sweeper.__version__,
        "python": platform.python_version(),
        "code": code_digest(),
        "vllm": server_versions(plan),
    }


def _kept_keys(plan: Plan, settings: Settings) -> frozenset[str]:
    """Keys of points that completed under the very same versions."""
    if settings.resume is None:
        return frozenset()
    folder = resumed_folder(settings.resume)
    old = store.read_sweep(folder)
    changed = differences(old, plan, versions_now(plan))
    if any(one.startswith("versions") for one in changed):
        return frozenset()
    return completed_keys(folder, old)
