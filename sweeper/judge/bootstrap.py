"""Figures with intervals: a bootstrap over prompts that keeps all repeats of a prompt together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Formula = Callable[[Mapping[str, Any]], Any]
"""From sums by name to a figure; works on numbers and, elementwise, on arrays."""

RESAMPLES = 2000
PERCENTILES = (2.5, 97.5)
_CELLS_AT_ONCE = 2_000_000


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
        low, high = np.percentile(draws[np.isfinite(draws)], PERCENTILES)
        return Figure(value=value, low=float(low), high=float(high), reason=reason)


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
    by_prompt: dict[str, Array] = {}
    for prompt, values in rows:
        row = np.array([values[name] for name in names], dtype=np.float64)
        by_prompt[prompt] = by_prompt[prompt] + row if prompt in by_prompt else row
    sums = np.array(list(by_prompt.values())).reshape(len(by_prompt), len(names))
    draws = _resampled(sums, seed, resamples)
    return Bootstrap(
        prompts=len(by_prompt),
        total=dict(zip(names, sums.sum(axis=0), strict=True)),
        draws=dict(zip(names, draws.T, strict=True)),
    )


def _resampled(sums: Array, seed: int, resamples: int) -> Array:
    """Column sums of ``resamples`` resamples of the rows; shape (resamples, columns)."""
    if not len(sums):
        return np.zeros((resamples, sums.shape[1]))
    generator = np.random.default_rng(seed)
    blocks = _blocks(resamples, max(1, _CELLS_AT_ONCE // len(sums)))
    return np.concatenate([_weights(generator, size, len(sums)) @ sums for size in blocks])


def _blocks(total: int, size: int) -> Iterator[int]:
    for start in range(0, total, size):
        yield min(size, total - start)


def _weights(generator: np.random.Generator, resamples: int, prompts: int) -> Array:
    """How often each prompt was drawn in each resample."""
    picks = generator.integers(prompts, size=(resamples, prompts))
    picks += np.arange(resamples)[:, None] * prompts
    counts = np.bincount(picks.ravel(), minlength=resamples * prompts)
    return counts.reshape(resamples, prompts).astype(np.float64)
