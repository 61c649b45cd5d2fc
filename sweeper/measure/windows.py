"""Acceptance over time and by sequence length: a draft that dies half-way or past its context.

A mean over a whole point hides both. A window in which drafts were made and none was accepted is
``dead``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sweeper.values import RequestRecord

WINDOWS = 10
SHORTEST = 128
"""Upper end of the first length bucket in tokens; each further one is twice as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Sums between ``start`` (included) and ``end``: seconds of the point, or sequence tokens."""

    start: float
    end: float
    verify_steps: int = 0
    drafted: int = 0
    accepted: int = 0

    @property
    def dead(self) -> bool:
        return self.drafted > 0 and self.accepted == 0


class _Step(NamedTuple):
    """Drafts of one verify step, or of a whole request where steps are not reported."""

    second: float
    length: float
    steps: int
    drafted: int
    accepted: int


def over_time(records: Sequence[RequestRecord], windows: int = WINDOWS) -> tuple[Window, ...]:
    """``windows`` equal parts of the time from the first request sent to the last answer."""
    steps = [step for record in records for step in _steps(record)]
    if not steps:
        return ()
    start = min(r.sent_ns for r in records) / 1e9
    width = (max(r.done_ns for r in records) / 1e9 - start) / windows or 1.0
    found = [Window(start=start + i * width, end=start + (i + 1) * width) for i in range(windows)]
    for step in steps:
        at = min(windows - 1, max(0, int((step.second - start) / width)))
        found[at] = _plus(found[at], step)
    return tuple(found)


def by_length(records: Sequence[RequestRecord]) -> tuple[Window, ...]:
    """Buckets of prompt and answer so far, up to 128 tokens, 256, 512 and so on; no empty ones."""
    found: dict[int, Window] = {}
    for step in (step for record in records for step in _steps(record)):
        end = SHORTEST
        while step.length >= end:
            end *= 2
        empty = Window(start=0 if end == SHORTEST else end // 2, end=end)
        found[end] = _plus(found.get(end, empty), step)
    return tuple(found[end] for end in sorted(found))


def dead_windows(records: Sequence[RequestRecord]) -> list[str]:
    """A sentence for every dead stretch of time and every dead length bucket.

    A point of which nothing was accepted at all is dead everywhere, which other checks say.
    """
    if not any(r.spec and r.spec.accepted for r in records):
        return []
    times = [f"from {w.start:.1f} s to {w.end:.1f} s" for w in _joined(over_time(records))]
    lengths = [
        f"at {w.start:g} to {w.end:g} tokens of prompt and answer"
        for w in by_length(records)
        if w.dead
    ]
    return [f"no draft was accepted {where}" for where in (*times, *lengths)]


def _joined(windows: Sequence[Window]) -> Iterator[Window]:
    """Dead windows, neighbours as one."""
    last: Window | None = None
    for window in (w for w in windows if w.dead):
        if last and last.end == window.start:
            last = replace(last, end=window.end)
            continue
        if last:
            yield last
        last = window
    if last:
        yield last


def _steps(record: RequestRecord) -> Iterator[_Step]:
    """The steps of one request, placed evenly over its decoding.

    Steps without a draft are not in the server's arrays, so the place of the others is known only
    between the first token and the last.
    """
    spec = record.spec
    if record.error or spec is None or not spec.drafted:
        return
    prompt, answer = record.prompt_tokens or 0, record.completion_tokens or 0
    first = record.sent_ns if record.first_ns is None else record.first_ns
    if spec.per_step_drafted is None or spec.per_step_accepted is None:
        yield _Step(
            record.done_ns / 1e9, prompt + answer, spec.verify_steps, spec.drafted, spec.accepted
        )
        return
    count = len(spec.per_step_drafted)
    pairs = zip(spec.per_step_drafted, spec.per_step_accepted, strict=True)
    for number, (drafted, accepted) in enumerate(pairs):
        share = (number + 0.5) / count
        second = (first + share * (record.done_ns - first)) / 1e9
        yield _Step(second, prompt + share * answer, 1, drafted, accepted)


def _plus(window: Window, step: _Step) -> Window:
    return replace(
        window,
        verify_steps=window.verify_steps + step.steps,
        drafted=window.drafted + step.drafted,
        accepted=window.accepted + step.accepted,
    )
