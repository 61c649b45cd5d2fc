"""``python -m sweeper.ui``: MLflow's own pages on the results in the outputs folder."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from sweeper.errors import UserError
from sweeper.program import parser_of, program
from sweeper.report.mlflow import (
    ARTIFACTS,
    database_of,
    default_tracking_uri,
    views,
    without_password,
)

EXAMPLES = """\
examples:
  python -m sweeper.ui
  python -m sweeper.ui --outputs /data/outputs --port 5001
  python -m sweeper.ui --tracking-uri postgresql+psycopg://mlflow@db/mlflow

The addresses printed open each experiment with its points as rows and the columns that matter, and
with charts over γ behind the second of the three buttons above the table.
Listens on 127.0.0.1 only; stop it with Ctrl-C. From another machine: ssh -L 5000:127.0.0.1:5000.
exit status: 2 there is no mlflow.db, 1 it cannot be read, otherwise that of MLflow
"""


@program("ui")
def main(argv: Sequence[str] | None = None) -> int:
    """Become the MLflow server; returns only where that is not possible."""
    arguments = _parser().parse_args(argv)
    uri = arguments.tracking_uri or default_tracking_uri(arguments.outputs)
    _check(uri)
    address = f"http://127.0.0.1:{arguments.port}"
    print(f"MLflow on {address} for {database_of(uri) or without_password(uri)}", flush=True)
    for name, page in views(uri, address).items():
        print(f"  {name}: {page}", flush=True)
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    os.environ["MLFLOW_BACKEND_STORE_URI"] = uri  # not on a command line: it may hold a password
    command = server_command(uri, arguments.outputs, arguments.port)
    os.execv(command[0], command)


def _check(uri: str) -> None:
    """:raises UserError: when no MLflow server can be started on ``uri``."""
    if uri.startswith(("http://", "https://")):
        raise UserError(f"{without_password(uri)} is a server already; open it in a browser")
    database = database_of(uri)
    if database is not None and not database.is_file():
        raise UserError(
            f"{database} is missing; run a sweep first, or name the folder that has it with "
            "--outputs, or the address with --tracking-uri"
        )


def server_command(uri: str, outputs: Path, port: int) -> list[str]:
    """The argv of an MLflow server on ``uri``, which its environment has, on this machine only;
    files lie beside a database file, else in ``outputs``."""
    database = database_of(uri)
    home = database.parent if database else outputs.resolve()
    artifacts = (home / ARTIFACTS).as_uri()
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--workers", "1"]
    return [*command, "--default-artifact-root", artifacts]


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("ui", "Show published sweeps in MLflow's web pages.", EXAMPLES)
    parser.add_argument("--outputs", type=Path, default=Path("outputs"), help="default: outputs")
    parser.add_argument(
        "--tracking-uri", metavar="URI", help="a database elsewhere; default: mlflow.db in outputs"
    )
    parser.add_argument("--port", type=int, default=5000, help="default: %(default)s")
    return parser


if __name__ == "__main__":
    sys.exit(main())
