"""The same figures by category of prompt and by length of answer."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from sweeper.judge.acceptance import Rates, quantities, rates
from sweeper.judge.bootstrap import Array, Figure, undefined
from sweeper.judge.speedup import RATE, TIME, TPOT, Paired
from sweeper.values import RequestRecord

LENGTHS = (64, 256, 1024)
"""Upper ends of the buckets of answer length, tokens; the last bucket has none."""
_NO_LENGTH = "not by length: the length of an answer is an outcome, not a condition"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One part of a point's requests: ``name`` is a category, or a range of completion tokens.

    Speed-ups are by category only.
    """

    of: Literal["category", "output length"]
    name: str
    requests: int
    rates: Rates
    speedup: Figure
    speedup_request_time: Figure
    speedup_tpot: Figure


def slices(
    records: Sequence[RequestRecord],
    both: Paired | None,
    reason: str,
    *,
    by_tpot: bool = False,
    seed: int,
) -> tuple[Slice, ...]:
    """By category where there are several, and by length where there are several buckets.

    ``reason`` says why there is no ``both``.
    """
    good = [r for r in records if not r.error]
    table = quantities(good)
    return (*_by_category(good, table, both, reason, by_tpot, seed), *_by_length(good, table, seed))


def _by_category(
    good: Sequence[RequestRecord],
    table: Array,
    both: Paired | None,
    reason: str,
    by_tpot: bool,
    seed: int,
) -> Iterator[Slice]:
    found: dict[str, list[int]] = {}
    for at, record in enumerate(good):
        found.setdefault(record.category or "", []).append(at)
    if len(found) < 2:
        return
    for name, places in found.items():
        part = [good[at] for at in places]
        mine = both and both.of(dict.fromkeys(r.prompt_id for r in part))
        none = undefined(reason)
        if mine:
            mine.draw_ahead(RATE, TIME, TPOT, seed=seed)
        yield Slice(
            of="category",
            name=name or "without category",
            requests=len(part),
            rates=rates(part, table[places], seed=seed),
            speedup=mine.speedup(by_tpot=by_tpot, seed=seed) if mine else none,
            speedup_request_time=mine.request_time(seed=seed) if mine else none,
            speedup_tpot=mine.tpot(seed=seed) if mine else none,
        )


def _by_length(good: Sequence[RequestRecord], table: Array, seed: int) -> Iterator[Slice]:
    found: dict[int, list[int]] = {}
    for place, record in enumerate(good):
        found.setdefault(bisect_left(LENGTHS, record.completion_tokens or 0), []).append(place)
    if len(found) < 2:
        return
    none = undefined(_NO_LENGTH)
    for at in sorted(found):
        yield Slice(
            of="output length",
            name=_range(at),
            requests=len(found[at]),
            rates=rates([good[n] for n in found[at]], table[found[at]], seed=seed),
            speedup=none,
            speedup_request_time=none,
            speedup_tpot=none,
        )


def _range(at: int) -> str:
    """``1–64``, ``65–256``, ``over 1024``."""
    first = 1 if at == 0 else LENGTHS[at - 1] + 1
    return f"{first}–{LENGTHS[at]}" if at < len(LENGTHS) else f"over {LENGTHS[-1]}"
