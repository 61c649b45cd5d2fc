"""One sweep from composed configurations to the report; the same with and without ``-m``."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Protocol

import yaml
from rich.console import Console

from sweeper import store
from sweeper.config import Settings
from sweeper.errors import StoreError, UserError
from sweeper.foresight import check_fits, check_resume, foresee, resumed_folder, versions_now
from sweeper.measure.group import GroupRun
from sweeper.measure.measurement import unmeasured
from sweeper.plan.estimate import Estimate
from sweeper.prepare import Composed, prepare, runnable
from sweeper.program import COMPLETE, INTERRUPTED, USER_MISTAKE
from sweeper.report.messages import log_to
from sweeper.report.outcome import PublishesSoon, console_here, report
from sweeper.report.plan import print_plan
from sweeper.report.progress import Watch
from sweeper.resume import arrange, differences, refuse_changes, refuse_running
from sweeper.store import SweepFolder
from sweeper.values import Group, Json, Plan, PlannedPoint, Sweep


class Launcher(Protocol):
    """Where groups run: here, or in jobs."""

    @property
    def where(self) -> str:
        """For people: ``on host1``, ``as Slurm jobs``."""
        ...

    def check(self, groups: Sequence[Group]) -> None:
        """:raises UserError: what cannot run there; nothing has been created yet."""
        ...

    def map(self, run: GroupRun, groups: Sequence[Group]) -> bool:
        """Run every group; ``False`` when they go on without us. Results are files."""
        ...


def run_sweep(composed: Sequence[Composed], launcher: Launcher, sweep_dir: Path) -> int:
    """Plan, measure, judge and report; returns the exit status.

    :raises UserError: for a mistake that concerns the whole sweep; nothing was started.
    """
    console = console_here()
    with console.status(f"checking {len(composed)} jobs: settings, checkpoints, vLLM's own word"):
        prepared = prepare(composed)
    plan, settings = prepared.plan, prepared.settings
    planning = settings is None or settings.mode == "plan"
    if settings is None:
        print_plan(console, plan, prepared.notes, None)
        return USER_MISTAKE
    foreseen = foresee(plan, settings)
    plan, found = foreseen.plan, foreseen.estimate
    notes = (*prepared.notes, *(_obstacles(launcher, plan) if planning else ()))
    print_plan(console, plan, notes, found, kept=foreseen.kept)
    if plan.refusals:
        return USER_MISTAKE
    check_fits(foreseen, settings)
    if planning:
        check_resume(plan, settings)
        return COMPLETE
    log_to(console, settings.log_level)
    runnable(plan)
    launcher.check(_measurable(plan))
    folder = SweepFolder(sweep_dir)
    where = f"running {launcher.where}, files in {folder.path}"
    console.print(where, soft_wrap=True, markup=False)
    sweep = _sweep(sweep_dir.name, plan, settings)
    if settings.resume is not None:
        resumed_folder(settings.resume)
    with _writable(folder):
        kept = _resumed(folder, sweep, settings) if settings.resume else _new(folder)
        if settings.resume:
            console.print(f"resume: {len(kept)} of {len(plan.points)} points are kept")
        sweep = _write(folder, sweep, composed, kept)
        return _measure_and_report(console, sweep, folder, launcher, kept, found)


def _obstacles(launcher: Launcher, plan: Plan) -> Iterator[str]:
    """Why a plan could not be run from here; it may be for another machine."""
    looks: tuple[Callable[[], None], ...] = (
        partial(runnable, plan),
        partial(launcher.check, _measurable(plan)),
    )
    for look in looks:
        try:
            look()
        except UserError as problem:
            yield f"would not start here: {problem}"


@contextlib.contextmanager
def _writable(folder: SweepFolder) -> Iterator[None]:
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
        (folder.path / ".lock").touch()
    except OSError as problem:
        text = f"output_dir: cannot write {problem.filename}: {problem.strerror}"
        raise StoreError(text) from None
    with store.only_writer(folder):
        yield


def _new(folder: SweepFolder) -> frozenset[int]:
    if folder.sweep.exists():
        raise StoreError(f"{folder.path} already holds a sweep")
    return frozenset()


def _resumed(folder: SweepFolder, sweep: Sweep, settings: Settings) -> frozenset[int]:
    """Arrange the folder for the points that are left; the numbers of those that are kept."""
    old = store.read_sweep(folder)
    refuse_running(folder, old)
    found = differences(old, sweep.plan, sweep.versions)
    if settings.resume_changed == "refuse":
        refuse_changes(folder, found)
    same_versions = not any(one.startswith("versions") for one in found)
    return frozenset(arrange(folder, old, sweep.plan, same_versions))


def as_typed(argv: Sequence[str]) -> tuple[str, ...]:
    """``python -m sweeper`` hands down the path of its file, a console script its own."""
    name = Path(argv[0]).name
    return (*(("python", "-m", "sweeper") if name == "__main__.py" else (name,)), *argv[1:])


def _sweep(name: str, plan: Plan, settings: Settings) -> Sweep:
    return Sweep(
        id=name,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        command=as_typed(sys.argv),
        plan=plan,
        settings={
            "baseline": settings.baseline,
            "control": settings.control,
            "seed": settings.seed,
            "slo": asdict(settings.slo),
            "budget": settings.budget,
            "check": asdict(settings.check),
            "quality": asdict(settings.quality),
            "profile": asdict(settings.profile),
            "verdict": asdict(settings.verdict),
            "tracker": settings.tracker.name,
            "tracking_uri": settings.tracker.tracking_uri,
            "experiment": settings.tracker.experiment,
        },
        versions=versions_now(plan),
    )


def _write(
    folder: SweepFolder, sweep: Sweep, composed: Sequence[Composed], kept: frozenset[int]
) -> Sweep:
    """Write ``sweep.json`` and every point's ``config.yaml`` before anything runs.

    A sweep that is resumed keeps its name and its date, whatever its folder is called now.
    """
    if folder.sweep.exists():
        old = store.read_sweep(folder)
        sweep = replace(sweep, id=old.id, created_at=old.created_at)
    try:
        store.write_json(folder.sweep, store.to_json(sweep))
        for planned in sweep.plan.points:
            text = yaml.safe_dump(_composition(planned, sweep.plan, composed), sort_keys=False)
            if planned.number not in kept:
                store.write_text(folder.point(planned).config, text)
    except OSError as problem:
        text = f"output_dir: cannot write {problem.filename}: {problem.strerror}"
        raise StoreError(text) from None
    return sweep


def _composition(planned: PlannedPoint, plan: Plan, composed: Sequence[Composed]) -> Json:
    """The configuration of a point; of an added baseline, that of the point it is for."""
    if planned.jobs:
        one = composed[planned.jobs[0]]
        return {"overrides": list(one.overrides), **one.data}
    waiting = next(p for p in plan.points if p.baseline == planned.number)
    data = json.loads(json.dumps(composed[waiting.jobs[0]].data))
    return {
        "overrides": "added as baseline",
        **data,
        "gamma": 0,
        "method": {"name": "none", "speculative": None},
    }


def _measurable(plan: Plan, kept: frozenset[int] = frozenset()) -> list[Group]:
    """The groups with the points that are to be measured."""
    left = (
        replace(g, points=tuple(p for p in g.points if not p.skip and p.number not in kept))
        for g in plan.groups
    )
    return [group for group in left if group.points]


def _measure_and_report(
    console: Console,
    sweep: Sweep,
    folder: SweepFolder,
    launcher: Launcher,
    kept: frozenset[int],
    found: Estimate,
) -> int:
    for planned in sweep.plan.points:
        if planned.skip:
            skipped = replace(unmeasured(planned, sweep.id, planned.skip, ""), status="skipped")
            store.write_json(folder.point(planned).result, store.to_json(skipped))
    groups = _measurable(sweep.plan, kept)
    track = sweep.settings["tracker"] != "none"
    interrupted = False
    points = [p for g in groups for p in g.points]
    starts = sum(len(g.starts) for g in groups)
    with Watch(console, points, starts, found.total_s) as watch:
        emit = PublishesSoon(watch, folder) if track else watch
        run = GroupRun(sweep_dir=folder.path, sweep=sweep.id, emit=emit, seconds=found.seconds())
        try:
            if not launcher.map(run, groups):
                console.print(f"later: python -m sweeper.collect {folder.path}", soft_wrap=True)
                return COMPLETE
        except KeyboardInterrupt:
            interrupted = True
            console.print("interrupted; servers are stopped, finished points are kept")
    status = report(console, folder, track, watch.repeat_errors)
    return INTERRUPTED if interrupted else status
