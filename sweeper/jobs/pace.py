"""How fast a point goes while it is measured, and how well it drafts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from sweeper.values import Event


@dataclass(slots=True, kw_only=True)
class Pace:
    """Sums over the requests that ended so far. ``seconds`` are those of the requests, or where
    they are ``overlapping`` those of the clock ``now`` since it ``began``."""

    overlapping: bool = False
    now: Callable[[], float] = time.monotonic
    began: float = field(init=False)
    seconds: float = 0.0
    tokens: int = 0
    accepted: int = 0
    drafted: int = 0

    def __post_init__(self) -> None:
        self.began = self.now()

    def add(self, event: Event) -> None:
        """Take a request that ended."""
        alone = self.seconds + event.request_s
        self.seconds = self.now() - self.began if self.overlapping else alone
        self.tokens += event.tokens
        self.accepted += event.accepted
        self.drafted += event.drafted

    @property
    def words(self) -> str:
        return words(self.tokens, self.seconds, self.accepted, self.drafted)


def words(tokens: int, seconds: float, accepted: int, drafted: int) -> str:
    """``, 10.0 tok/s, A/D 0.75``; nothing of what is not known yet."""
    rate = f", {tokens / seconds:.1f} tok/s" if seconds else ""
    return rate + (f", A/D {accepted / drafted:.2f}" if drafted else "")
