"""The verify steps of a point summed over stretches of its time, and of sequence length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweeper.values import RequestRecord, SpecCounts

Array = NDArray[np.float64]

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


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """One entry a verify step, or a request where steps are not reported, ``each`` so many for the
    ``requests``: how far into its decoding, from 0 to 1, and what it counts for."""

    requests: Sequence[RequestRecord]
    each: NDArray[np.int64]
    share: Array
    steps: Array
    drafted: Array
    accepted: Array

    def between(self, start: Sequence[int], length: Sequence[int]) -> Array:
        """Where each step lies of what begins and lasts so long for each request."""
        begins, lasts = (
            np.repeat(np.array(one, dtype=np.float64), self.each) for one in (start, length)
        )
        return begins + self.share * lasts


def over_time(records: Sequence[RequestRecord], windows: int = WINDOWS) -> tuple[Window, ...]:
    """``windows`` equal parts of the time from the first request sent to the last answer."""
    found = _steps(records)
    if not len(found.steps):
        return ()
    start = min(r.sent_ns for r in records) / 1e9
    width = (max(r.done_ns for r in records) / 1e9 - start) / windows or 1.0
    firsts = [r.sent_ns if r.first_ns is None else r.first_ns for r in found.requests]
    lasts = [r.done_ns - first for r, first in zip(found.requests, firsts, strict=True)]
    second = found.between(firsts, lasts) / 1e9
    at = np.clip(((second - start) / width).astype(np.int64), 0, windows - 1)
    ends = [(start + i * width, start + (i + 1) * width) for i in range(windows)]
    return _summed(found, at, ends)


def by_length(records: Sequence[RequestRecord]) -> tuple[Window, ...]:
    """Buckets of prompt and answer so far, up to 128 tokens, 256, 512 and so on; no empty ones."""
    found = _steps(records)
    length = found.between(
        [r.prompt_tokens or 0 for r in found.requests],
        [r.completion_tokens or 0 for r in found.requests],
    )
    doubled = np.frexp(length / SHORTEST)[1]  # how often SHORTEST must be
    at = np.maximum(doubled, 0, dtype=np.intp)
    edges = [SHORTEST * 2**n for n in range(at.max(initial=0) + 1)]
    windows = _summed(found, at, list(zip((0, *edges), edges, strict=False)))
    return tuple(window for window in windows if window.verify_steps)


def _summed(
    found: _Steps, at: NDArray[np.integer[Any]], ends: Sequence[tuple[float, float]]
) -> tuple[Window, ...]:
    sums = [
        np.bincount(at, weights=one, minlength=len(ends))
        for one in (found.steps, found.drafted, found.accepted)
    ]
    return tuple(
        Window(start=start, end=end, verify_steps=int(s), drafted=int(d), accepted=int(a))
        for (start, end), s, d, a in zip(ends, *sums, strict=True)
    )


def _steps(records: Sequence[RequestRecord]) -> _Steps:
    """Those of every request, placed evenly over its decoding.

    Steps without a draft are not in the server's arrays, so the place of the others is known only
    between the first token and the last; of a request without such arrays, its end.
    """
    drafting = [(r, r.spec) for r in records if not r.error and r.spec and r.spec.drafted]
    columns = tuple(zip(*(_counts(spec) for _, spec in drafting), strict=True)) or ((), (), ())
    each = np.array([len(one) for one in columns[1]], dtype=np.int64)
    firsts = np.cumsum(each) - each
    share = (np.arange(each.sum()) - np.repeat(firsts, each) + 0.5) / np.repeat(each, each)
    whole = np.array([spec.per_step_drafted is None for _, spec in drafting], dtype=bool)
    share[firsts[whole]] = 1.0
    return _Steps(
        requests=[record for record, _ in drafting],
        each=each,
        share=share,
        steps=np.repeat(np.array(columns[0], dtype=np.float64), each),
        drafted=flat(columns[1]).astype(np.float64),
        accepted=flat(columns[2]).astype(np.float64),
    )


def _counts(spec: SpecCounts) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Steps an entry, and drafted and accepted tokens of each entry, of a request."""
    if spec.per_step_drafted is None or spec.per_step_accepted is None:
        return spec.verify_steps, (spec.drafted,), (spec.accepted,)
    return 1, spec.per_step_drafted, spec.per_step_accepted


def flat(parts: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """All counts of all parts in a row; through bytes, which is thrice as fast, where they fit."""
    try:
        return np.frombuffer(b"".join(map(bytes, parts)), dtype=np.uint8).astype(np.int64)
    except ValueError:  # over 255
        return np.fromiter(chain.from_iterable(parts), dtype=np.int64)
