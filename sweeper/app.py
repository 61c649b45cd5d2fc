"""The command line: ``python -m sweeper [-m] override…``."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sweeper.config import config_dir, register_resolvers
from sweeper.errors import SweeperError, UserError, did_you_mean
from sweeper.multirun import SweepEndedError, compose_one
from sweeper.report.outcome import INCOMPLETE, INTERRUPTED, USER_MISTAKE
from sweeper.sweep import run_sweep


def run_point(cfg: DictConfig) -> None:
    """A sweep of one job, for the command without ``-m``."""
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
        task(run_point)()
    except SweepEndedError as ended:
        sys.exit(ended.status)
    except UserError as problem:
        _end(str(problem), USER_MISTAKE)
    except (HydraException, OmegaConfBaseException) as problem:
        _end(_hydra_message(problem), USER_MISTAKE)
    except OSError as problem:
        _end(f"cannot write: {problem}", USER_MISTAKE)
    except SweeperError as problem:
        _end(str(problem), INCOMPLETE)
    except KeyboardInterrupt:
        _end("interrupted", INTERRUPTED)


def _end(message: str, status: int) -> None:
    print(f"sweeper: {message}", file=sys.stderr)
    sys.exit(status)


def _hydra_message(problem: Exception) -> str:
    """Hydra's words, shortened, with the name that was probably meant."""
    text = str(problem).strip()
    unreadable = getattr(problem, "override", None)
    if unreadable:
        return (
            f"{unreadable}: cannot be read: {text.splitlines()[0]}; a comma sweeps, and a value "
            f"with commas, quotes or braces must be quoted: \"key='a,b'\""
        )
    unknown = re.search(r"Could not override '([^']+)'", text)
    if unknown:
        path = unknown[1]
        return f"{path}: unknown key{did_you_mean(path.rsplit('.', 1)[-1], _keys_beside(path))}"
    choice = re.search(r"Could not find '([^']+)/([^'/]+)'", text)
    if choice and (config_dir() / choice[1]).is_dir():
        known = sorted(path.stem for path in (config_dir() / choice[1]).glob("*.yaml"))
        return f"{choice[1]}={choice[2]}: no such choice{did_you_mean(choice[2], known)}"
    return text


def _keys_beside(path: str) -> list[str]:
    """Names of the level of the configuration tree that ``path`` points into."""
    first, *rest = path.split(".")
    if not rest:
        names = OmegaConf.load(config_dir() / "config.yaml")
        groups = [entry.name for entry in config_dir().iterdir() if entry.is_dir()]
        own = [str(key) for key in names if key not in ("defaults", "hydra")]
        return sorted({*own, *groups} - {"hydra"})
    known: set[str] = set()
    if [first, *rest[:1]] == ["hydra", "launcher"]:
        first, rest = "hydra/launcher", rest[1:]
    for choice in (config_dir() / first).glob("*.yaml"):
        node = OmegaConf.load(choice)
        for part in rest[:-1]:
            node = node.get(part) if isinstance(node, DictConfig) else node
        known |= {str(key) for key in node} if isinstance(node, DictConfig) else set()
    return sorted(known)
