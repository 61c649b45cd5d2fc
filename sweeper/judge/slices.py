"""The same figures by category of prompt and by length of answer."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from sweeper.judge.acceptance import Rates, rates
from sweeper.judge.bootstrap import Array, Figure, draw_ahead, undefined
from sweeper.judge.drafts import Counted, by_prompt
from sweeper.judge.speedup import RATE, TIME, TPOT, Paired
from sweeper.values import RequestRecord

Key = TypeVar("Key", bound=Hashable)

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
    counted: Counted,
    both: Paired | None,
    reason: str,
    *,
    by_tpot: bool = False,
    seed: int,
) -> tuple[Slice, ...]:
    """By category where there are several, and by length where there are several buckets.

    ``reason`` says why there is no ``both``.
    """
    good, table = counted.good, counted.table
    return (*_by_category(good, table, both, reason, by_tpot, seed), *_by_length(good, table, seed))


def _by_category(
    good: Sequence[RequestRecord],
    table: Array,
    both: Paired | None,
    reason: str,
    by_tpot: bool,
    seed: int,
) -> Iterator[Slice]:
    parts = _parts(good, table, (r.category or "" for r in good))
    if len(parts) < 2:
        return
    pairs = [both and both.of(prompts) for _, prompts, _ in parts.values()]
    ahead = [t for mine in pairs if mine for t in mine.tables(RATE, TIME, TPOT)]
    draw_ahead([*(sums for *_, sums in parts.values()), *ahead], seed=seed)
    none = undefined(reason)
    for (name, (part, _, sums)), mine in zip(parts.items(), pairs, strict=True):
        yield Slice(
            of="category",
            name=name or "without category",
            requests=len(part),
            rates=rates(part, sums, seed=seed),
            speedup=mine.speedup(by_tpot=by_tpot, seed=seed) if mine else none,
            speedup_request_time=mine.request_time(seed=seed) if mine else none,
            speedup_tpot=mine.tpot(seed=seed) if mine else none,
        )


def _by_length(good: Sequence[RequestRecord], table: Array, seed: int) -> Iterator[Slice]:
    parts = _parts(good, table, (bisect_left(LENGTHS, r.completion_tokens or 0) for r in good))
    if len(parts) < 2:
        return
    none = undefined(_NO_LENGTH)
    for at, (part, _, sums) in sorted(parts.items()):
        yield Slice(
            of="output length",
            name=_range(at),
            requests=len(part),
            rates=rates(part, sums, seed=seed),
            speedup=none,
            speedup_request_time=none,
            speedup_tpot=none,
        )


def _parts(
    good: Sequence[RequestRecord], table: Array, keys: Iterable[Key]
) -> dict[Key, tuple[Sequence[RequestRecord], tuple[str, ...], Array]]:
    """The requests of each key with their prompts, and their rows of ``table`` summed by those."""
    places = defaultdict[Key, list[int]](list)
    for place, key in enumerate(keys):
        places[key].append(place)
    parts = {key: [good[place] for place in some] for key, some in places.items()}
    return {key: (part, *by_prompt(part, table[places[key]])) for key, part in parts.items()}


def _range(at: int) -> str:
    """``1–64``, ``65–256``, ``over 1024``."""
    first = 1 if at == 0 else LENGTHS[at - 1] + 1
    return f"{first}–{LENGTHS[at]}" if at < len(LENGTHS) else f"over {LENGTHS[-1]}"
