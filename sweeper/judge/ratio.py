"""Ratios of two arms with intervals that hold for few prompts and for many comparisons at once.

A ratio is a product of powers of sums over prompts, such as tokens¹ · seconds⁻¹. Its logarithm has
a standard error by linearisation, and so has that of every resample; their quotient T is what is
resampled (symmetric bootstrap-t: P. Hall, On Symmetric Bootstrap Confidence Intervals, 1988). The
largest |T| over a family of ratios gives intervals that hold for all of them together.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, e, exp, log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from sweeper.judge.bootstrap import LEVEL, RESAMPLES, Array, Figure, drawn_sums, undefined

FEWEST = 2
"""Prompts under which a ratio has no interval."""
FEWEST_DRAWN = 4
"""Prompts under which Student's t stands in for T: too many resamples hold one prompt only."""
DIFFERENT = 1 - 1 / e
"""The share of the prompts that a resample of many holds; the rest are repetitions."""
MOST_PROMPTS = 100_000
"""More than these are called none that are likely to settle anything."""
_ALIKE = 1e-9
"""A standard error below which all prompts have one and the same ratio."""
_WIDEST = 100.0
"""Half the width of a logarithm's interval at most: an interval is finite."""

Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """The ratio, the standard error of its logarithm, and |T| of every resample (``inf`` where a
    resample holds one prompt only and has no error of its own)."""

    value: float
    error: float
    prompts: int
    t: Array

    def figure(self, critical: float, reason: str = "") -> Figure:
        """The ratio with the interval of ``critical`` standard errors."""
        factor = exp(min(critical * self.error, _WIDEST))
        low, high = self.value / factor, self.value * factor
        return Figure(value=self.value, low=low, high=high, reason=reason)


def ratio(
    table: Array, powers: Sequence[float], *, seed: int, resamples: int = RESAMPLES
) -> Figure:
    """The product of the powers of the column sums of ``table``, one row a prompt."""
    found = log_ratio(table, powers, seed=seed, resamples=resamples)
    return found if isinstance(found, Figure) else found.figure(critical([found]))


def log_ratio(
    table: Array, powers: Sequence[float], *, seed: int, resamples: int = RESAMPLES
) -> Ratio | Figure:
    """What :func:`ratio` makes its interval of, or why there is none."""
    prompts, total = len(table), table.sum(axis=0)
    if prompts < FEWEST:
        return undefined(f"{prompts} prompts in common with the baseline, 2 are needed")
    if not (np.isfinite(total).all() and (total > 0).all()):
        return undefined("a sum of times or tokens is zero")
    exponents = np.asarray(powers, dtype=np.float64)
    value, shares = _power(total, exponents), (table / total) @ exponents
    unbiased = prompts / (prompts - 1)
    error = float(np.sqrt((shares**2).sum() * unbiased))
    if error < _ALIKE:
        return Ratio(value=value, error=0.0, prompts=prompts, t=np.zeros(resamples))
    first, second, factors = _products(table.shape[1])
    weights = exponents[first] * exponents[second] * factors
    drawn = drawn_sums(with_products(table), seed, resamples)
    sums, products = drawn[: table.shape[1]], drawn[table.shape[1] :]
    with np.errstate(divide="ignore", invalid="ignore"):
        variances = weights @ (products / (sums[first] * sums[second]))
        errors = np.sqrt(np.maximum(variances, 0) * unbiased)
        t = np.abs(exponents @ np.log(sums) - log(value)) / errors
    singular = ~(errors > _ALIKE)
    return Ratio(value=value, error=error, prompts=prompts, t=np.where(singular, np.inf, t))


def with_products(table: Array) -> Array:
    """The columns of ``table`` and the products of any two: what is drawn for its ratio."""
    first, second, _ = _products(table.shape[1])
    return np.hstack([table, table[:, first] * table[:, second]])


def critical(family: Sequence[Ratio], level: float = LEVEL) -> float:
    """How many standard errors hold for all of ``family`` at once in ``level`` of the resamples."""
    prompts = min(one.prompts for one in family)
    if prompts < FEWEST_DRAWN:
        return _students(prompts, level, len(family))
    largest = np.maximum.reduce([one.t for one in family])
    place = ceil(level * len(largest)) - 1
    return float(np.partition(largest, place)[place])


def prompts_to_clear(one: Ratio, limit: float, family: int, level: float = LEVEL) -> int | None:
    """From how many prompts on the interval of ``one``, which holds together with those of a
    ``family`` of so many, leaves ``limit`` out, if the ratio and its spread over prompts stay.

    By Student's t with Bonferroni's correction and as few degrees of freedom as a resample has
    different prompts, and an error that shrinks with the root of the number of prompts. The width
    of the present interval is no guide: that of few prompts shrinks much faster. ``None`` above
    :data:`MOST_PROMPTS`.
    """
    distance = abs(log(one.value / limit))

    def clear(prompts: int) -> bool:
        error = one.error * sqrt(one.prompts / prompts)
        return _students(DIFFERENT * prompts, level, family) * error < distance

    more = range(one.prompts + 1, MOST_PROMPTS + 1)
    at = bisect_left(more, True, key=clear)
    return more[at] if at < len(more) else None


def _students(prompts: float, level: float, family: int) -> float:
    """Two-sided, of one among ``family`` (Bonferroni)."""
    return float(stdtrit(prompts - 1, 1 - (1 - level) / (2 * family)))


def _power(total: Array, exponents: Array) -> float:
    up, down = exponents > 0, exponents < 0
    over = float(np.prod(total[up] ** exponents[up]))
    return over / float(np.prod(total[down] ** -exponents[down]))


@lru_cache(maxsize=8)
def _products(columns: int) -> tuple[Indices, Indices, Array]:
    """Indices of all pairs of columns, and how often each occurs in a square of their sum."""
    first, second = np.triu_indices(columns)
    return first, second, np.where(first == second, 1.0, 2.0)
