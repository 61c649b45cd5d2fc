"""How likely is it that drafts were refused in a row by chance alone?

Steps of one request share its text, and texts differ in how well they can be drafted, most of all
for lookup methods. So refusals come in clumps, and a test that took steps for independent would
take every hard prompt for a broken draft. The model is beta-binomial: a request has its own share
of steps in which something was accepted, drawn from a beta distribution that is fitted to the
requests elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

FEWEST = 3
"""Requests that must lie on either side before anything is said."""
LEAST_CORRELATION = 0.1
"""Requests do differ, even where those that were seen happen not to."""
EXPECTED_CORRELATION, WEIGHT = 0.5, 4
"""What is assumed of how much requests differ before any was seen, counted as so many requests."""


class Tally(NamedTuple):
    """One request's verify steps, and those of them in which a draft token was accepted."""

    steps: int
    hits: int


def refusals_by_chance(refused: Sequence[Tally], elsewhere: Sequence[Tally]) -> float:
    """Probability that ``refused`` accept nothing, were they like the requests ``elsewhere``.

    1 where there are too few requests on either side to say, or nothing was accepted elsewhere.
    """
    refused, elsewhere = ([t for t in side if t.steps] for side in (refused, elsewhere))
    if len(refused) < FEWEST or len(elsewhere) < FEWEST:
        return 1.0
    steps = np.array([t.steps for t in elsewhere], np.float64)
    hits = np.array([t.hits for t in elsewhere], np.float64)
    if not hits.any():
        return 1.0
    share = (hits.sum() + 0.5) / (steps.sum() + 1.0)
    alike = 1 / _correlation(steps, hits) - 1  # a + b of the beta distribution
    none = sum(_log_none(t.steps, share * alike, (1 - share) * alike) for t in refused)
    return math.exp(none)


def _log_none(steps: int, a: float, b: float) -> float:
    """Logarithm of the probability of no hit in so many steps."""
    return math.lgamma(b + steps) - math.lgamma(b) + math.lgamma(a + b) - math.lgamma(a + b + steps)


def _correlation(steps: Array, hits: Array) -> float:
    """Of two steps of one request: the analysis-of-variance estimate (Donner, Int. Stat. Rev. 54,
    1986), drawn to what is expected where requests are few.
    """
    groups, total = len(steps), steps.sum()
    if total <= groups:
        return EXPECTED_CORRELATION
    shares, share = hits / steps, hits.sum() / total
    between = float((steps * (shares - share) ** 2).sum()) / (groups - 1)
    within = float((steps * shares * (1 - shares)).sum()) / (total - groups)
    size = (total - (steps**2).sum() / total) / (groups - 1)
    spread = between + (size - 1) * within
    found = (between - within) / spread if spread > 0 else 0.0
    found = min(0.9, max(LEAST_CORRELATION, found))
    return float((groups * found + WEIGHT * EXPECTED_CORRELATION) / (groups + WEIGHT))
