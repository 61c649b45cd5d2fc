"""Acceptance over time from the server's counters, where requests do not tell what was drafted.

Several answers to a request, rollout batches and older versions of vLLM report no counts with an
answer. Where such requests overlap, the server's counters are all there is. They are taken from the
texts that :mod:`sweeper.measure.series` asks for anyway, in every arm alike.
"""

from __future__ import annotations

import time
from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

from sweeper.measure.counters import Counters, drafts
from sweeper.measure.stretches import WINDOWS, Window, over_time
from sweeper.measure.windows import Part, Step, improbable, plus
from sweeper.values import Json, RequestRecord

KEPT = "over_time"
"""The windows in ``counters`` of a result."""


class Reading(NamedTuple):
    """The counters at a ``second`` of the measured part."""

    second: float
    counters: Counters


@dataclass(slots=True)
class Readings:
    """What the series' thread hears from ``origin_ns`` on, after the counters ``before``."""

    origin_ns: int
    before: Counters
    heard: list[Reading] = field(default_factory=list)

    def hear(self, asked_ns: int, text: str) -> None:
        """An answer to a question from before the first request may be older than ``before``."""
        if asked_ns >= self.origin_ns and (now := drafts(text)).drafted is not None:
            self.heard.append(Reading(self._second(), now))

    def until(self, after: Counters) -> list[Reading]:
        """All of them up to ``after``, which was read just now."""
        return [Reading(0.0, self.before), *self.heard, Reading(self._second(), after)]

    def _second(self) -> float:
        return (time.perf_counter_ns() - self.origin_ns) / 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class OverTime:
    """Windows of a point's time; ``counted`` says that they are from the server's counters."""

    windows: tuple[Window, ...]
    counted: bool = False


def acceptance_over_time(records: Sequence[RequestRecord], counters: Json) -> OverTime:
    """From the requests where they tell it, else what ``counters`` of the result have kept."""
    if told := over_time(records):
        return OverTime(windows=told)
    found = counters.get(KEPT) if isinstance(counters, Mapping) else None
    return OverTime(windows=tuple(Window(**one) for one in found or ()), counted=bool(found))


class _Piece(NamedTuple):
    """Between two readings; ``hits`` are the steps in which something was accepted."""

    window: Window
    hits: int


def kept(seen: Sequence[Reading]) -> dict[str, Json]:
    """At most ten windows for the result; without readings nothing."""
    found = [asdict(window) for window, _ in _parts(_pieces(seen), ())]
    return {KEPT: found} if found else {}


def raw(seen: Sequence[Reading]) -> list[Json]:
    """The readings as they were, for ``counters.json``."""
    names = ("verify_steps", "drafted", "accepted")
    return [{"second": round(s, 3)} | {n: getattr(c, n) for n in names} for s, c in seen]


def was_reset(seen: Sequence[Reading]) -> bool:
    return any(now.counters.since(then.counters) is None for then, now in pairwise(seen))


def dead_counted(seen: Sequence[Reading], records: Iterable[RequestRecord]) -> list[str]:
    """A sentence for every dead stretch that is no accident, as of
    :func:`~sweeper.measure.windows.dead_windows`.

    Requests that are under way together cannot be told apart here. What was counted between the
    ends of two of them stands for one request: another text has been drafted for since.
    """
    found = improbable(
        _parts(_pieces(seen), sorted(r.done_ns / 1e9 for r in records if not r.error))
    )
    return [
        f"no draft was accepted from {w.start:.1f} s to {w.end:.1f} s (from the server's counters)"
        for w in found
    ]


def _pieces(seen: Sequence[Reading]) -> list[_Piece]:
    """What was counted between neighbours; across a reset nobody knows."""
    found = []
    for (start, then), (end, now) in pairwise(seen):
        change = now.since(then)
        if change is not None:
            window = Window(
                start=round(start, 3),
                end=round(end, 3),
                verify_steps=int(change.verify_steps or 0),
                drafted=int(change.drafted or 0),
                accepted=int(change.accepted or 0),
            )
            found.append(_Piece(window, _hits(window, change)))
    return found


def _hits(window: Window, change: Counters) -> int:
    """Every draft that was accepted at all was so at its first position; where positions are not
    counted, as few as there can be on average."""
    if change.accepted_at or not window.drafted:
        return int(next(iter(change.accepted_at), 0))
    return round(window.verify_steps * window.accepted / window.drafted)


def _parts(pieces: Sequence[_Piece], ends: Sequence[float]) -> list[Part]:
    """Ten equal windows of whole pieces, fewer where pieces are longer; in each a tally for all
    between two of ``ends``, seconds in order."""
    if not any(window.drafted for window, _ in pieces):
        return []
    start, end = pieces[0].window.start, pieces[-1].window.end
    width = (end - start) / WINDOWS or 1.0
    found: dict[int, Part] = {}
    for window, hits in pieces:
        middle = (window.start + window.end) / 2
        at = min(WINDOWS - 1, int((middle - start) / width))
        begun, tallies = found.get(at, (Window(start=window.start, end=window.end), {}))
        step = Step(
            request=bisect(ends, middle),
            second=middle,
            length=0,
            steps=window.verify_steps,
            drafted=window.drafted,
            accepted=window.accepted,
            hits=hits,
        )
        found[at] = plus(replace(begun, end=window.end), tallies, step)
    return list(found.values())
