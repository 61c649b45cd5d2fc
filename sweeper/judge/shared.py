"""Work on a large sweep, shared out among the processors there are."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TypeVar

from sweeper.judge.bootstrap import one_thread

Given = TypeVar("Given")
Made = TypeVar("Made")

LARGE = 200_000_000
"""Bytes of requests from which other processes are worth the second they take to start."""
MOST = 8
"""Processes at most: each takes some 200 MB."""


def shared_out(work: Callable[[Given], Made], parts: Sequence[Given], *, size: int) -> list[Made]:
    """``work`` of every part, in their order; ``size`` bytes are read for all of them."""
    processes = min(MOST, len(os.sched_getaffinity(0)), len(parts))
    if size < LARGE or processes < 2:
        return [work(part) for part in parts]
    pool = ProcessPoolExecutor(processes, get_context("spawn"), initializer=_begin)
    try:
        return list(pool.map(work, parts))
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def without_collector() -> Iterator[None]:
    """Records hold no cycles; to look for some in millions of them takes a sixth of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _begin() -> None:
    """Ctrl-C is for the process that waits; it ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    one_thread()
    gc.disable()
