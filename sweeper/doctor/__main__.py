"""``python -m sweeper.doctor [override…]``: can this machine sweep, would these settings work?"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from sweeper.doctor.check import Check, as_json, healthy, print_checks
from sweeper.doctor.engine import engine_checks
from sweeper.doctor.machine import machine_checks
from sweeper.doctor.services import mlflow_checks, slurm_checks
from sweeper.doctor.trial import Trial, settings_checks, smallest
from sweeper.multirun import compose_here
from sweeper.prepare import Composed, Prepared, prepare
from sweeper.program import COMPLETE, INCOMPLETE, USER_MISTAKE, parser_of, program
from sweeper.report.mlflow import default_tracking_uri
from sweeper.report.outcome import console_here
from sweeper.report.progress import Watch
from sweeper.store import SweepFolder

EXAMPLES = """\
examples:
  python -m sweeper.doctor                               this machine; starts nothing
  python -m sweeper.doctor method=eagle3 gamma=4         and these settings, on real servers once
  python -m sweeper.doctor --no-start target=own target.model=/models/llama method=ngram
  python -m sweeper.doctor --json > doctor.json          for scripts

With overrides the server of those settings and that of its baseline are started once each, two
prompts are sent to both, and it is said what vLLM resolved, whether drafts were made and which was
faster. Overrides are those of python -m sweeper, without commas that sweep.
exit status: 0 nothing failed, 1 a check failed, 2 the settings are wrong, 130 interrupted
"""


@program("doctor")
def main(argv: Sequence[str] | None = None) -> int:
    """Look, print, and return the exit status."""
    arguments = _parser().parse_intermixed_args(argv)
    overrides, console = list(arguments.overrides), console_here(color=not arguments.no_color)
    composed = compose_here(overrides, arguments.config_dir)
    prepared = prepare([composed])
    checks = [*_here(composed, prepared), *(settings_checks(prepared) if overrides else ())]
    wrong = bool(prepared.plan.refusals)
    if overrides and not wrong and healthy(checks) and not arguments.no_start:
        if not arguments.json:
            print_checks(console, checks)
        beside = Console(file=sys.stderr, no_color=arguments.no_color or None)
        shown = beside if arguments.json else console
        tried = _tried(prepared, shown, arguments.logs)
        _say(console, checks, tried, arguments.json)
        return COMPLETE if healthy(tried) else INCOMPLETE
    _say(console, [], checks, arguments.json)
    if wrong:
        return USER_MISTAKE
    return COMPLETE if healthy(checks) else INCOMPLETE


def _say(console: Console, before: Sequence[Check], checks: Sequence[Check], as_data: bool) -> None:
    """Those in ``before`` were printed already, unless it is one document."""
    if as_data:
        print(json.dumps(as_json([*before, *checks]), indent=2, ensure_ascii=False))
        return
    print_checks(console, checks)
    failed = sum(check.state == "failure" for check in (*before, *checks))
    console.print(f"{failed} failed" if failed else "nothing failed")


def _here(composed: Composed, prepared: Prepared) -> Iterator[Check]:
    """What does not depend on the model: machine, vLLM, Slurm, MLflow."""
    settings = prepared.settings
    outputs = Path(settings.output_dir if settings else "outputs")
    command = settings.server.command if settings else ("python",)
    yield from machine_checks(outputs)
    yield from engine_checks([g.server.command for g in prepared.plan.groups] or [command])
    yield from slurm_checks()
    if settings is None or settings.tracker.name == "mlflow":
        uri = settings.tracker.tracking_uri if settings else None
        yield from mlflow_checks(uri or default_tracking_uri(outputs))


def _tried(prepared: Prepared, console: Console, logs: Path | None) -> list[Check]:
    """The trial's files are gone afterwards, however it ends, unless somebody wants its logs."""
    with contextlib.ExitStack() as ended:
        path = logs or Path(
            ended.enter_context(tempfile.TemporaryDirectory(prefix="sweeper-doctor-"))
        )
        trial = Trial(plan=smallest(prepared.plan), folder=SweepFolder(path), kept=logs is not None)
        points = [p for g in trial.plan.groups for p in g.points]
        with Watch(console, points, len(trial.plan.groups)) as watch:
            trial.run(watch)
        return list(trial.checks())


def _parser() -> argparse.ArgumentParser:
    parser = parser_of(
        "doctor",
        "Check this machine and, with overrides, try settings once on real servers.",
        EXAMPLES,
    )
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="override",
        help="settings to check, such as method=ngram gamma=4",
    )
    parser.add_argument("--no-start", action="store_true", help="check settings, start no server")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument(
        "--logs", type=Path, metavar="DIR", help="keep the files of the trial, servers' logs too"
    )
    parser.add_argument(
        "--config-dir",
        action="append",
        default=[],
        metavar="DIR",
        help="a folder of your own yaml, as for python -m sweeper",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
