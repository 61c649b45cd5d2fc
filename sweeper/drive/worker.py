"""A process that sends its share of a load: ``python -m sweeper.drive.worker FD``.

Started by :mod:`sweeper.drive.workers` with one end of a socket pair.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from sweeper.drive.load import Driver, event_loop, room_for_many, session
from sweeper.drive.requests import Request
from sweeper.drive.workers import Dealt, Setup, Used, arrives, packed, received
from sweeper.values import RequestRecord

WANTED = b"next"


@dataclass(slots=True)
class _Hand:
    """The requests dealt to this process and not yet sent."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    dealt: asyncio.Queue[Dealt | None] = field(default_factory=asyncio.Queue)

    async def fill(self) -> None:
        """Put away what is dealt. Without the dealing process there is nobody to send for."""
        try:
            while (message := await received(self.reader)) is not None:
                self.dealt.put_nowait(message)
            self.dealt.put_nowait(None)
            await received(self.reader)
        except EOFError:
            os._exit(1)

    async def take(self) -> Request | None:
        """The next request, asking for another one; ``None`` when there are no more."""
        dealt = await self.dealt.get()
        if dealt is None:
            self.dealt.put_nowait(None)  # for the other slots
            return None
        self.say(WANTED)
        return dealt.request

    async def arrivals(self) -> AsyncIterator[tuple[float, Request]]:
        """Requests with the second in which they are due."""
        while (dealt := await self.dealt.get()) is not None:
            yield (dealt.due_ns or 0) / 1e9, dealt.request

    def say(self, message: RequestRecord | Used | bytes) -> None:
        self.writer.write(packed(message))


async def work(end: socket.socket) -> None:
    """Hear what is to be done, do it, say what it took."""
    reader, writer = await asyncio.open_connection(sock=end)
    setup: Setup = await received(reader)
    hand = _Hand(reader, writer)
    async with session(setup.base_url, setup.api_key, setup.load) as http:
        hand.say(WANTED)  # ready
        origin_ns: int = await received(reader)
        began, used = time.perf_counter(), time.process_time()
        filling = asyncio.create_task(hand.fill())
        driver = Driver(http, setup.model, hand.take, setup.load, hand.say, origin_ns)
        if arrives(setup.load):
            await driver.arriving(hand.arrivals())
        else:
            await driver.slots(setup.shifts)
        used = time.process_time() - used
        hand.say(Used(busy=used / (time.perf_counter() - began), cpu_s=used))
        await writer.drain()
        filling.cancel()
    writer.close()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the dealing process decides what it means
    end = socket.socket(fileno=int(sys.argv[1]))
    with room_for_many(), asyncio.Runner(loop_factory=event_loop) as runner:
        runner.run(work(end))


if __name__ == "__main__":
    main()
