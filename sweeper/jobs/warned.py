"""Slurm's warning signals, turned into the one interruption the rest of the program knows."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from types import FrameType, TracebackType

Handler = Callable[[int, FrameType | None], object]
WARNING, END = signal.SIGUSR2, signal.SIGTERM


class Warned:
    """While it is entered, USR2 and TERM interrupt the main thread as Ctrl-C would, once.

    ``by`` is the name of the first signal, empty before; ``at`` when it came, in seconds since the
    epoch. Later ones are only heard: the server is being stopped then.
    """

    def __init__(self) -> None:
        self.by = ""
        self.at = 0.0
        self._again = False
        self._before: dict[int, object] = {}

    def __enter__(self) -> Warned:
        handlers: dict[signal.Signals, Handler] = {WARNING: self._heard, END: self._heard}
        handlers |= {signal.SIGINT: signal.default_int_handler}
        self._before = {number: signal.signal(number, h) for number, h in handlers.items()}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def wait(self, longest_s: float) -> None:
        """Until one more signal comes."""
        until = time.monotonic() + longest_s
        while not self._again and time.monotonic() < until:
            time.sleep(0.1)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self._again = bool(self.by)
        if not self.by:
            self.by, self.at = signal.Signals(number).name, time.time()
            signal.raise_signal(signal.SIGINT)
