"""Hydra's launcher protocol: overrides of many jobs in, one sweep over grouped servers."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher as HydraLauncher
from hydra.types import HydraContext, TaskFunction
from hydra.utils import instantiate
from omegaconf import DictConfig

from sweeper.config import plain
from sweeper.errors import ConfigError
from sweeper.prepare import Composed
from sweeper.sweep import Launcher, run_sweep


class SweepEndedError(Exception):
    """Carries the exit status past Hydra, which knows only 0 and 1."""

    @property
    def status(self) -> int:
        return int(self.args[0])


class GroupedLauncher(HydraLauncher):
    """Hands all jobs of a sweep over at once, so that one server can serve many of them."""

    def __init__(self, backend: Any) -> None:
        # Hydra 1.3 instantiates nested targets, 1.4 will hand over the configuration.
        self.backend: Launcher = (
            instantiate(backend) if isinstance(backend, dict | DictConfig) else backend
        )

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        self.context, self.config = hydra_context, config

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Run all jobs; the exit status leaves as :class:`SweepEndedError` unless it is 0."""
        sweep_dir = Path(str(self.config.hydra.sweep.dir)).absolute()
        try:
            composed = [self._compose(tuple(overrides)) for overrides in job_overrides]
            status = run_sweep(composed, self.backend, sweep_dir)
        finally:
            _forget_unused(sweep_dir)
        if status:
            raise SweepEndedError(status)
        return [self._answer(overrides) for overrides in job_overrides]

    def _compose(self, overrides: tuple[str, ...]) -> Composed:
        loaded = self.context.config_loader.load_sweep_config(self.config, list(overrides))
        return compose_one(overrides, loaded)

    def _answer(self, overrides: Sequence[str]) -> JobReturn:
        answer = JobReturn(overrides=list(overrides), status=JobStatus.COMPLETED)
        answer.return_value = None
        return answer


def compose_one(overrides: tuple[str, ...], cfg: DictConfig) -> Composed:
    """One configuration as plain data, or why it is incomplete."""
    try:
        return Composed(overrides=overrides, data=plain(cfg))
    except ConfigError as problem:
        return Composed(overrides=overrides, data={}, problem=str(problem))


def _forget_unused(sweep_dir: Path) -> None:
    """Hydra makes the folder and writes ``multirun.yaml`` before it asks; a plan leaves nothing."""
    if not (sweep_dir / "sweep.json").exists():
        with contextlib.suppress(OSError):
            (sweep_dir / "multirun.yaml").unlink(missing_ok=True)
            for folder in (sweep_dir, sweep_dir.parent):
                folder.rmdir()
