"""``python -m sweeper.quality DIR``: grade a sweep's answers again, or let people choose."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sweeper.program import COMPLETE, parser_of, program
from sweeper.quality.blind import export, read_back
from sweeper.quality.grade import grade
from sweeper.scores import Grader
from sweeper.store import SweepFolder, asked, only_writer, read_sweep

EXAMPLES = """\
examples:
  python -m sweeper.quality outputs/2026-01-31/12-00-00-1a2b3c
  python -m sweeper.quality DIR --grader exact_match
  python -m sweeper.quality DIR export
  python -m sweeper.quality DIR read --file ~/Downloads/pairs.csv

export writes blind/pairs.html and blind/pairs.csv for people to choose from; which side is which
is in blind-key.json, which they must not see. read takes their choices. Then: sweeper.report DIR.
exit status: 0 done, 2 DIR or the file cannot be used
"""


@program("quality")
def main(argv: Sequence[str] | None = None) -> int:
    """Grade, export or read; the return value is the exit status."""
    arguments = _parser().parse_args(argv)
    folder = SweepFolder(arguments.folder)
    grader = asked(read_sweep(folder), "quality", Grader)
    if arguments.grader:
        grader = replace(grader, name=arguments.grader)
    with only_writer(folder):
        _do(folder, grader, arguments)
    return COMPLETE


def _do(folder: SweepFolder, grader: Grader, arguments: argparse.Namespace) -> None:
    if arguments.what == "export":
        pairs = export(folder, grader, arguments.seed)
        print(f"{pairs} pairs: {folder.blind}/pairs.html; the key: {folder.blind_key}")
    elif arguments.what == "read":
        file = arguments.file or folder.blind / "pairs.csv"
        for number, count in sorted(read_back(folder, grader, file).items()):
            print(f"point {number}: {count} choices")
    else:
        grade(folder, grader, print)


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("quality", "Grade the answers of a sweep, from its files.", EXAMPLES)
    names = ("by_dataset", "unit_tests", "exact_match", "validity", "judge_model")
    parser.add_argument("folder", metavar="DIR", type=Path, help="a sweep folder (sweep.json)")
    parser.add_argument("what", nargs="?", choices=("grade", "export", "read"), default="grade")
    parser.add_argument("--grader", choices=names, help="default: the sweep's own")
    parser.add_argument("--file", type=Path, help="read: the choices; default: blind/pairs.csv")
    parser.add_argument("--seed", type=int, default=0, help="export: which side is which")
    return parser


if __name__ == "__main__":
    sys.exit(main())
