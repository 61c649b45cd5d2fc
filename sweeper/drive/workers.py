"""A load sent by several processes, where one core cannot read all streams.

This process deals the requests in order and hears of every record; each worker
(``sweeper.drive.worker``) sends its share and takes the times. A closed load's slots are split
among the workers, an open load's arrivals are dealt in turn from the one schedule, and all clocks
count from one origin (``perf_counter_ns`` is one clock for all processes of a machine). A worker
asks for its next request when it takes up one, so that none runs dry while another has a stock.

Messages are pickles with their length before them, over a socket pair. A worker whose socket closes
ends.
"""

from __future__ import annotations

import asyncio
import math
import os
import pickle
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import sweeper
from sweeper.drive.arrivals import arrivals, shifts
from sweeper.drive.requests import Request
from sweeper.drive.tasks import together
from sweeper.errors import RequestError
from sweeper.values import Load, RequestRecord

STREAMS_A_PROCESS = 128
RATE_A_PROCESS = 100.0
"""Requests a second."""
AHEAD_S = 1.0
"""How long before it is due an arrival is dealt."""
START_S = 60.0
_HEAD = struct.Struct("!I")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Where and how a load goes; of a worker, ``shifts`` are its slots of a closed load."""

    base_url: str
    api_key: str
    model: str
    load: Load
    shifts: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dealt:
    """A request, and when an open load wants it sent."""

    request: Request
    due_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """The last word of a worker: the share of a core it took from start to end, and the seconds of
    processor time that is."""

    busy: float
    cpu_s: float


def packed(message: Any) -> bytes:
    """A message as it goes over the socket."""
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _HEAD.pack(len(body)) + body


async def received(reader: asyncio.StreamReader) -> Any:
    """The next message; ``EOFError`` when the other end is closed."""
    try:
        (size,) = _HEAD.unpack(await reader.readexactly(_HEAD.size))
        return pickle.loads(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        raise EOFError from None


def processes_for(load: Load) -> int:
    """How many processes send a load: as many as it says, or enough for what it says.

    ``auto`` takes one for every :data:`STREAMS_A_PROCESS` requests under way or
    :data:`RATE_A_PROCESS` arrivals a second, but leaves half of the cores to the server.
    """
    if not load.overlapping:
        return 1
    if isinstance(load.processes, int):
        return load.processes
    cores = len(os.sched_getaffinity(0))
    return max(1, min(cores // 2, math.ceil(_processes_worth(load))))


def _processes_worth(load: Load) -> float:
    ramp = max(load.ramp_from or 0.0, load.ramp_to or 0.0)
    if arrives(load):
        return (ramp if load.name == "ramp" else load.rate or 0.0) / RATE_A_PROCESS
    return (ramp if load.name == "ramp" else load.concurrency) / STREAMS_A_PROCESS


def arrives(load: Load) -> bool:
    """Whether requests come by a schedule and not as others end."""
    return load.name == "open" or (load.name == "ramp" and load.ramp_of == "rate")


async def run_workers(
    setup: Setup,
    requests: Iterable[Request],
    count: int,
    on_record: Callable[[RequestRecord], None],
) -> Used:
    """Send ``requests`` with ``count`` processes; the busiest one's share of a core, and processor
    time of them all.

    :raises RequestError: a worker ended before its share was done.
    """
    slots = [] if arrives(setup.load) else list(shifts(setup.load))
    count = min(count, len(slots)) if slots else count
    workers = [await _start(setup, tuple(slots[n::count])) for n in range(count)]
    table = _Dealer(setup.load, iter(requests), workers, on_record)
    try:
        async with asyncio.timeout(START_S):
            for worker in workers:
                await worker.hear()  # it is ready
        origin_ns = time.perf_counter_ns()
        for worker in workers:
            worker.say(origin_ns)
        return await table.play(origin_ns)
    except TimeoutError:
        raise RequestError(f"a client process was not ready after {START_S:g} s") from None
    finally:
        for worker in workers:
            worker.end()


@dataclass(slots=True)
class _Worker:
    process: subprocess.Popen[bytes]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    slots: int
    done: bool = False

    def say(self, message: Any) -> None:
        self.writer.write(packed(message))

    async def hear(self) -> Any:
        try:
            return await received(self.reader)
        except EOFError:
            status = await asyncio.to_thread(self.process.wait)
            raise RequestError(
                f"a client process ended before its requests did (exit status {status})"
            ) from None

    def end(self) -> None:
        """One that has said its last word ends by itself."""
        if self.done:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(5.0)
        self.writer.transport.abort()
        self.process.kill()
        self.process.wait()


async def _start(setup: Setup, own: tuple[tuple[float, float], ...]) -> _Worker:
    ours, theirs = socket.socketpair()
    root = str(Path(sweeper.__file__).resolve().parents[1])
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "sweeper.drive.worker", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env=os.environ | {"PYTHONPATH": path},
        )
    reader, writer = await asyncio.open_connection(sock=ours)
    worker = _Worker(process, reader, writer, len(own))
    worker.say(replace(setup, shifts=own))
    return worker


@dataclass(slots=True)
class _Dealer:
    """Deals requests in order and gathers records."""

    load: Load
    requests: Iterator[Request]
    workers: list[_Worker]
    on_record: Callable[[RequestRecord], None]

    async def play(self, origin_ns: int) -> Used:
        async with together() as group:
            listening = [group.create_task(self.listen(worker)) for worker in self.workers]
            if arrives(self.load):
                await self.schedule(origin_ns)
            else:
                self.stock()
        each = [task.result() for task in listening]
        return Used(busy=max(one.busy for one in each), cpu_s=sum(one.cpu_s for one in each))

    def stock(self) -> None:
        """The first hand, a request at a time to each: one for every slot and some to spare."""
        hands = [worker.slots + max(1, worker.slots // 8) for worker in self.workers]
        for turn in range(max(hands)):
            for worker, hand in zip(self.workers, hands, strict=True):
                if turn < hand:
                    self.deal(worker)

    def deal(self, worker: _Worker) -> None:
        """The next request, or ``None``: there are no more."""
        request = next(self.requests, None)
        worker.say(None if request is None else Dealt(request=request))

    async def schedule(self, origin_ns: int) -> None:
        for number, (due, request) in enumerate(
            zip(arrivals(self.load), self.requests, strict=False)
        ):
            wait = due - AHEAD_S - (time.perf_counter_ns() - origin_ns) / 1e9
            if wait > 0:
                await asyncio.sleep(wait)
            worker = self.workers[number % len(self.workers)]
            worker.say(Dealt(request=request, due_ns=round(due * 1e9)))
            await worker.writer.drain()
        for worker in self.workers:
            worker.say(None)

    async def listen(self, worker: _Worker) -> Used:
        """Until the worker's last word."""
        while True:
            message = await worker.hear()
            match message:
                case RequestRecord():
                    self.on_record(message)
                case Used():
                    worker.done = True
                    return message
                case _:  # it took up a request
                    self.deal(worker)
