"""``python -m sweeper.report DIR``: the tables again, from the files of a sweep."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from sweeper.errors import UserError
from sweeper.judge.compare import compare
from sweeper.report.tables import print_table, write_tables
from sweeper.store import SweepFolder

EXAMPLES = """\
examples:
  python -m sweeper.report outputs/2026-01-31/12-00-00-1a2b3c
  COLUMNS=160 NO_COLOR=1 python -m sweeper.report DIR > table.txt

Writes points.csv, points.parquet and report/report.md in DIR; nothing is measured again.
exit status: 0 all points completed, 1 some did not, 2 DIR cannot be used, 130 interrupted
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Write and print the tables of one sweep; the return value is the exit status."""
    arguments = _parser().parse_args(argv)
    try:
        folder = SweepFolder(arguments.folder)
        comparisons = compare(folder)
        write_tables(folder, comparisons)
        print_table(Console(), comparisons)
    except UserError as problem:
        print(f"sweeper.report: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0 if all(c.completed for c in comparisons) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sweeper.report",
        description="Redo the comparison tables of a sweep from its files.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="a sweep folder (sweep.json)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
