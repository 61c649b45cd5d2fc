"""Hydra's launcher protocol: overrides of many jobs in, one sweep over grouped servers."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import HydraException
from hydra.plugins.launcher import Launcher as HydraLauncher
from hydra.types import HydraContext, TaskFunction
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sweeper.config import config_dir, plain, register_resolvers
from sweeper.errors import ConfigError, UserError, did_you_mean
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


def compose_here(overrides: Sequence[str], config_dirs: Sequence[str] = ()) -> Composed:
    """The configuration of one job without running Hydra's program.

    :raises UserError: when Hydra cannot compose it, in words of ours.
    """
    register_resolvers()
    paths = ",".join(f"file://{Path(one).absolute()}" for one in config_dirs)
    search = [f"hydra.searchpath=[{paths}]"] if paths else []
    try:
        with initialize_config_dir(str(config_dir()), version_base="1.3", job_name="sweeper"):
            return compose_one(tuple(overrides), compose("config", [*overrides, *search]))
    except (HydraException, OmegaConfBaseException) as problem:
        raise UserError(hydra_message(problem)) from None


def hydra_message(problem: Exception) -> str:
    """Hydra's words, shortened, with the name that was probably meant."""
    text = str(problem).strip()
    unreadable = getattr(problem, "override", None)
    if unreadable:
        return (
            f"{unreadable}: cannot be read: {text.splitlines()[0]}; a comma sweeps, and a value "
            f"with commas, quotes or braces must be quoted: \"key='a,b'\""
        )
    several = re.search(r"Ambiguous value for argument '([^']+)'", text)
    if several:
        return (
            f"{several[1]}: several values are a sweep (python -m sweeper -m …) and this takes "
            "one; a value that has a comma in it is quoted: \"key='a,b'\""
        )
    unknown = re.search(r"Could not override '([^']+)'", text)
    if unknown:
        path = unknown[1]
        group, _, key = path.rpartition(".")
        if group and (having := _choices_with(path)):
            where = ", ".join(having)
            return f"{path}: the {group} that is chosen has no such key; it is one of {where}"
        return f"{path}: unknown key{did_you_mean(key, _keys_beside(path))}"
    choice = re.search(r"Could not find '([^']+)/([^'/]+)'", text)
    if choice and (config_dir() / choice[1]).is_dir():
        known = sorted(path.stem for path in (config_dir() / choice[1]).glob("*.yaml"))
        return f"{choice[1]}={choice[2]}: no such choice{did_you_mean(choice[2], known)}"
    return text


def _keys_beside(path: str) -> list[str]:
    """Names of the level of the configuration tree that ``path`` points into."""
    if "." not in path:
        names = OmegaConf.load(config_dir() / "config.yaml")
        groups = [entry.name for entry in config_dir().iterdir() if entry.is_dir()]
        own = [str(key) for key in names if key not in ("defaults", "hydra")]
        return sorted({*own, *groups} - {"hydra"})
    return sorted(set().union(*_keys_of_choices(path).values()))


def _choices_with(path: str) -> list[str]:
    """``load=closed`` and so on: the choices of its group that have the key ``path``."""
    group, key = path.split(".")[0], path.rsplit(".", 1)[-1]
    return sorted(f"{group}={name}" for name, keys in _keys_of_choices(path).items() if key in keys)


def _keys_of_choices(path: str) -> dict[str, set[str]]:
    """By choice of its group, the keys of the level that ``path`` points into."""
    first, *rest = path.split(".")
    if [first, *rest[:1]] == ["hydra", "launcher"]:
        first, rest = "hydra/launcher", rest[1:]
    found: dict[str, set[str]] = {}
    for choice in (config_dir() / first).glob("*.yaml"):
        node = OmegaConf.load(choice)
        for part in rest[:-1]:
            node = node.get(part) if isinstance(node, DictConfig) else node
        found[choice.stem] = {str(key) for key in node} if isinstance(node, DictConfig) else set()
    return found
