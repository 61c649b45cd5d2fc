"""``python -m sweeper.collect DIR``: wait for a sweep whose groups run elsewhere, and report it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from sweeper import store
from sweeper.errors import UserError
from sweeper.jobs.queue import SlurmQueue
from sweeper.jobs.watch import Patience, watch
from sweeper.program import INTERRUPTED, parser_of, program
from sweeper.report.outcome import console_here, report
from sweeper.report.progress import Watch
from sweeper.store import SweepFolder
from sweeper.values import PlannedPoint, PointResult, Sweep

EXAMPLES = """\
examples:
  python -m sweeper.collect outputs/2026-01-31/12-00-00-1a2b3c
  python -m sweeper.collect DIR --no-wait

For sweeps submitted with detach=true, and for those whose process was killed; from any machine
that sees DIR and Slurm. Ctrl-C leaves the jobs alone. Safe to repeat.
exit status: 0 all points completed, 1 some did not, 2 DIR cannot be used, 130 interrupted
"""


@program("collect")
def main(argv: Sequence[str] | None = None) -> int:
    """Collect one sweep; the return value is the exit status."""
    arguments = _parser().parse_args(argv)
    folder = SweepFolder(arguments.folder.absolute())
    if not folder.sweep.exists():
        raise UserError(f"{arguments.folder}: no sweep.json there; give a sweep's folder")
    with store.only_writer(folder):
        return _collect(folder, arguments)


def _collect(folder: SweepFolder, arguments: argparse.Namespace) -> int:
    console, sweep = console_here(color=not arguments.no_color), store.read_sweep(folder)
    points = [p for g in sweep.plan.groups for p in g.points if not p.skip]
    groups = [g for g in sweep.plan.groups if any(not p.skip for p in g.points)]
    patience = Patience(poll_s=arguments.poll_s, queue_s=arguments.queue_s,
                        grace_s=arguments.grace_s)  # fmt: skip
    try:
        if not arguments.no_wait:
            with Watch(console, points, len(groups)) as view:
                watch(folder, sweep.id, groups, SlurmQueue(), view, patience)
    except KeyboardInterrupt:
        console.print(f"interrupted; jobs go on: python -m sweeper.collect {folder.path}")
        return INTERRUPTED
    track = sweep.settings["tracker"] != "none" and not arguments.no_publish
    return report(console, folder, track, lambda: _print_missing(console, folder, sweep))


def _print_missing(console: Console, folder: SweepFolder, sweep: Sweep) -> None:
    results = store.read_results(folder, sweep.plan, sweep.id)
    for planned in sweep.plan.points:
        if text := _missing(planned, results.get(planned.number)):
            console.print(text, soft_wrap=True, markup=False)


def _missing(planned: PlannedPoint, result: PointResult | None) -> str:
    name = f"point {planned.number} {planned.point.label} {planned.point.dataset.name}"
    if result is None:
        return f"{name}: not measured yet"
    if result.status == "completed":
        return ""
    return f"{name}: {result.status}: {(result.reason.splitlines() or [''])[0]}"


def _parser() -> argparse.ArgumentParser:
    parser = parser_of(
        "collect", "Wait for the jobs of a sweep, then judge, report and publish it.", EXAMPLES
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="a sweep folder (sweep.json)")
    parser.add_argument("--no-wait", action="store_true", help="report what is there now")
    parser.add_argument("--no-publish", action="store_true", help="leave MLflow alone")
    parser.add_argument("--poll-s", type=float, default=2.0, help="default: %(default)s")
    parser.add_argument("--queue-s", type=float, default=10.0, help="default: %(default)s")
    parser.add_argument("--grace-s", type=float, default=60.0, help="default: %(default)s")
    return parser


if __name__ == "__main__":
    sys.exit(main())
