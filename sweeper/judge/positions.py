"""Acceptance by draft position: how far the accepted prefix of a draft reaches.

K is the number of accepted tokens of one verify step. Position i (counted from 1) is *drafted* in
a step whose draft has at least i tokens, *reached* when also K >= i - 1, *accepted* when K >= i.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sweeper.judge.bootstrap import Array, Bootstrap, Figure, resample, undefined
from sweeper.values import SpecCounts

UNKNOWN_LENGTHS = "draft lengths vary and were not recorded step by step"


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """One figure a position: accepted / all verify steps, / drafted, / reached."""

    survival: tuple[Figure, ...]
    position_acceptance: tuple[Figure, ...]
    conditional_acceptance: tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
class _Counts:
    """Of one request, by position; ``drafted`` and ``reached`` are ``None`` where unknown."""

    accepted: Array
    drafted: Array | None
    reached: Array | None


def longest_draft(counted: Sequence[SpecCounts], gamma: int) -> int:
    """The number of positions to show: γ, or more when the server counted more."""
    return max([gamma, *(len(c.histogram) - 1 for c in counted if c.histogram)])


def positions_of(counted: Sequence[tuple[str, SpecCounts]], *, length: int, seed: int) -> Positions:
    """Pool (prompt id, counts) pairs; a position that was never drafted is undefined."""
    histograms = [(prompt, spec, _histogram(spec, length)) for prompt, spec in counted]
    if any(h is None for _, _, h in histograms):
        none = (undefined("no acceptance histogram"),) * length
        return Positions(survival=none, position_acceptance=none, conditional_acceptance=none)
    counts = [(p, s, _count(s, h, length)) for p, s, h in histograms if h is not None]
    known = all(c.drafted is not None for _, _, c in counts)
    names = ("S", *(f"{kind}{i}" for kind in "adr" for i in range(1, length + 1)))
    rows = ((p, dict(zip(names, _row(s, c), strict=True))) for p, s, c in counts)
    boot = resample(rows, names=names, seed=seed)
    each = range(1, length + 1)
    return Positions(
        survival=tuple(_share(boot, i, "S", known) for i in each),
        position_acceptance=tuple(_share(boot, i, f"d{i}", known) for i in each),
        conditional_acceptance=tuple(_share(boot, i, f"r{i}", known) for i in each),
    )


def _histogram(spec: SpecCounts, length: int) -> Array | None:
    """Steps by number of accepted tokens, ``length + 1`` long; ``None`` if it was not given."""
    if spec.histogram is not None:
        found = np.asarray(spec.histogram, dtype=np.float64)
        return np.pad(found, (0, length + 1 - len(found)))
    if spec.per_step_accepted is not None:
        return np.bincount(spec.per_step_accepted, minlength=length + 1).astype(np.float64)
    return np.zeros(length + 1) if spec.verify_steps == 0 else None


def _count(spec: SpecCounts, histogram: Array, length: int) -> _Counts:
    at_least = histogram[::-1].cumsum()[::-1]  # at_least[i] = steps with K >= i
    accepted, before = at_least[1:], at_least[:-1]
    if spec.per_step_drafted is not None and spec.per_step_accepted is not None:
        each = np.arange(1, length + 1)
        drafted = np.asarray(spec.per_step_drafted)[:, None] >= each
        reached = drafted & (np.asarray(spec.per_step_accepted)[:, None] >= each - 1)
        return _Counts(accepted, drafted.sum(axis=0) * 1.0, reached.sum(axis=0) * 1.0)
    if spec.drafted == length * spec.verify_steps:  # every draft was full
        return _Counts(accepted, np.full(length, float(spec.verify_steps)), before)
    return _Counts(accepted, None, None)


def _row(spec: SpecCounts, counts: _Counts) -> Array:
    unknown = np.zeros_like(counts.accepted)
    drafted = unknown if counts.drafted is None else counts.drafted
    reached = unknown if counts.reached is None else counts.reached
    return np.concatenate([[float(spec.verify_steps)], counts.accepted, drafted, reached])


def _share(boot: Bootstrap, i: int, among: str, known: bool) -> Figure:
    if known and not boot.total[f"d{i}"]:
        return undefined(f"position {i} was never drafted")
    if not known and among != "S":
        return undefined(UNKNOWN_LENGTHS)
    if not boot.total[among]:
        return undefined(f"position {i} was never reached")
    return boot.figure(lambda s: s[f"a{i}"] / s[among])
