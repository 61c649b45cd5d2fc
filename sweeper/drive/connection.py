"""When bytes arrive: the clock is read as the event loop hands them over, not when a task wakes.

Between a socket becoming readable and the task that waits for it there is a turn of the event
loop, in which every other stream is served too; with hundreds of streams that is a millisecond.
So a :class:`Watch` stands between every connection and aiohttp's own protocol.
"""

from __future__ import annotations

import asyncio
import time
from contextvars import ContextVar
from typing import Any

import aiohttp
from aiohttp import tracing
from aiohttp.connector import Connection


class Arrivals:
    """The reads of one answer: at ``times_ns[i]`` its body had grown to ``sizes[i]`` bytes.

    Framing is not counted. Times are ``perf_counter_ns``.
    """

    __slots__ = ("_last_ns", "body", "sizes", "times_ns")

    def __init__(self) -> None:
        self.body: aiohttp.StreamReader | None = None
        self.times_ns: list[int] = []
        self.sizes: list[int] = []
        self._last_ns = 0

    def attach(self, body: aiohttp.StreamReader) -> None:
        """Follow this body; to be called as soon as the headers are there.

        Headers wake the waiting task before the connection is read again, so what is in the body
        by then came with the last read.
        """
        self.body = body
        if body.total_bytes:
            self.times_ns.append(self._last_ns)
            self.sizes.append(body.total_bytes)

    def note(self, now: int) -> None:
        """Something was read and parsed."""
        if self.body is None:
            self._last_ns = now
        else:
            self.times_ns.append(now)
            self.sizes.append(self.body.total_bytes)


class Watch(asyncio.Protocol):
    """Reads the clock before each read of a connection is parsed by aiohttp's own protocol."""

    __slots__ = ("_inner", "arrivals")

    def __init__(self, inner: asyncio.Protocol) -> None:
        self._inner = inner
        self.arrivals = Arrivals()

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter_ns()
        self._inner.data_received(data)
        self.arrivals.note(now)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._inner.connection_lost(exc)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()


_ARRIVALS: ContextVar[Arrivals | None] = ContextVar("arrivals of this task's request")


class WatchedConnector(aiohttp.TCPConnector):
    """Connections that carry a :class:`Watch`; the sending task finds its :func:`arrivals`."""

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[tracing.Trace],
        timeout: aiohttp.ClientTimeout,
    ) -> Connection:
        _ARRIVALS.set(None)
        connection = await super().connect(req, traces, timeout)
        transport: Any = connection.transport  # a connected one: it has a protocol
        found = transport.get_protocol()
        if not isinstance(found, Watch):
            found = Watch(found)
            transport.set_protocol(found)
        found.arrivals = Arrivals()
        _ARRIVALS.set(found.arrivals)
        return connection


def arrivals() -> Arrivals | None:
    """Of the request this task sent last; ``None`` when it got no connection."""
    return _ARRIVALS.get()
