"""How requests are sent: one at a time, a constant number under way, or as they arrive."""

from __future__ import annotations

import asyncio
import gc
import resource
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import aiohttp

from sweeper.drive.arrivals import arrivals, shifts
from sweeper.drive.client import send
from sweeper.drive.connection import WatchedConnector
from sweeper.drive.requests import Request
from sweeper.drive.stream import send_streamed
from sweeper.drive.tasks import together
from sweeper.drive.workers import Setup, arrives, processes_for, run_workers
from sweeper.values import Load, RequestRecord

KEEP_ALIVE_S = 2.0
"""Connections unused for longer are closed by us; vLLM closes them after 5 seconds, and a request
on its way then would fail for nothing."""

OnRecord = Callable[[RequestRecord], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """What a load took here: processes, the share of a core that the busiest one used, and seconds
    of processor time of all of them with the one that deals."""

    processes: int
    busy: float
    cpu_s: float


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
        processes=1,
    )


def run_load(
    base_url: str,
    api_key: str,
    model: str,
    requests: Iterable[Request],
    load: Load,
    on_record: OnRecord,
) -> Client:
    """Send ``requests`` as ``load`` says until there are no more or its duration is over.

    Requests under way then are waited for; turns that would follow them are not sent.
    ``on_record`` is called between reads of the event loop, in the order in which requests end; of
    a sequential load it is done before the next request is sent. Whatever it raises ends the load.
    """
    count = processes_for(load)
    setup = Setup(base_url=base_url, api_key=api_key, model=model, load=load)
    with room_for_many(), asyncio.Runner(loop_factory=event_loop) as runner:
        began, used = time.perf_counter(), time.process_time()
        if count > 1:
            theirs = runner.run(run_workers(setup, requests, count, on_record))
            cpu_s = theirs.cpu_s + time.process_time() - used
            return Client(processes=count, busy=theirs.busy, cpu_s=cpu_s)
        runner.run(_drive(setup, iter(requests), on_record))
    used = time.process_time() - used
    return Client(processes=1, busy=used / (time.perf_counter() - began), cpu_s=used)


async def _drive(setup: Setup, requests: Iterator[Request], on_record: OnRecord) -> None:
    """The load from this process alone."""

    async def take() -> Request | None:
        return next(requests, None)

    async def dealt() -> AsyncIterator[tuple[float, Request]]:
        for due, request in zip(arrivals(setup.load), requests, strict=False):
            yield due, request

    load = setup.load
    async with session(setup.base_url, setup.api_key, load) as http:
        driver = Driver(http, setup.model, take, load, on_record, time.perf_counter_ns())
        if not load.overlapping:
            await driver.slot(0.0, float("inf"))
        elif arrives(load):
            await driver.arriving(dealt())
        else:
            await driver.slots(shifts(load))


def session(base_url: str, api_key: str, load: Load) -> aiohttp.ClientSession:
    """Connections to the server, as this load needs them."""
    headers = {"Content-Type": "application/json"}
    if api_key:
        headers["Authorization"] = f"Bearer {api_key}"
    return aiohttp.ClientSession(
        base_url,
        headers=headers,
        timeout=aiohttp.ClientTimeout(total=None if load.stream else load.request_timeout_s),
        connector=_connector(load),
    )


def event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed."""
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
class Driver:
    """One load being sent; seconds and ``origin_ns`` count from its start."""

    http: aiohttp.ClientSession
    model: str
    take: Callable[[], Awaitable[Request | None]]
    load: Load
    on_record: OnRecord
    origin_ns: int
    over: bool = False

    async def slots(self, shifts: Iterable[tuple[float, float]]) -> None:
        """A closed loop: all slots at once, each with one request after another."""
        async with together() as group:
            for opens, closes in shifts:
                group.create_task(self.slot(opens, closes))

    async def slot(self, opens: float, closes: float) -> None:
        await self.until(opens)
        while self.elapsed < closes and (request := await self.take()) is not None:
            await self.one(request, closes)

    async def arriving(self, dealt: AsyncIterator[tuple[float, Request]]) -> None:
        """An open loop: a request at each arrival, late ones at once."""
        closes = self.load.duration_s or float("inf")
        async with together() as group:
            async for due, request in dealt:
                await self.until(due)
                group.create_task(self.one(request, closes, round(due * 1e9)))

    async def one(self, first: Request, closes: float, due_ns: int | None = None) -> None:
        """Send a request, and after its answer the turns that follow it, in the same slot, as long
        as it is open."""
        request = first.after(await self.answered(first, due_ns))
        while request is not None and not self.over and self.elapsed < closes:
            request = request.after(await self.answered(request, None))

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


@contextmanager
def room_for_many() -> Iterator[None]:
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
