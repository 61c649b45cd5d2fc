"""One point as its files tell it, whole or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sweeper.errors import StoreError
from sweeper.judge.noise import Noise, noise
from sweeper.profiles import StepSplit
from sweeper.scores import Quality, Samples
from sweeper.store import PointFolder, SweepFolder
from sweeper.values import PlannedPoint, PointResult, RequestRecord, RolloutBatch

NOT_YET = "not measured yet"
_FOREIGN = (TypeError, AttributeError, ValueError)
"""What good JSON of another shape raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A point, its result and its requests, each request once.

    ``status`` is that of the result, or ``lost`` and ``not measured yet`` without one. ``reason``
    is one line. The token ids of ``records`` are for :func:`~sweeper.records.ids_of`. ``quality``
    and ``samples`` are ``None`` where nothing was graded or sampled, ``floor`` what a baseline's
    answers say about rounding; ``split`` is ``None`` where no profile was taken.
    """

    planned: PlannedPoint
    result: PointResult | None
    status: str
    reason: str
    records: tuple[RequestRecord, ...]
    floor: Noise
    quality: Quality | None
    samples: Samples | None
    notes: tuple[str, ...] = ()
    batches: tuple[RolloutBatch, ...] = ()
    split: StepSplit | None = None

    @property
    def usable(self) -> bool:
        return self.status == "completed"

    @property
    def why(self) -> str:
        """``failed: the server exited with 1``."""
        return f"{self.status}: {self.reason}" if self.reason else self.status


def read_arm(folder: SweepFolder, planned: PlannedPoint) -> Arm:
    """Read one point; unreadable files make it ``lost``, they do not stop the others."""
    files = folder.point(planned)
    result, (records, problem) = _result(files), _records(files)
    if result is None:
        status, reason = _without_result(files.result.exists(), len(records), problem)
    elif problem:
        status, reason = "lost", problem
    else:
        status, reason = result.status, result.reason
    once = _last_of_each(records)
    notes = (*_repeated(records, once), *(result.warnings if result else ()))
    return Arm(
        planned=planned,
        result=result,
        status=status,
        reason=" ".join(reason.split()),
        records=once,
        quality=files.read_quality(),
        samples=files.read_samples(),
        floor=noise(files.read_scores() if planned.point.is_baseline else None),
        notes=notes,
        batches=_batches(files),
        split=files.read_profile(),
    )


def _batches(files: PointFolder) -> tuple[RolloutBatch, ...]:
    try:
        return files.batches()
    except _FOREIGN:
        return ()


def _result(files: PointFolder) -> PointResult | None:
    try:
        return files.read_result()
    except _FOREIGN:
        return None


def _records(files: PointFolder) -> tuple[tuple[RequestRecord, ...], str]:
    """The records, or none of them and what is wrong with the file."""
    try:
        return files.unread(), ""
    except StoreError as wrong:
        return (), str(wrong)
    except _FOREIGN as wrong:
        return (), f"{files.requests}: not request records: {wrong}"


def _without_result(half_written: bool, records: int, problem: str) -> tuple[str, str]:
    if problem:
        return "lost", problem
    if half_written:
        return "lost", f"result.json is not complete; {records} requests are recorded"
    if records:
        return "lost", f"no result.json after {records} requests: still running, or killed"
    return NOT_YET, "no request and no result.json"


def _last_of_each(records: Sequence[RequestRecord]) -> tuple[RequestRecord, ...]:
    """A measurement that was started again appends; its last answer to a request counts."""
    return tuple({(r.prompt_id, r.turn, r.repeat): r for r in records}.values())


def _repeated(all_of_them: Sequence[RequestRecord], once: Sequence[RequestRecord]) -> Iterator[str]:
    if len(once) < len(all_of_them):
        more = len(all_of_them) - len(once)
        yield f"{more} requests were recorded twice (measured again?); the last answers count"
