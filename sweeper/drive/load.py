"""How requests are sent: one at a time, a constant number under way, or as they arrive."""

from __future__ import annotations

import asyncio
import gc
import resource
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace

import aiohttp

from sweeper.drive.arrivals import arrivals, shifts
from sweeper.drive.client import send
from sweeper.drive.connection import WatchedConnector
from sweeper.drive.requests import Request
from sweeper.drive.stream import send_streamed
from sweeper.values import Load, RequestRecord

KEEP_ALIVE_S = 2.0
"""Connections unused for longer are closed by us; vLLM closes them after 5 seconds, and a request
on its way then would fail for nothing."""

OnRecord = Callable[[RequestRecord], None]


def rehearsal(load: Load) -> Load:
    """What canary and warm-up are sent with: the shape of the requests without the waiting."""
    if not load.overlapping:
        return load
    level = load.concurrency if load.name == "closed" else 1
    return Load(
        name="closed",
        concurrency=level,
        stream=load.stream,
        request_timeout_s=load.request_timeout_s,
    )


def run_load(
    base_url: str,
    api_key: str,
    model: str,
    requests: Iterable[Request],
    load: Load,
    on_record: OnRecord,
) -> None:
    """Send ``requests`` as ``load`` says until there are no more or its duration is over.

    Requests under way then are waited for. ``on_record`` is called between reads of the event
    loop, in the order in which requests end; of a sequential load it is done before the next
    request is sent. Whatever it raises ends the load.
    """
    with _room_for_many(), asyncio.Runner(loop_factory=_event_loop) as runner:
        runner.run(_drive(base_url, api_key, model, requests, load, on_record))


async def _drive(
    base_url: str,
    api_key: str,
    model: str,
    requests: Iterable[Request],
    load: Load,
    on_record: OnRecord,
) -> None:
    headers = {"Content-Type": "application/json"}
    if api_key:
        headers["Authorization"] = f"Bearer {api_key}"
    async with aiohttp.ClientSession(
        base_url,
        headers=headers,
        timeout=aiohttp.ClientTimeout(total=None if load.stream else load.request_timeout_s),
        connector=_connector(load),
    ) as http:
        driver = _Driver(http, model, iter(requests), load, on_record, time.perf_counter_ns())
        if not load.overlapping:
            await driver.slot(0.0, float("inf"))
        elif load.name == "open" or (load.name == "ramp" and load.ramp_of == "rate"):
            await driver.arriving()
        else:
            await driver.slots()


def _event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _connector(load: Load) -> aiohttp.BaseConnector:
    if load.overlapping:
        return WatchedConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S)
    # Every request on a connection of its own: a server may close an idle one at any time.
    return aiohttp.TCPConnector(force_close=True)


@dataclass(slots=True)
class _Driver:
    """One load being sent; seconds and ``origin_ns`` count from its start."""

    http: aiohttp.ClientSession
    model: str
    requests: Iterator[Request]
    load: Load
    on_record: OnRecord
    origin_ns: int
    over: bool = False

    async def slots(self) -> None:
        """A closed loop: all slots at once, each with one request after another."""
        async with _tasks() as group:
            for opens, closes in shifts(self.load):
                group.create_task(self.slot(opens, closes))

    async def slot(self, opens: float, closes: float) -> None:
        await self.until(opens)
        while self.elapsed < closes and (request := next(self.requests, None)) is not None:
            await self.one(request)

    async def arriving(self) -> None:
        """An open loop: a request at each arrival, late ones at once."""
        async with _tasks() as group:
            for due, request in zip(arrivals(self.load), self.requests, strict=False):
                await self.until(due)
                group.create_task(self.one(request, round(due * 1e9)))

    async def one(self, request: Request | None, due_ns: int | None = None) -> None:
        """Send a request, and after its answer the turns that follow it, in the same slot."""
        while request is not None and not self.over:
            request = request.after(await self.answered(request, due_ns))
            due_ns = None

    async def answered(self, request: Request, due_ns: int | None) -> RequestRecord:
        if self.load.stream:
            timeout_s = self.load.request_timeout_s
            record = await send_streamed(self.http, self.model, request, self.origin_ns, timeout_s)
        else:
            record = await send(self.http, self.model, request, self.origin_ns)
        if self.over:
            return record
        try:
            self.on_record(record if due_ns is None else replace(record, due_ns=due_ns))
        except BaseException:
            self.over = True
            raise
        return record

    @property
    def elapsed(self) -> float:
        return (time.perf_counter_ns() - self.origin_ns) / 1e9

    async def until(self, seconds: float) -> None:
        """Not before: a timer of the event loop may go off half a millisecond early."""
        while (wait := seconds - self.elapsed) > 0:
            await asyncio.sleep(wait)


@asynccontextmanager
async def _tasks() -> AsyncIterator[asyncio.TaskGroup]:
    """A task group whose first failure comes out as itself."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None


@contextmanager
def _room_for_many() -> Iterator[None]:
    """As many sockets as the system allows; what is in memory already is not searched for garbage
    while times are taken."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
