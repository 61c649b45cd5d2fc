"""``python -m sweeper.report DIR``: tables and page again, from the files of a sweep."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from sweeper.judge.across import across
from sweeper.program import COMPLETE, INCOMPLETE, parser_of, program
from sweeper.report.changes import THRESHOLD, print_across, since
from sweeper.report.outcome import console_here, write_report
from sweeper.report.rollout import print_rollouts
from sweeper.report.terminal import print_table, print_verdicts
from sweeper.store import SweepFolder

EXAMPLES = """\
examples:
  python -m sweeper.report outputs/2026-01-31/12-00-00-1a2b3c
  python -m sweeper.report BEFORE AFTER      # AFTER's page says what changed since
  COLUMNS=160 NO_COLOR=1 python -m sweeper.report DIR > table.txt

Writes report/index.html, report/report.md, points.csv, points.parquet and requests.parquet in DIR;
nothing is measured again.
exit status: 0 all points completed, 1 some did not, 2 DIR cannot be used, 130 interrupted
"""


@program("report")
def main(argv: Sequence[str] | None = None) -> int:
    """Write and print the tables of one sweep; the return value is the exit status."""
    arguments = _parser().parse_args(argv)
    console = console_here(color=not arguments.no_color)
    folders = [SweepFolder(path) for path in arguments.folders]
    complete = True
    for folder in folders:
        complete = _report(console, folders[0], folder) and complete
    return COMPLETE if complete else INCOMPLETE


def _report(console: Console, first: SweepFolder, folder: SweepFolder) -> bool:
    """Whether every point of the sweep completed."""
    found = None if folder is first else across(first, folder)
    judgement, page = write_report(folder, [since(first, found)] if found else [])
    print_table(console, judgement.comparisons)
    print_rollouts(console, judgement)
    if found:
        print_across(console, first, folder, found, THRESHOLD)
    print_verdicts(console, judgement)
    console.print(f"page: {page}", soft_wrap=True, markup=False)
    return all(c.completed for c in judgement.comparisons)


def _parser() -> argparse.ArgumentParser:
    parser = parser_of(
        "report", "Redo the tables and the page of a sweep from its files.", EXAMPLES
    )
    parser.add_argument(
        "folders",
        metavar="DIR",
        type=Path,
        nargs="+",
        help="a sweep folder (sweep.json); each further one is compared with the first",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
