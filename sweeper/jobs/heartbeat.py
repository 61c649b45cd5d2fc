"""The file that says what a group does now; the only news a watching process needs."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from types import TracebackType

from sweeper import store
from sweeper.errors import StoreError
from sweeper.jobs.pace import Pace
from sweeper.store import GroupFolder
from sweeper.values import Event

EVERY_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """``beats`` counts up as long as the group lives: clocks of nodes differ, so no reader compares
    times. ``point`` and ``done`` of ``total`` requests are those of the point being measured, and
    so are ``tokens`` in ``seconds``, ``accepted`` and ``drafted``."""

    job: str
    node: str
    pid: int
    beats: int = 0
    doing: str = "starting"
    point: int | None = None
    done: int = 0
    total: int = 0
    tokens: int = 0
    seconds: float = 0.0
    accepted: int = 0
    drafted: int = 0


class Heartbeat:
    """Hears the events of a group and keeps its file fresh; silent otherwise. ``overlapping`` are
    the points whose requests may be under way together."""

    def __init__(
        self,
        home: GroupFolder,
        job: str,
        overlapping: Collection[int] = (),
        every_s: float = EVERY_S,
    ) -> None:
        node = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
        self.beat = Beat(job=job, node=node, pid=os.getpid())
        self._home, self._every_s = home, every_s
        self._overlapping, self._pace = overlapping, Pace()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._write()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join(timeout=10)
        self.beat = replace(self.beat, doing="ended", point=None)
        self._write()

    def __call__(self, event: Event) -> None:
        match event.kind:
            case "server_ready":
                self.beat = replace(self.beat, doing=f"ready after {event.seconds:.1f} s")
            case "server_waiting":
                self.beat = replace(self.beat, doing=f"starting, {event.seconds:.0f} s")
            case "point_started":
                self._pace = Pace(overlapping=event.point in self._overlapping)
                self._measuring(event)
            case "request_done":
                self._pace.add(event)
                self._measuring(event)
            case "server_stopped":
                self.beat = replace(self.beat, doing="stopped", point=None)

    def _measuring(self, event: Event) -> None:
        pace = self._pace
        self.beat = replace(
            self.beat, doing="measuring", point=event.point, done=event.done, total=event.total,
            tokens=pace.tokens, seconds=pace.seconds, accepted=pace.accepted,
            drafted=pace.drafted,
        )  # fmt: skip

    def _run(self) -> None:
        while not self._over.wait(self._every_s):
            self._write()

    def _write(self) -> None:
        beat = self.beat = replace(self.beat, beats=self.beat.beats + 1)
        with contextlib.suppress(OSError):  # a full disk must not end the measurement
            store.write_json(self._home.heartbeat, asdict(beat))


def read_beat(home: GroupFolder) -> Beat | None:
    """The last beat; ``None`` before the first, or while the file is not readable."""
    try:
        return store.from_json(Beat, store.read_json(home.heartbeat))
    except (StoreError, OSError, TypeError, AttributeError):
        return None
