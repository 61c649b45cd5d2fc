"""What is known of a point while it is measured; its result can be written at any moment."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sweeper.measure.caches import state
from sweeper.measure.counted import Readings
from sweeper.measure.provenance import provenance
from sweeper.serve.session import Session
from sweeper.store import PointFolder
from sweeper.values import Event, Json, PlannedPoint, PointResult, RequestRecord, Status


@dataclass(frozen=True, slots=True)
class Written:
    """The records on disk, read anew by every loop over them."""

    folder: PointFolder

    def __iter__(self) -> Iterator[RequestRecord]:
        return self.folder.each_record()


@dataclass(slots=True)
class Measurement:
    """Counts and sentences; the records themselves are on disk only.

    ``reset``: the prefix cache could be emptied where it was to be. ``chat``: prompts are chats.
    ``shift_ns`` is how long after the point's start the present repeat began. ``told``: an answer
    came with counts of its drafts; ``readings`` are there where none is expected to.
    """

    planned: PlannedPoint
    folder: PointFolder
    session: Session
    sweep: str
    began: float = field(default_factory=time.monotonic)
    started_at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    sent: int = 0
    failed: int = 0
    first_error: str = ""
    warnings: list[str] = field(default_factory=list)
    counters: dict[str, Json] = field(default_factory=dict)
    reset: bool = True
    chat: bool = True
    canary: dict[str, Json] = field(default_factory=dict)
    shift_ns: int = 0
    told: bool = False
    readings: Readings | None = None

    def hear(self, asked_ns: int, text: str) -> None:
        """A text of ``/metrics``, in the thread that asked for it."""
        if self.readings is not None:
            self.readings.hear(asked_ns, text)

    def keep(self, record: RequestRecord) -> None:
        """To disk at once, and not into memory: a load may have any number of requests."""
        self.folder.append(record)
        self.sent += 1
        self.told = self.told or record.spec is not None
        if record.error:
            self.failed += 1
            self.first_error = self.first_error or record.error

    @property
    def records(self) -> Written:
        return Written(self.folder)

    def result(self, status: Status, reason: str) -> PointResult:
        point = self.planned.point
        return PointResult(
            number=self.planned.number,
            key=self.planned.key,
            sweep=self.sweep,
            status=status,
            reason=reason,
            requests=self.sent,
            failed=self.failed,
            started_at=self.started_at,
            wall_s=round(time.monotonic() - self.began, 3),
            server_folder=self.session.folder.path.name,
            counters=self.counters,
            warnings=tuple(self.warnings),
            provenance=provenance(
                self.session,
                point,
                caches=state(point, self.reset),
                canary=self.canary,
                chat=self.chat,
                records=self.records,
            ),
        )


def progress(one: Measurement, record: RequestRecord, total: int) -> Event:
    return Event(
        kind="request_done",
        point=one.planned.number,
        text=one.planned.point.label,
        done=one.sent,
        total=total,
        tokens=record.completion_tokens or 0,
        request_s=record.request_time_s,
        accepted=record.spec.accepted if record.spec else 0,
        drafted=record.spec.drafted if record.spec else 0,
    )


def ended(result: PointResult) -> Event:
    return Event(
        kind="point_ended",
        point=result.number,
        seconds=result.wall_s,
        done=result.requests,
        text=result.reason or result.status,
    )


def unmeasured(planned: PlannedPoint, sweep: str, reason: str, server: str) -> PointResult:
    """The result of a point whose server never served it."""
    return PointResult(
        number=planned.number,
        key=planned.key,
        sweep=sweep,
        status="failed",
        reason=reason,
        requests=0,
        failed=0,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        wall_s=0.0,
        server_folder=server,
        counters={},
        warnings=(),
        provenance={},
    )
