"""How much of the prompts the server had in its prefix cache already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sweeper.judge.bootstrap import Figure, undefined
from sweeper.values import PointResult

TELLING = 0.02
"""A difference of cached shares between two arms from which it is said."""


def cached_share(result: PointResult | None) -> Figure:
    """Cached prompt tokens over all prompt tokens, by the server's counters."""
    counters = result.counters if result and isinstance(result.counters, Mapping) else {}
    change = counters.get("change")
    if not isinstance(change, Mapping) or not change.get("prompt_tokens"):
        return undefined("no server counters")
    if change.get("cached_tokens") is None:
        return undefined("the server does not count cached prompt tokens")
    return Figure(value=change["cached_tokens"] / change["prompt_tokens"])


def cache_notes(result: PointResult | None, base: PointResult | None) -> Iterator[str]:
    """What a reader must know of it: any share of one arm, and arms that differ."""
    mine = cached_share(result).value
    theirs = cached_share(base).value
    if mine is None or (not mine and not theirs):
        return
    beside = ""
    if theirs is not None and abs(theirs - mine) >= TELLING:
        beside = f", and {100 * theirs:.0f} % for the baseline"
    if mine >= TELLING or beside:
        yield f"{100 * mine:.0f} % of the prompt tokens came from the prefix cache{beside}"
