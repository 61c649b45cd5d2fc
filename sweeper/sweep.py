"""One sweep from composed configurations to the report; the same with and without ``-m``."""

from __future__ import annotations

import json
import logging
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Protocol

import yaml
from rich.console import Console

import sweeper
from sweeper import store
from sweeper.config import Settings, settings_from_mapping
from sweeper.drive.datasets import describe, shipped
from sweeper.errors import PublishError, StoreError, UserError
from sweeper.judge.compare import compare
from sweeper.measure.group import run_group
from sweeper.measure.point import unmeasured
from sweeper.plan.grid import plan as plan_of
from sweeper.plan.points import point_of
from sweeper.report.mlflow import default_tracking_uri, publish
from sweeper.report.plan import print_plan
from sweeper.report.progress import Watch
from sweeper.report.tables import write_tables
from sweeper.report.terminal import print_table
from sweeper.serve.installed import Installed, installed, missing_vllm, refusal, skip_reason
from sweeper.store import SweepFolder
from sweeper.values import (
    Dataset,
    Group,
    Job,
    Json,
    Plan,
    PlannedPoint,
    PointResult,
    Refusal,
    Sweep,
)

log = logging.getLogger(__name__)

COMPLETE, INCOMPLETE, USER_MISTAKE, INTERRUPTED = 0, 1, 2, 130

_SWEEP_WIDE = ("baseline", "mode", "tracker", "seed", "output_dir")
"""Settings that hold for a whole sweep and therefore cannot be swept."""


class Launcher(Protocol):
    """Where groups run: here, or in jobs."""

    def map(
        self, run: Callable[[Group], list[PointResult]], groups: Sequence[Group]
    ) -> list[list[PointResult]]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed:
    """One configuration as Hydra composed it, with the overrides that made it."""

    overrides: tuple[str, ...]
    data: Mapping[str, Json]


def run_sweep(composed: Sequence[Composed], launcher: Launcher, sweep_dir: Path) -> int:
    """Plan, measure, judge and report; returns the exit status.

    :raises UserError: for a mistake that concerns the whole sweep; nothing was started.
    """
    console = console_here()
    typed, refusals = _typed(composed)
    settings = _sweep_wide(typed) if typed else None
    here = _environment(typed)
    plan = _plan(typed, refusals, here)
    planning = settings is None or settings.mode == "plan"
    print_plan(console, plan, commands=planning)
    if plan.refusals:
        return USER_MISTAKE
    if planning or settings is None:
        return COMPLETE
    _check_runnable(plan, here)
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


def _typed(
    composed: Sequence[Composed],
) -> tuple[list[tuple[int, Composed, Settings]], list[Refusal]]:
    typed, refusals = [], []
    for number, one in enumerate(composed):
        try:
            typed.append((number, one, settings_from_mapping(one.data)))
        except UserError as problem:
            refusals.append(Refusal(number=number, overrides=one.overrides, reason=str(problem)))
    return typed, refusals


def _sweep_wide(typed: Sequence[tuple[int, Composed, Settings]]) -> Settings:
    first = typed[0][2]
    for name in _SWEEP_WIDE:
        values = {repr(getattr(settings, name)) for _, _, settings in typed}
        if len(values) > 1:
            raise UserError(f"{name}: holds for a whole sweep and cannot be swept: {values}")
    return first


@cache
def _installed(command: tuple[str, ...]) -> Installed | None:
    return installed(command)


def _environment(
    typed: Sequence[tuple[int, Composed, Settings]],
) -> Callable[[tuple[str, ...]], Installed | None]:
    """What each server command's Python has installed; asked once a command."""
    del typed
    return _installed


def _plan(
    typed: Sequence[tuple[int, Composed, Settings]],
    refusals: list[Refusal],
    here: Callable[[tuple[str, ...]], Installed | None],
) -> Plan:
    jobs = []
    for number, one, settings in typed:
        try:
            point = point_of(settings, _dataset(settings))
            why_not = refusal(point, here(point.server.command))
            if why_not:
                raise UserError(why_not)
            jobs.append(Job(number=number, overrides=one.overrides, point=point))
        except UserError as problem:
            refusals.append(Refusal(number=number, overrides=one.overrides, reason=str(problem)))
    refusals += _external_mixed(jobs)
    baseline = bool(typed) and typed[0][2].baseline == "shared"
    return plan_of(
        jobs,
        baseline=baseline,
        refusals=refusals,
        why_skipped=lambda point: skip_reason(point, here(point.server.command)),
    )


def _external_mixed(jobs: Sequence[Job]) -> list[Refusal]:
    """A running server has one setting; a sweep over several would measure the same one twice."""
    seen: dict[str, Job] = {}
    mixed = []
    for job in jobs:
        url = job.point.server.base_url
        first = seen.setdefault(url, job) if url else job
        if first.point.label != job.point.label:
            reason = (
                f"the running server {url} cannot be {first.point.label} and {job.point.label} "
                f"at once; measure one, or let server=vllm start them"
            )
            mixed.append(Refusal(number=job.number, overrides=job.overrides, reason=reason))
    return mixed


def _dataset(settings: Settings) -> Dataset:
    wanted = settings.dataset
    if wanted.file is None:
        name = wanted.name or ""
        return _described(name, shipped(name), wanted.limit)
    path = Path(wanted.file)
    return _described(wanted.name or path.stem, path, wanted.limit)


@cache
def _described(name: str, path: Path, limit: int | None) -> Dataset:
    return describe(name, path, limit)


def _check_runnable(
    plan: Plan, here: Callable[[tuple[str, ...]], Installed | None]
) -> None:
    """Before anything is created: is there a vLLM to start, and a model to serve?"""
    for group in plan.groups:
        if group.server.kind == "external":
            continue
        environment = here(group.server.command)
        if environment and environment.vllm is None:
            raise UserError(missing_vllm(environment))
        model = group.server.model
        if model.startswith(("/", "./", "../", "~")) and not Path(model).is_dir():
            raise UserError(
                f"target.model: {model} is not there; give a checkpoint folder or a hub name"
                + ("; `make setup` builds the demo target" if "smollm2-135m" in model else "")
            )


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
    return {"overrides": "added as baseline", **data, "gamma": 0,
            "method": {"name": "none", "speculative": None}}


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
            console.print(f"MLflow: {uri}, experiment {sweep.settings['experiment']}",
                          soft_wrap=True)
        except PublishError as problem:
            console.print(f"not in MLflow: {problem}\n  later: python -m sweeper.publish "
                          f"{folder.path}", soft_wrap=True)
    results = store.read_results(folder, sweep.plan)
    done = all(p.number in results and results[p.number].status == "completed"
               for p in sweep.plan.points)
    return COMPLETE if done else INCOMPLETE
