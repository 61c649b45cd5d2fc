"""Ctrl-C and TERM between two calls of a client, not in the middle of one."""

from __future__ import annotations

import functools
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Unbroken:
    """A client whose calls are made whole before an interruption is felt.

    For clients that write to a database themselves: a statement that is broken into keeps its lock
    until its frames are gone, and they live in the traceback; whoever then tidies up waits for
    this lock in vain.
    """

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, name)

        @functools.wraps(call)
        def whole(*arguments: Any, **named: Any) -> Any:
            with unbroken():
                return call(*arguments, **named)

        return whole


@contextmanager
def unbroken() -> Iterator[None]:
    """Inside, the first Ctrl-C or TERM waits for the end of the block; a second one does not.

    Only signals for which Python has a handler wait: what is ignored, or ends the process, does so
    here too. Only the main thread is ever interrupted, so elsewhere there is nothing to do.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {n: h for n in _SIGNALS if callable(h := signal.getsignal(n))}
    came: list[int] = []

    def later(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if len(came) > 1:
            before[signal.Signals(number)](number, frame)

    for number in before:
        signal.signal(number, later)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if len(came) == 1:
            signal.raise_signal(came[0])
