"""``sweeper NAME …`` is ``python -m sweeper.NAME …``; anything else is a sweep."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

from sweeper.errors import UserError, did_you_mean

NAMES = (
    *("collect", "compare", "doctor", "judge", "publish", "quality"),
    *("report", "rollout", "servers", "ui"),
)
NO_COLOR = "--no-color"
_WORD = re.compile(r"^[a-z][a-z-]*$")


def commands() -> tuple[str, ...]:
    """The programs beside the sweep that this version has."""
    return tuple(name for name in NAMES if find_spec(_program(f"sweeper.{name}")) is not None)


def _program(module: str) -> str:
    """What ``python -m`` would run for a module or a package."""
    found = find_spec(module)
    is_package = found is not None and found.submodule_search_locations is not None
    return f"{module}.__main__" if is_package else module


def take_no_color(argv: list[str]) -> None:
    """``--no-color`` of a sweep is NO_COLOR=1 for it and all it starts; Hydra has no such flag."""
    if NO_COLOR in argv[1:]:
        os.environ["NO_COLOR"] = "1"
        argv[:] = [one for one in argv if one != NO_COLOR]


def run_command(argv: Sequence[str]) -> bool:
    """Run the program that the first argument names, if it names one; it ends with its own status.

    An override has a ``=`` and an option begins with ``-``: a word alone can only be a program.

    :raises UserError: when there is no such program.
    """
    if not argv or not _WORD.match(argv[0]):
        return False
    name = argv[0]
    if name not in commands():
        raise UserError(
            f"{name}: settings are given as name=value, and no command has this name"
            f"{did_you_mean(name, commands())}"
        )
    sys.exit(import_module(_program(f"sweeper.{name}")).main(argv[1:]))
