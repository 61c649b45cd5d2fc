"""Acceptance by draft position: how far the accepted prefix of a draft reaches.

K is the number of accepted tokens of one verify step. Position i (counted from 1) is *drafted* in
a step whose draft has at least i tokens, *reached* when also K >= i - 1, *accepted* when K >= i.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sweeper.judge.bootstrap import (
    Array,
    Bootstrap,
    Figure,
    resample_sums,
    sum_by_prompt,
    undefined,
)
from sweeper.measure.stretches import flat
from sweeper.values import RequestRecord, SpecCounts

UNKNOWN_LENGTHS = "draft lengths vary and were not recorded step by step"


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """One figure a position: accepted / all verify steps, / drafted, / reached; and tokens per
    decode step with drafts cut to so many tokens, a prediction. ``exactly[k]`` is Pr(K = k), k from
    0 to the longest draft."""

    survival: tuple[Figure, ...]
    position_acceptance: tuple[Figure, ...]
    conditional_acceptance: tuple[Figure, ...]
    tokens_at: tuple[Figure, ...]
    exactly: tuple[Figure, ...]


def no_positions(reason: str, length: int) -> Positions:
    """Nothing is known of any position."""
    none = (undefined(reason),) * length
    return Positions(
        survival=none,
        position_acceptance=none,
        conditional_acceptance=none,
        tokens_at=none,
        exactly=(*none, *none[:1]),
    )


def longest_draft(counted: Sequence[SpecCounts], gamma: int) -> int:
    """The number of positions to show: γ, or more when the server counted more."""
    return max([gamma, *(len(c.histogram) - 1 for c in counted if c.histogram)])


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """Steps by prompt: with a draft, decode steps, and by position those that accepted, drafted and
    reached it. ``known`` says whether the last two are, ``every_step`` whether decode steps are."""

    names: tuple[str, ...]
    sums: Array
    known: bool
    every_step: bool


def tally(records: Sequence[RequestRecord], length: int) -> Tally | None:
    """Of all requests with counts; ``None`` without an acceptance histogram of one of them."""
    counted = [(r, r.spec) for r in records if r.spec is not None]
    specs = [spec for _, spec in counted]
    histograms = _histograms(specs, length)
    if histograms is None:
        return None
    accepted = histograms[:, ::-1].cumsum(axis=1)[:, ::-1]  # [:, i] = steps with K >= i
    by_step = _drafted_and_reached(specs, accepted, length)
    drafted, reached = by_step or (np.zeros_like(accepted[:, 1:]),) * 2
    all_steps = [spec.verify_steps for spec in specs]
    decode = [r.decode_steps for r, _ in counted]
    told = [steps or 0 for steps in decode]
    table = np.column_stack([all_steps, told, accepted[:, 1:], drafted, reached])
    _, sums = sum_by_prompt([r.prompt_id for r, _ in counted], table.astype(np.float64))
    return Tally(
        names=("S", "steps", *(f"{kind}{i}" for kind in "adr" for i in range(1, length + 1))),
        sums=sums,
        known=by_step is not None,
        every_step=None not in decode,
    )


def positions_of(found: Tally | None, *, length: int, seed: int) -> Positions:
    """Pool the requests; a position that was never drafted is undefined.

    Drafts cut to g tokens would have had min(K, g) accepted, whose mean is the sum of the first g
    survivals; with that, 1 + sum of ``a_i`` / decode steps is the prediction for γ = g. It takes
    the share of steps with a draft, and the text at which each step starts, as they were.
    """
    if found is None:
        return no_positions("no acceptance histogram", length)
    boot, each = resample_sums(found.sums, names=found.names, seed=seed), range(1, length + 1)
    return Positions(
        survival=tuple(_share(boot, i, "S", found.known) for i in each),
        position_acceptance=tuple(_share(boot, i, f"d{i}", found.known) for i in each),
        conditional_acceptance=tuple(_share(boot, i, f"r{i}", found.known) for i in each),
        tokens_at=tuple(_tokens_at(boot, i, found.every_step) for i in each),
        exactly=tuple(_exactly(boot, k, length) for k in range(length + 1)),
    )


def _histograms(specs: Sequence[SpecCounts], length: int) -> Array | None:
    """Steps by number of accepted tokens, one row a request; ``None`` if one gave none."""
    rows = []
    for spec in specs:
        row = spec.histogram
        if row is None and spec.per_step_accepted is not None:
            row = tuple(np.bincount(spec.per_step_accepted, minlength=length + 1))
        if row is None and spec.verify_steps:
            return None
        row = row or ()
        rows.append(row if len(row) > length else (*row, *(0,) * (length + 1 - len(row))))
    return flat(rows).astype(np.float64).reshape(len(rows), length + 1)


def _drafted_and_reached(
    specs: Sequence[SpecCounts], accepted: Array, length: int
) -> tuple[Array, Array] | None:
    """Steps that drafted and that reached each position, one row a request; ``None`` if draft
    lengths vary and one request did not record them."""
    steps = accepted[:, 0]
    drafted, reached = np.repeat(steps[:, None], length, axis=1), accepted[:, :-1].copy()
    short = [n for n, spec in enumerate(specs) if spec.drafted != length * spec.verify_steps]
    if any(specs[n].per_step_drafted is None or specs[n].per_step_accepted is None for n in short):
        return None
    lengths = [specs[n].per_step_drafted or () for n in short]
    rows = np.repeat(np.arange(len(short)), [len(one) for one in lengths])
    d, k = flat(lengths), flat([specs[n].per_step_accepted or () for n in short])
    for i in range(1, length + 1):
        long_enough = d >= i
        drafted[short, i - 1] = np.bincount(rows[long_enough], minlength=len(short))
        reached[short, i - 1] = np.bincount(rows[long_enough & (k >= i - 1)], minlength=len(short))
    return drafted, reached


def _share(boot: Bootstrap, i: int, among: str, known: bool) -> Figure:
    if known and not boot.total[f"d{i}"]:
        return undefined(f"position {i} was never drafted")
    if not known and among != "S":
        return undefined(UNKNOWN_LENGTHS)
    if not boot.total[among]:
        return undefined(f"position {i} was never reached")
    return boot.figure(lambda s: s[f"a{i}"] / s[among])


def _exactly(boot: Bootstrap, k: int, length: int) -> Figure:
    """Steps with K >= k less those with K > k, over all steps that had a draft."""
    if not boot.total["S"]:
        return undefined("no step had a draft")
    least = f"a{k}" if k else "S"
    if k == length:
        return boot.figure(lambda s: s[least] / s["S"])
    return boot.figure(lambda s: (s[least] - s[f"a{k + 1}"]) / s["S"])


def _tokens_at(boot: Bootstrap, gamma: int, every_step: bool) -> Figure:
    if not every_step or not boot.total["steps"]:
        return undefined("no decode steps counted per request")
    names = [f"a{i}" for i in range(1, gamma + 1)]
    return boot.figure(lambda s: 1 + sum(s[name] for name in names) / s["steps"])
