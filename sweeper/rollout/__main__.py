"""``python -m sweeper.rollout``: acceptance by policy version, and an alarm where it collapsed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from sweeper.errors import StoreError
from sweeper.judge.policy import Version, by_version
from sweeper.program import COMPLETE, parser_of, program
from sweeper.rollout.log import RolloutLog

COLLAPSED = 1
EXAMPLES = """\
examples:
  python -m sweeper.rollout outputs/2026-01-31/12-00-00-a1b2c3   every point of a sweep
  python -m sweeper.rollout trainer/rollouts.jsonl               a trainer's own log
  python -m sweeper.rollout before.jsonl after.jsonl             several files, read as one log

exit status: 0 no collapse, 1 acceptance collapsed at a version, 2 a mistake
"""


@program("rollout")
def main(argv: Sequence[str] | None = None) -> int:
    """Print each log's versions; the return value is the exit status."""
    arguments = _parser().parse_args(argv)
    console = Console(highlight=False, no_color=arguments.no_color or None)
    collapsed = False
    for name, logs in _logs(arguments.paths):
        versions = by_version(batch for log in logs for batch in log.batches())
        if not versions:
            raise StoreError(f"{name}: no batch that succeeded")
        collapsed |= _print(console, name, versions)
    return COLLAPSED if collapsed else COMPLETE


def _logs(paths: Sequence[Path]) -> Iterator[tuple[str, tuple[RolloutLog, ...]]]:
    """Files together are one log; a sweep has one a point."""
    files = [path for path in paths if not path.is_dir()]
    if files:
        yield " ".join(map(str, files)), tuple(map(RolloutLog, files))
    for folder in (path for path in paths if path.is_dir()):
        found = sorted(folder.glob("points/*/rollouts.jsonl"))
        if not found:
            raise StoreError(f"{folder}: no points/*/rollouts.jsonl; only load=rollout writes them")
        for path in found:
            yield str(path.parent), (RolloutLog(path),)


def _print(console: Console, name: str, versions: Sequence[Version]) -> bool:
    table = Table(title=name, box=None, title_justify="left")
    for header in ("policy version", "batches", "drafted", "accepted", "A/D", "tokens/step"):
        table.add_column(header, justify="right")
    table.add_column("")
    for one in versions:
        table.add_row(
            one.name,
            str(one.batches),
            _say(one.drafted),
            _say(one.accepted),
            _say(one.rate, 3),
            _say(one.tokens_per_step, 2),
            "COLLAPSED" if one.collapsed else "",
        )
    console.print(table)
    for one in versions:
        if one.collapsed:
            console.print(f"version {one.name}: {one.collapsed}", soft_wrap=True, markup=False)
    return any(one.collapsed for one in versions)


def _say(value: float | None, digits: int = 0) -> str:
    return "not measured" if value is None else f"{value:.{digits}f}"


def _parser() -> argparse.ArgumentParser:
    parser = parser_of(
        "rollout", "Acceptance by policy version, and an alarm where it collapsed.", EXAMPLES
    )
    parser.add_argument("paths", nargs="+", type=Path, help="a sweep's folder, or rollout logs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
