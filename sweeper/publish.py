"""``python -m sweeper.publish DIR``: tell MLflow about a sweep, from its files."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from sweeper.program import COMPLETE, parser_of, program
from sweeper.report.mlflow import publish
from sweeper.report.outcome import write_report
from sweeper.store import SweepFolder, read_sweep
from sweeper.values import Json

EXAMPLES = """\
examples:
  python -m sweeper.publish outputs/2026-01-31/12-00-00-1a2b3c
  python -m sweeper.publish DIR --tracking-uri http://mlflow:5000 --experiment drafts

Safe to repeat: the sweep keeps its runs, and only what is new is added.
exit status: 0 published, 1 MLflow did not take it, 2 DIR cannot be used, 130 interrupted
"""


@program("publish")
def main(argv: Sequence[str] | None = None) -> int:
    """Publish one sweep; the return value is the exit status."""
    arguments = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, _interrupt)  # so that no run is left RUNNING
    folder = SweepFolder(arguments.folder)
    judgement, _ = write_report(folder)
    run = publish(folder, judgement, *_tracker(arguments, read_sweep(folder).settings))
    print(f"run {run} with {len(judgement.comparisons)} points")
    return COMPLETE


def _tracker(arguments: argparse.Namespace, settings: Json) -> tuple[str | None, str]:
    """Address and experiment: what was said here, else what the sweep was started with."""
    sweep = settings if isinstance(settings, dict) else {}
    uri = arguments.tracking_uri or sweep.get("tracking_uri")
    return uri, arguments.experiment or sweep.get("experiment") or "sweeper"


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("publish", "Publish a sweep to MLflow from its files.", EXAMPLES)
    parser.add_argument("folder", metavar="DIR", type=Path, help="a sweep folder (sweep.json)")
    parser.add_argument(
        "--tracking-uri", help="default: the sweep's, else mlflow.db two folders up"
    )
    parser.add_argument("--experiment", help="default: the sweep's, else sweeper")
    return parser


if __name__ == "__main__":
    sys.exit(main())
