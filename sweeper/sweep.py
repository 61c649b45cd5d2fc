"""One sweep from composed configurations to the report; the same with and without ``-m``."""

from __future__ import annotations

import json
import logging
import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Protocol

import yaml
from rich.console import Console

import sweeper
from sweeper import store
from sweeper.config import Settings
from sweeper.errors import PublishError, StoreError
from sweeper.judge.compare import compare
from sweeper.measure.group import run_group
from sweeper.measure.point import unmeasured
from sweeper.prepare import Composed, prepare, runnable
from sweeper.report.mlflow import default_tracking_uri, publish
from sweeper.report.plan import print_plan
from sweeper.report.progress import Watch
from sweeper.report.tables import write_tables
from sweeper.report.terminal import print_table
from sweeper.store import SweepFolder
from sweeper.values import Group, Json, Plan, PlannedPoint, PointResult, Sweep

log = logging.getLogger(__name__)

COMPLETE, INCOMPLETE, USER_MISTAKE, INTERRUPTED = 0, 1, 2, 130


class Launcher(Protocol):
    """Where groups run: here, or in jobs."""

    def map(
        self, run: Callable[[Group], list[PointResult]], groups: Sequence[Group]
    ) -> list[list[PointResult]]: ...


def run_sweep(composed: Sequence[Composed], launcher: Launcher, sweep_dir: Path) -> int:
    """Plan, measure, judge and report; returns the exit status.

    :raises UserError: for a mistake that concerns the whole sweep; nothing was started.
    """
    console = console_here()
    prepared = prepare(composed)
    plan, settings = prepared.plan, prepared.settings
    planning = settings is None or settings.mode == "plan"
    print_plan(console, plan, prepared.notes, commands=planning)
    if plan.refusals or settings is None:
        return USER_MISTAKE
    if planning:
        return COMPLETE
    runnable(plan)
    folder = _create(sweep_dir, plan, settings, composed)
    try:
        return _measure_and_report(console, plan, settings, folder, launcher)
    finally:
        console.print(f"files: {folder.path}", soft_wrap=True)


def console_here() -> Console:
    """The terminal as it is; a pipe or a file, which has no width, gets 120 columns."""
    probe = Console(highlight=False)
    wide = probe.is_terminal or "COLUMNS" in os.environ
    return probe if wide else Console(highlight=False, width=120)


def _create(
    sweep_dir: Path, plan: Plan, settings: Settings, composed: Sequence[Composed]
) -> SweepFolder:
    """Write ``sweep.json`` and every point's ``config.yaml`` before anything runs."""
    folder = SweepFolder(sweep_dir)
    if folder.sweep.exists():
        raise StoreError(f"{sweep_dir} already holds a sweep")
    sweep = Sweep(
        id=sweep_dir.name,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        command=tuple(sys.argv),
        plan=plan,
        settings={
            "baseline": settings.baseline,
            "seed": settings.seed,
            "tracker": settings.tracker.name,
            "tracking_uri": settings.tracker.tracking_uri,
            "experiment": settings.tracker.experiment,
        },
        versions={"sweeper": sweeper.__version__, "python": platform.python_version()},
    )
    try:
        store.write_json(folder.sweep, store.to_json(sweep))
        for planned in plan.points:
            text = yaml.safe_dump(_composition(planned, plan, composed), sort_keys=False)
            store.write_text(folder.point(planned).config, text)
    except OSError as problem:
        text = f"output_dir: cannot write {problem.filename}: {problem.strerror}"
        raise StoreError(text) from None
    return folder


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


def _measure_and_report(
    console: Console, plan: Plan, settings: Settings, folder: SweepFolder, launcher: Launcher
) -> int:
    sweep = folder.path.name
    for planned in plan.points:
        if planned.skip:
            skipped = replace(unmeasured(planned, sweep, planned.skip, ""), status="skipped")
            store.write_json(folder.point(planned).result, store.to_json(skipped))
    groups = [
        replace(group, points=points)
        for group in plan.groups
        if (points := tuple(p for p in group.points if not p.skip))
    ]
    interrupted = False
    with Watch(console, [p for g in groups for p in g.points], len(groups)) as watch:
        run = partial(run_group, sweep_dir=folder.path, sweep=sweep, emit=watch)
        try:
            launcher.map(run, groups)
        except KeyboardInterrupt:
            interrupted = True
            console.print("interrupted; servers are stopped, finished points are kept")
    status = report(console, folder, settings.tracker.name != "none")
    return INTERRUPTED if interrupted else status


def report(console: Console, folder: SweepFolder, track: bool) -> int:
    """Tables, terminal, MLflow: from the files alone."""
    sweep = store.read_sweep(folder)
    comparisons = compare(folder)
    write_tables(folder, comparisons)
    print_table(console, comparisons)
    if track:
        outputs = folder.path.parent.parent
        uri = sweep.settings["tracking_uri"] or default_tracking_uri(outputs)
        try:
            publish(folder, comparisons, uri, sweep.settings["experiment"])
            console.print(
                f"MLflow: {uri}, experiment {sweep.settings['experiment']}", soft_wrap=True
            )
        except PublishError as problem:
            console.print(
                f"not in MLflow: {problem}\n  later: python -m sweeper.publish {folder.path}",
                soft_wrap=True,
            )
    results = store.read_results(folder, sweep.plan)
    done = all(
        p.number in results and results[p.number].status == "completed" for p in sweep.plan.points
    )
    return COMPLETE if done else INCOMPLETE
