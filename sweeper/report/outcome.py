"""How a sweep ended: tables, terminal, MLflow and the exit status, from its files alone."""

from __future__ import annotations

from rich.console import Console

from sweeper import store
from sweeper.errors import PublishError
from sweeper.judge.compare import compare
from sweeper.report.mlflow import default_tracking_uri, publish
from sweeper.report.tables import write_tables
from sweeper.report.terminal import print_table
from sweeper.store import SweepFolder
from sweeper.values import Sweep

COMPLETE, INCOMPLETE, USER_MISTAKE, INTERRUPTED = 0, 1, 2, 130


def report(console: Console, folder: SweepFolder, track: bool) -> int:
    """Write the tables, print them, publish; 0 when every point completed, else 1."""
    sweep = store.read_sweep(folder)
    comparisons = compare(folder)
    write_tables(folder, comparisons)
    print_table(console, comparisons)
    if track:
        uri = tracking_uri(folder, sweep)
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
    results = store.read_results(folder, sweep.plan, sweep.id)
    done = all(
        p.number in results and results[p.number].status == "completed" for p in sweep.plan.points
    )
    return COMPLETE if done else INCOMPLETE


def publish_so_far(folder: SweepFolder) -> None:
    """What has ended already, while other points are measured elsewhere.

    :raises PublishError: MLflow did not take it; the report at the end tries again.
    """
    sweep = store.read_sweep(folder)
    publish(folder, compare(folder), tracking_uri(folder, sweep), sweep.settings["experiment"])


def tracking_uri(folder: SweepFolder, sweep: Sweep) -> str:
    """The one the sweep was started with, else the database of its outputs folder."""
    uri = sweep.settings["tracking_uri"]
    return str(uri) if uri else default_tracking_uri(folder.path.parent.parent)
