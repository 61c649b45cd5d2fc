"""How much a baseline's greedy answers differ from themselves: the noise of rounding alone.

One text is read three ways (``sweeper.measure.scoring``), which order their sums differently and
so round differently, as verifying drafted tokens does. Where two tokens are nearly equally likely,
that is enough to change the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sweeper.scores import LIKELY, WITHIN_NATS, Near, Scored, Scores

Array = NDArray[np.float64]

RELEVANT_NATS = 3.0
"""Runners-up further behind are left out: their probabilities are not what rounding decides on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """What rounding explains.

    ``changes``: by how much the gap between the two likeliest tokens changed from one reading
    to the other, in nats, sorted, one a token. ``flips``: gaps at which the baseline left its own
    answer, when asked again alone or among others. ``explains``: the largest of all these.
    ``turns``: by prompt, how many tokens rounding would have turned around by each token of the
    answer, the running sum of their chances.
    """

    changes: Array = field(default_factory=lambda: np.zeros(0))
    flips: tuple[float, ...] = ()
    explains: float = 0.0
    answers: Mapping[str, Scored] = field(default_factory=dict)
    turns: Mapping[str, Array] = field(default_factory=dict)
    problem: str = ""


def noise(scores: Scores | None) -> Noise:
    """Of a baseline; with a ``problem`` where nothing was scored."""
    if scores is None or not scores.answers:
        why = f" ({scores.problem})" if scores and scores.problem else ""
        return Noise(problem=f"the baseline's answers were not scored{why}")
    changes = np.sort(np.array([c for one in scores.answers for c in _changes(one)]))
    flips = tuple(gap for one in scores.answers for gap in _flips(one))
    return Noise(
        changes=changes,
        flips=flips,
        explains=float(max([*flips, *changes[-1:]], default=0.0)),
        answers={one.prompt_id: one for one in scores.answers},
        turns={a.prompt_id: np.cumsum(chance(changes, _leads(a))) for a in scores.answers},
    )


def chance(changes: Array, gaps: Array) -> Array:
    """That rounding turns gaps of these sizes around: each has to change by as much, downwards."""
    beyond = len(changes) - np.searchsorted(changes, np.maximum(gaps, 0.0), side="left")
    return beyond / max(1, len(changes)) / 2


def gap(near: Near, token: int, other: int) -> tuple[float, bool]:
    """Log-probability of ``token`` over that of ``other``, and whether it is only a lower bound.

    A token that is not in ``near`` is less likely than all that are, or far behind.
    """
    found = dict(near)
    lowest = near[-1][1] if len(near) >= LIKELY else near[0][1] - WITHIN_NATS
    size = found.get(token, lowest) - found.get(other, lowest)
    return size, token not in found or other not in found


def first_difference(one: tuple[int, ...], other: tuple[int, ...]) -> int | None:
    """The first position at which two answers differ, one that has ended included."""
    differing = (n for n, (x, y) in enumerate(zip(one, other, strict=False)) if x != y)
    shorter = min(len(one), len(other))
    return next(differing, None if len(one) == len(other) else shorter)


def _changes(one: Scored) -> Iterator[float]:
    """While both readings are of the same text."""
    same = first_difference(one.token_ids, one.again)
    for at in range(min(len(one.near), len(one.again_near)) if same is None else same):
        decoded, read = one.again_near[at], dict(one.near[at])
        if len(decoded) < 2 or decoded[0][1] - decoded[1][1] > RELEVANT_NATS:
            continue
        (first, p), (second, q) = decoded[:2]
        if first in read and second in read:
            yield abs((read[first] - read[second]) - (p - q))


def _leads(one: Scored) -> Array:
    """By how much each token of the answer leads the likeliest other one."""
    return np.array([_lead(near, t) for near, t in zip(one.near, one.token_ids, strict=False)])


def _lead(near: Near, token: int) -> float:
    others = [t for t, _ in near if t != token]
    return gap(near, token, others[0])[0] if others else np.inf


def _flips(one: Scored) -> Iterator[float]:
    for answer in (one.again, one.batched):
        at = None if answer is None else first_difference(one.token_ids, answer)
        if answer is None or at is None or at >= min(len(answer), len(one.near)):
            continue
        found, bound = gap(one.near[at], one.token_ids[at], answer[at])
        if not bound:
            yield abs(found)
