"""What ``engine.py`` does only in company: tests see things side by side without a clock.

Whoever has no company waits for ever, so a test fails by itself where there was none, and not on a
machine that is slow.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

MET = "met"


async def all_up(folder: Path, engines: int) -> None:
    """Wait until so many engines with this ``folder`` live at the same time; from then on it is
    open to all."""
    folder.mkdir(exist_ok=True)
    (folder / str(os.getpid())).touch()
    while not (folder / MET).exists():
        if sum(Path("/proc", one.name).exists() for one in folder.iterdir()) >= engines:
            (folder / MET).touch()
        else:
            await asyncio.sleep(0.02)


async def held(number: int, holds: Iterable[tuple[int, str]]) -> None:
    """Requests after the n-th wait until the file is there that was named with n."""
    for after, path in holds:
        while number > after and not Path(path).exists():
            await asyncio.sleep(0.02)


class Company:
    """Of the requests of one engine: how many are under way and were so at most; none is answered
    before ``wanted`` of them have been under way at the same time. ``readings`` are those of its
    ``/metrics``."""

    def __init__(self, wanted: int) -> None:
        self.wanted, self.running, self.most, self.readings = wanted, 0, 0, 0
        self._enough = asyncio.Event()
        self._watched: list[_Watched] = []

    async def join(self) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        if self.running >= self.wanted:
            self._enough.set()
        await self._enough.wait()

    async def read_since(self, readings: int) -> None:
        """Wait for one more than so many."""
        while self.readings <= readings:
            await asyncio.sleep(0.005)

    def leave(self) -> None:
        self.running -= 1

    def watched(self, together: int, looks: int) -> asyncio.Event:
        """Set after so many looks at a time when so many were under way."""
        one = _Watched(together, looks)
        self._watched.append(one)
        if not looks:
            one.seen.set()
        return one.seen

    def look(self) -> None:
        """Somebody reads how many are under way."""
        for one in self._watched:
            one.looks -= self.running >= one.together
            if one.looks <= 0:
                one.seen.set()


@dataclass(slots=True)
class _Watched:
    together: int
    looks: int
    seen: asyncio.Event = field(default_factory=asyncio.Event)
