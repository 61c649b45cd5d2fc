"""Groups run in this process, one server after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from sweeper.values import Group

T = TypeVar("T")


class LocalLauncher:
    """The machine's one server at a time; measuring two at once would measure neither."""

    def map(self, run: Callable[[Group], T], groups: Sequence[Group]) -> list[T]:
        """``run`` of every group, in order."""
        return [run(group) for group in groups]
