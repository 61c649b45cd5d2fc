"""Does a speculating server sample from the distribution of its target? A permutation test.

Both servers continued the same texts, many times each. If both sample from one distribution, it
does not matter which server a continuation came from: shuffling the origins of all continuations
of a text changes nothing. The statistic is the sum, over texts, positions and tokens, of
``(a - b)² / (a + b)``, where ``a`` and ``b`` count the token at the position in either arm.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sweeper.judge.bootstrap import Figure, undefined
from sweeper.scores import Samples

Array = NDArray[np.float64]

PERMUTATIONS = 1999
ENDED = -1
"""Stands for the tokens of a continuation that has ended."""


ALPHA = 0.001
"""The test's size: how often it calls a server wrong that samples right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """The test's answer; ``sentence`` says it in words."""

    state: Literal["right", "wrong", "not measured"]
    sentence: str
    p_value: Figure


def sampled(baseline: Samples | None, point: Samples | None, *, seed: int) -> Sampled:
    """The test of one point, or why it was not made."""
    reason = _missing(baseline, "the baseline's") or _missing(point, "its")
    if reason or baseline is None or point is None:
        return _not_made(reason)
    if point.drafted == 0:
        return _not_made("nothing was drafted while continuations were sampled")
    if baseline.texts != point.texts:
        return _not_made("the baseline continued other texts")
    p = p_value(baseline, point, seed=seed)
    shape = f"{len(point.texts)} texts × {len(point.draws[0])} continuations"
    if p <= ALPHA:
        return Sampled(
            state="wrong",
            sentence=f"samples from another distribution than the baseline (p={p:.1g}, {shape})",
            p_value=Figure(value=p),
        )
    return Sampled(
        state="right",
        sentence=f"no difference between its distribution and the baseline's (p={p:.2g}, {shape})",
        p_value=Figure(value=p),
    )


def _missing(samples: Samples | None, whose: str) -> str:
    if samples is None:
        return f"{whose} continuations were not sampled"
    return f"{whose} continuations: {samples.problem}" if samples.problem else ""


def _not_made(reason: str) -> Sampled:
    none = undefined(reason)
    return Sampled(state="not measured", sentence=f"not measured: {reason}", p_value=none)


def p_value(one: Samples, other: Samples, *, seed: int) -> float:
    """The chance of a difference this large between two servers that sample alike.

    It is at most ``alpha`` with a probability of at most ``alpha`` for them, whatever the
    distribution is and however many continuations there are: the size of the test is exact.
    """
    generator = np.random.default_rng(seed)
    totals = np.zeros(1 + PERMUTATIONS)
    for a, b in zip(one.draws, other.draws, strict=True):
        totals += _statistics(a, b, generator)
    # Equal sums may come out a little different, so what is nearly as large counts as large.
    as_large = int((totals[1:] >= totals[0] * (1 - 1e-9)).sum())
    return (1 + as_large) / (1 + PERMUTATIONS)


def _statistics(
    one: Sequence[tuple[int, ...]],
    other: Sequence[tuple[int, ...]],
    generator: np.random.Generator,
) -> Array:
    """Of the continuations of one text: as they are, then with their origins shuffled."""
    seen = _seen([*one, *other])
    origins = np.zeros((1 + PERMUTATIONS, len(seen)))
    origins[:, : len(one)] = 1.0
    origins[1:] = generator.permuted(origins[1:], axis=1)
    totals = seen.sum(axis=0)
    shared = totals > 1  # a token seen once adds the same to every sum
    seen, totals = seen[:, shared], totals[shared]
    ours = origins @ seen
    # Arms may differ in size: compared with the share of the whole that is theirs.
    expected = totals * (len(one) / (len(one) + len(other)))
    found: Array = (np.square(ours - expected) / totals).sum(axis=1)
    return found


def _seen(continuations: Sequence[tuple[int, ...]]) -> Array:
    """One row a continuation, one column a token at a position: 1 where it is."""
    columns: dict[tuple[int, int], int] = {}
    cells = list(_cells(continuations, columns))
    seen = np.zeros((len(continuations), len(columns)))
    rows, places = zip(*cells, strict=True) if cells else ((), ())
    seen[list(rows), list(places)] = 1.0
    return seen


def _cells(
    continuations: Sequence[tuple[int, ...]], columns: dict[tuple[int, int], int]
) -> Iterator[tuple[int, int]]:
    for position, tokens in enumerate(zip_longest(*continuations, fillvalue=ENDED)):
        for row, token in enumerate(tokens):
            yield row, columns.setdefault((position, token), len(columns))
