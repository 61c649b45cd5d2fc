"""Figures with intervals: a bootstrap over prompts that keeps all repeats of a prompt together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit
from threadpoolctl import ThreadpoolController

Array = NDArray[np.float64]
Formula = Callable[[Mapping[str, Any]], Any]
"""From sums by name to a figure; works on numbers and, elementwise, on arrays."""

RESAMPLES = 2000
LEVEL = 0.95
_CELLS_KEPT, _CELLS_AT_ONCE = 2_000_000, 125_000
"""Of 8 bytes."""
_LIBRARIES = ThreadpoolController()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number with its 95 % interval.

    Without a ``value`` the ``reason`` says why; beside a value it qualifies it. ``low`` and
    ``high`` are both there or both ``None`` (one prompt has a value but no interval).
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str = ""

    def scaled(self, by: float) -> Figure:
        """Times a number that is taken as exact."""
        value, low, high = (
            None if end is None else end * by for end in (self.value, self.low, self.high)
        )
        return Figure(value=value, low=low, high=high, reason=self.reason)

    def __reduce__(self) -> tuple[Any, ...]:
        """Dataclasses with slots are pickled field by field, in Python, and figures are many."""
        return _figure, (self.value, self.low, self.high, self.reason)


def _figure(value: float | None, low: float | None, high: float | None, reason: str) -> Figure:
    return Figure(value=value, low=low, high=high, reason=reason)


def one_thread() -> AbstractContextManager[object]:
    """Products as small as ours wait longer for a second thread than it saves."""
    limit: AbstractContextManager[object] = _LIBRARIES.limit(limits=1, user_api="blas")
    return limit


def undefined(reason: str) -> Figure:
    """A figure that was not measured, and why."""
    return Figure(reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bootstrap:
    """Sums over all prompts (``total``) and over every resample of the prompts (``draws``)."""

    prompts: int
    total: Mapping[str, np.float64]
    draws: Mapping[str, Array]

    def figure(self, formula: Formula, reason: str = "") -> Figure:
        """``formula`` of the pooled sums, with the percentile interval of the resamples.

        Resamples in which the formula divides by zero are left out of the interval.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            value = float(formula(self.total))
            draws = np.asarray(formula(self.draws), dtype=np.float64)
        if not np.isfinite(value):
            return undefined(reason or "division by zero")
        if self.prompts < 2:
            return Figure(value=value, reason=reason or "one prompt has no interval")
        low, high = interval(draws[np.isfinite(draws)], self.prompts)
        return Figure(value=value, low=low, high=high, reason=reason)


def interval(draws: Array, prompts: int, level: float = LEVEL) -> tuple[float, float]:
    """The expanded percentile interval of ``draws``, the resampled figure.

    Plain percentiles are too narrow for few prompts, by the factor that Student's t and the n - 1
    in a variance make up for; so percentiles further out are taken (T. Hesterberg, What Teachers
    Should Know About the Bootstrap, 2015, section 5.3). From a hundred prompts on there is no
    difference to see.
    """
    outside = _outside(prompts, level)
    ordered = np.sort(draws)
    return quantile(ordered, outside), quantile(ordered, 1 - outside)


@lru_cache(maxsize=1024)
def _outside(prompts: int, level: float) -> float:
    """The share of the draws below the interval."""
    t = float(stdtrit(prompts - 1, 0.5 + level / 2))
    return float(ndtr(-sqrt(prompts / (prompts - 1)) * t))


def quantile(ordered: Array, share: float) -> float:
    """numpy's linear quantile of sorted values, without its checks, which cost more than it."""
    at = share * (len(ordered) - 1)
    below = int(at)
    above = min(below + 1, len(ordered) - 1)
    low, high = float(ordered[below]), float(ordered[above])
    return low + (high - low) * (at - below)


def resample(
    rows: Iterable[tuple[str, Mapping[str, float]]],
    *,
    names: tuple[str, ...],
    seed: int,
    resamples: int = RESAMPLES,
) -> Bootstrap:
    """Draw prompts with replacement; ``rows`` are (prompt id, quantities), one a request.

    The rows of one prompt id (its repeats and turns) are summed first, so they are drawn together.
    """
    prompts, values = [], []
    for prompt, quantities in rows:
        prompts.append(prompt)
        values.append([quantities[name] for name in names])
    table = np.array(values, dtype=np.float64).reshape(len(values), len(names))
    _, sums = sum_by_prompt(prompts, table)
    return resample_sums(sums, names=names, seed=seed, resamples=resamples)


def sum_by_prompt(prompts: Sequence[str], table: Array) -> tuple[tuple[str, ...], Array]:
    """Prompt ids in order of appearance, and the sums of their rows of ``table``."""
    each = dict.fromkeys(prompts)
    if len(each) == len(prompts):
        return tuple(each), table
    index = {prompt: number for number, prompt in enumerate(each)}
    codes = [index[prompt] for prompt in prompts]
    columns = (np.bincount(codes, weights=c, minlength=len(index)) for c in table.T)
    sums = np.array(list(columns)).reshape(table.shape[1], len(index)).T
    return tuple(index), sums


def resample_sums(
    sums: Array, *, names: Sequence[str], seed: int, resamples: int = RESAMPLES
) -> Bootstrap:
    """Draw the rows of ``sums``, one a prompt and one column a name, with replacement."""
    return Bootstrap(
        prompts=len(sums),
        total=dict(zip(names, sums.sum(axis=0), strict=True)),
        draws=dict(zip(names, _drawn(sums, seed, resamples), strict=True)),
    )


def drawn_sums(sums: Array, seed: int, resamples: int = RESAMPLES) -> Array:
    """Column sums of ``resamples`` resamples of the rows; shape (columns, resamples).

    Equal numbers of rows and seeds draw the same rows, so that figures of several points on the
    same prompts can be compared draw by draw.
    """
    return np.array(_drawn(sums, seed, resamples))


def _drawn(sums: Array, seed: int, resamples: int) -> list[Array]:
    """The rows of :func:`drawn_sums`."""
    if not len(sums):
        return [np.zeros(resamples)] * sums.shape[1]
    rows = np.ascontiguousarray(sums.T)
    keys = [(seed, resamples, row.tobytes()) for row in rows]
    missing = {key: at for at, key in enumerate(keys) if key not in _DRAWN}
    if len(_DRAWN) + len(missing) > _KEPT:
        _DRAWN.clear()
        missing = {key: at for at, key in enumerate(keys)}
    if missing:
        _DRAWN.update(
            zip(missing, _draw(rows[list(missing.values())], seed, resamples), strict=True)
        )
    return [_DRAWN[key] for key in keys]


def draw_ahead(tables: Iterable[Array], *, seed: int) -> None:
    """Draw the columns of several tables that are about to be drawn: those of equally many rows in
    one product, which goes over the resamples once."""
    alike: dict[int, list[Array]] = {}
    for table in tables:
        alike.setdefault(len(table), []).append(table)
    for some in alike.values():
        _drawn(np.hstack(some), seed, RESAMPLES)


_DRAWN: dict[tuple[int, int, bytes], Array] = {}
"""Columns that were drawn: the seconds of a baseline are in every ratio of every setting."""
_KEPT = 4096
"""Of 16 KB each."""


def forget() -> None:
    """Begin anew, so that what comes out does not depend, in its last digit, on what was drawn
    before: columns are drawn together, and products of other shapes round otherwise."""
    _DRAWN.clear()


def _draw(columns: Array, seed: int, resamples: int) -> Array:
    """Sums of ``columns``, one row each, over every resample."""
    prompts = columns.shape[1]
    if resamples * prompts <= _CELLS_KEPT:
        return columns @ _kept(seed, resamples, prompts)
    return np.hstack([columns @ block for block in _blocks(seed, resamples, prompts)])


@lru_cache(maxsize=8)
def _kept(seed: int, resamples: int, prompts: int) -> Array:
    """Points of one sweep mostly have equally many prompts: drawn once, up to 16 MB each."""
    return np.hstack(list(_blocks(seed, resamples, prompts)))


def _blocks(seed: int, resamples: int, prompts: int) -> Iterator[Array]:
    """How often each prompt was drawn, for so many resamples at once as stay in a cache."""
    generator, size = np.random.default_rng(seed), max(1, _CELLS_AT_ONCE // prompts)
    for start in range(0, resamples, size):
        yield _weights(generator, min(size, resamples - start), prompts)


def _weights(generator: np.random.Generator, resamples: int, prompts: int) -> Array:
    """How often each prompt was drawn, one column a resample."""
    picks = generator.integers(prompts, size=(resamples, prompts))
    picks += np.arange(resamples)[:, None] * prompts
    counts = np.bincount(picks.ravel(), minlength=resamples * prompts)
    return np.ascontiguousarray(counts.reshape(resamples, prompts).T, dtype=np.float64)
