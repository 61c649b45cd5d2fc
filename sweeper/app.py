"""The command line: ``python -m sweeper [-m] override…``."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.utils import instantiate
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from sweeper.commands import run_command, take_no_color
from sweeper.config import config_dir, register_resolvers
from sweeper.errors import SweeperError, UserError
from sweeper.multirun import SweepEndedError, compose_one, hydra_message
from sweeper.program import INCOMPLETE, INTERRUPTED, USER_MISTAKE
from sweeper.sweep import run_sweep


class PastHydraError(BaseException):
    """Carries how a job ended past Hydra, which would print a line of its own for an Exception."""

    def __init__(self, ended: Exception) -> None:
        super().__init__(str(ended))
        self.ended = ended


def run_point(cfg: DictConfig) -> None:
    """A sweep of one job, for the command without ``-m``."""
    try:
        _run_point(cfg)
    except Exception as ended:
        raise PastHydraError(ended) from None


def _past_hydra(task: Callable[[], None]) -> None:
    """Run, and raise what ended the job as it was, with its own causes."""
    ended: Exception | None = None
    try:
        task()
    except PastHydraError as carried:
        ended = carried.ended
    if ended is not None:
        raise ended


def _run_point(cfg: DictConfig) -> None:
    own = HydraConfig.get()
    backend = instantiate(own.launcher.backend)
    sweep_dir = Path(own.runtime.output_dir)
    overrides = tuple(str(item) for item in own.overrides.task)
    try:
        status = run_sweep([compose_one(overrides, cfg)], backend, sweep_dir)
    finally:
        if not any(sweep_dir.iterdir()):
            with contextlib.suppress(OSError):
                sweep_dir.rmdir()
                sweep_dir.parent.rmdir()
    if status:
        raise SweepEndedError(status)


def main() -> None:
    """Run, and turn every way to end into its exit status: 0, 1, 2 or 130."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    register_resolvers()
    # Hydra would print its own message and exit with 1; we say what would be right and exit with 2.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    task = hydra.main(version_base="1.3", config_path=str(config_dir()), config_name="config")
    try:
        take_no_color(sys.argv)
        if run_command(sys.argv[1:]):
            return
        _past_hydra(task(run_point))
    except SweepEndedError as ended:
        sys.exit(ended.status)
    except UserError as problem:
        _end(str(problem), USER_MISTAKE)
    except (HydraException, OmegaConfBaseException) as problem:
        _end(hydra_message(problem), USER_MISTAKE)
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still to flush
        sys.exit(INCOMPLETE)
    except OSError as problem:
        _end(f"cannot write: {problem}", USER_MISTAKE)
    except SweeperError as problem:
        _end(str(problem), INCOMPLETE)
    except KeyboardInterrupt:
        _end("interrupted", INTERRUPTED)


def _end(message: str, status: int) -> None:
    print(f"sweeper: {message}", file=sys.stderr)
    sys.exit(status)
