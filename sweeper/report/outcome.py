"""How a sweep ended: tables, terminal, MLflow and the exit status, from its files alone."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from sweeper import store
from sweeper.errors import PublishError
from sweeper.judge.judgement import Judgement, judge
from sweeper.program import COMPLETE, INCOMPLETE
from sweeper.quality.grade import grade
from sweeper.report.changes import Since
from sweeper.report.mlflow import default_tracking_uri, publish
from sweeper.report.page.build import write_page
from sweeper.report.progress import Watch
from sweeper.report.requests import write_requests
from sweeper.report.rollout import print_rollouts
from sweeper.report.tables import write_tables
from sweeper.report.terminal import print_table, print_verdicts
from sweeper.scores import Grader
from sweeper.store import SweepFolder
from sweeper.values import Event, Sweep

SOON_S = 30.0
"""Between two publications while jobs run."""


def console_here(color: bool = True) -> Console:
    """The terminal as it is; a pipe or a file, which has no width, gets 120 columns.

    Without ``color`` as with NO_COLOR=1, which holds in any case.
    """
    probe = Console(highlight=False, no_color=None if color else True)
    wide = probe.is_terminal or "COLUMNS" in os.environ
    return probe if wide else Console(highlight=False, no_color=probe.no_color, width=120)


def write_report(folder: SweepFolder, changes: Sequence[Since] = ()) -> tuple[Judgement, Path]:
    """Judge a sweep and write all that is read of it; the judgement and the page's path."""
    judgement = judge(folder)
    write_tables(folder, judgement)
    write_requests(folder, judgement.comparisons)
    return judgement, write_page(folder, judgement, changes)


def report(
    console: Console, folder: SweepFolder, track: bool, errors: Callable[[], None] = lambda: None
) -> int:
    """Write, publish and print all there is to say; 0 when every point completed, else 1.

    Last come ``errors``, which prints those that scrolled past, then the verdict and the page.
    """
    sweep = store.read_sweep(folder)
    grader = store.asked(sweep, "quality", Grader)
    grade(folder, grader, lambda text: console.print(text, soft_wrap=True, markup=False))
    judgement, page = write_report(folder)
    print_table(console, judgement.comparisons)
    print_rollouts(console, judgement)
    if track:
        uri = tracking_uri(folder, sweep)
        try:
            publish(folder, judgement, uri, sweep.settings["experiment"])
            console.print(
                f"MLflow: {uri}, experiment {sweep.settings['experiment']}", soft_wrap=True
            )
        except PublishError as problem:
            console.print(
                f"not in MLflow: {problem}\n  later: python -m sweeper.publish {folder.path}",
                soft_wrap=True,
            )
    console.print(f"files: {folder.path}", soft_wrap=True, markup=False)
    errors()
    print_verdicts(console, judgement)
    console.print(f"page: {page}", soft_wrap=True, markup=False)
    results = store.read_results(folder, sweep.plan, sweep.id)
    done = all(
        p.number in results and results[p.number].status == "completed" for p in sweep.plan.points
    )
    return COMPLETE if done else INCOMPLETE


@dataclass(slots=True)
class PublishesSoon:
    """Passes events on; publishes finished points while other groups are measured elsewhere.

    Not for points that are measured by this process: it would be busy while they are timed.
    """

    watch: Watch
    folder: SweepFolder
    last: float = 0.0
    new: bool = False

    def __call__(self, event: Event) -> None:
        self.watch(event)
        self.new = self.new or (event.kind == "point_ended" and self.watch.jobs_seen)
        if self.new and time.monotonic() - self.last > SOON_S:
            self.new = False
            with contextlib.suppress(PublishError):  # the report at the end tries again and says so
                sweep = store.read_sweep(self.folder)
                uri, experiment = tracking_uri(self.folder, sweep), sweep.settings["experiment"]
                publish(self.folder, judge(self.folder), uri, experiment)
            self.last = time.monotonic()


def tracking_uri(folder: SweepFolder, sweep: Sweep) -> str:
    """The one the sweep was started with, else the database of its outputs folder."""
    uri = sweep.settings["tracking_uri"]
    return str(uri) if uri else default_tracking_uri(folder.path.parent.parent)
