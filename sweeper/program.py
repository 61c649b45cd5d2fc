"""What the programs ``python -m sweeper.NAME`` share: exit statuses, help, mistakes in one line."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Protocol

from sweeper.errors import PublishError, UserError

COMPLETE, INCOMPLETE, USER_MISTAKE, INTERRUPTED = 0, 1, 2, 130
"""Exit statuses, the same in every program."""


class Main(Protocol):
    """Takes ``argv`` without the program's name (``None``: the process's own), gives the status."""

    def __call__(self, argv: Sequence[str] | None = None) -> int: ...


def parser_of(name: str, description: str, examples: str) -> argparse.ArgumentParser:
    """A parser whose help ends with ``examples`` as they are written; it knows ``--no-color``."""
    parser = argparse.ArgumentParser(
        prog=f"python -m sweeper.{name}",
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--no-color", action="store_true", help="as NO_COLOR=1")
    return parser


def program(name: str) -> Callable[[Main], Main]:
    """A ``main`` that tells mistakes in a line on stderr; Ctrl-C ends it without a traceback."""

    def around(main: Main) -> Main:
        @functools.wraps(main)
        def run(argv: Sequence[str] | None = None) -> int:
            try:
                return main(argv)
            except (UserError, PublishError) as problem:
                print(f"sweeper.{name}: {problem}", file=sys.stderr)
                return USER_MISTAKE if isinstance(problem, UserError) else INCOMPLETE
            except KeyboardInterrupt:
                return INTERRUPTED

        return run

    return around
