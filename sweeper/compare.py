"""``python -m sweeper.compare BEFORE AFTER``: what changed between sweeps, for people and CI."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from sweeper.errors import PublishError, UserError
from sweeper.judge.across import Across, Change, across
from sweeper.program import COMPLETE, USER_MISTAKE, parser_of, program
from sweeper.report.changes import THRESHOLD, print_across
from sweeper.report.mlflow import default_tracking_uri, found_again
from sweeper.report.outcome import console_here
from sweeper.store import SweepFolder, to_json

LOSS = 1
EXAMPLES = """\
examples:
  python -m sweeper.compare outputs/2026-01-31/12-00-00-1a2b3c outputs/2026-02-07/12-00-00-4d5e6f
  python -m sweeper.compare BEFORE AFTER --threshold 0.1      # only losses of more than 10 %
  python -m sweeper.compare 5f0c…e1 9a7b…02 --tracking-uri http://mlflow:5000
  python -m sweeper.compare BEFORE AFTER --json > change.json || echo "slower"

Points of the same setting are paired by prompt. Output rate and acceptance are after over before,
with a 95 % interval; a loss is significant when the whole interval is below 1. Hardware, versions
and flags may differ and are said. Prompts, sampling, load, weights and cache policy may not: such
pairs are refused with the reason. Of 40 equal points, about one falls below 1 by chance.
With more than two sweeps each is compared with the first.
exit status: 0 no significant loss, 1 a significant loss, 2 nothing could be compared
"""


@program("compare")
def main(argv: Sequence[str] | None = None) -> int:
    """Compare sweeps; the return value is the exit status."""
    arguments = _parser().parse_args(argv)
    console = console_here(color=not arguments.no_color)
    try:
        first, *others = [_found(name, arguments.tracking_uri) for name in arguments.sweeps]
    except PublishError as problem:  # 1 says that something was lost
        raise UserError(str(problem)) from None
    if not others:
        raise UserError("one sweep was given; name the one to compare it with too")
    found = [(f, across(first[0], f, first[1] | only)) for f, only in others]
    if arguments.json:
        console = Console(file=sys.stderr, quiet=True)
        print(json.dumps([_plain(a, arguments.threshold) for _, a in found], indent=2))
    for folder, one in found:
        print_across(console, first[0], folder, one, arguments.threshold)
    return _status([one for _, one in found], arguments.threshold)


def _status(found: Sequence[Across], threshold: float) -> int:
    if any(one.lost(threshold) for one in found):
        return LOSS
    compared = any(not c.refused and c.rate.value is not None for a in found for c in a.changes)
    return COMPLETE if compared else USER_MISTAKE


def _found(name: str, tracking_uri: str | None) -> tuple[SweepFolder, frozenset[str]]:
    """The folder and, for the run of one point, that point's key."""
    folder = SweepFolder(Path(name))
    if folder.sweep.exists() or not re.fullmatch(r"[0-9a-f]{32}", name):
        if not folder.sweep.exists():
            raise UserError(f"{name}: no sweep.json there, and it is no run id of MLflow either")
        return folder, frozenset()
    path, key = found_again(tracking_uri or default_tracking_uri(Path("outputs")), name)
    return SweepFolder(path), frozenset([key] if key else [])


def _plain(found: Across, threshold: float) -> dict[str, object]:
    return {
        "threshold": threshold,
        "changes": [_plain_change(c, threshold) for c in found.changes],
        "only_before": found.only_before,
        "only_after": found.only_after,
    }


def _plain_change(one: Change, threshold: float) -> dict[str, object]:
    return {
        "setting": one.name,
        "lost": one.lost(threshold),
        "output_rate": to_json(one.rate),
        "acceptance": to_json(one.acceptance),
        "identical_share": to_json(one.same),
        "differs": one.differs,
        "refused": one.refused,
    }


def _share_of_one(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not in 0 to 1; 0.05 is 5 %")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = parser_of(
        "compare", "Compare sweeps of the same settings, the first with each other one.", EXAMPLES
    )
    parser.add_argument(
        "sweeps", metavar="DIR|run-id", nargs="+", help="a sweep folder, or a run in MLflow"
    )
    parser.add_argument(
        "--threshold",
        type=_share_of_one,
        default=THRESHOLD,
        help="losses up to this share are not flagged (default: %(default)s)",
    )
    parser.add_argument("--tracking-uri", help="where run ids are; default: outputs/mlflow.db")
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    return parser


if __name__ == "__main__":
    sys.exit(main())
