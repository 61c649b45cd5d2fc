"""Which setting is fastest, when many were tried.

The more settings are compared, the luckier the luckiest. All intervals of one workload hold
together: every setting against the baseline, and the fastest against every other, are one family
of 2k - 1 ratios over the prompts that all arms answered, with one critical value of the largest
|T| (see :mod:`sweeper.judge.ratio`). Against the fastest, that is Hsu's multiple comparison with
the best.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np

from sweeper.judge.bootstrap import Array, Figure, draw_ahead
from sweeper.judge.compare import Comparison
from sweeper.judge.ratio import Ratio, critical, log_ratio, prompts_to_clear, with_products
from sweeper.judge.speedup import Paired
from sweeper.judge.underload import BY_OUTPUT_RATE, BY_TPOT, WORK

_Asked = tuple[Array, tuple[int, ...]]
"""A table and the powers of its columns whose product is a ratio."""
_POWERS = (1, -1, -1, 1)
_SPEEDUPS = (1, -1, -1, 1, -1, 1, 1, -1)
_AT_ONCE = 16
"""Settings whose columns are drawn in one product: as many as stay in memory for sure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """``best`` is the fastest, ``tied`` those whose distance to it may be none. ``speedups`` are
    simultaneous, by point number, and made of ``ratios``, which with those between settings are
    ``family`` many; ``prompts`` is the number of prompts all arms answered, of rollouts that of
    batches."""

    best: Comparison | None
    tied: tuple[Comparison, ...]
    speedups: Mapping[int, Figure]
    prompts: int
    ratios: Mapping[int, Ratio]
    family: int

    def prompts_needed(self, number: int, least: float) -> int | None:
        """How many would settle whether that point's speed-up is above ``least``."""
        return prompts_to_clear(self.ratios[number], least, self.family)


def rank(candidates: Sequence[Comparison], *, seed: int) -> Ranking:
    """Rank what can be compared with the baseline; the rest is left out."""
    arms = [(c, c.paired) for c in candidates if c.paired is not None]
    by_tpot = any(c.speedup_by == BY_TPOT for c, _ in arms)
    work = WORK[BY_TPOT if by_tpot else BY_OUTPUT_RATE]
    common = _common([p for _, p in arms], work)
    rows = [(c, p.of(common)) for c, p in arms]
    speedups = _ratios([(p.columns(*_both(work)), _POWERS) for _, p in rows], seed)
    ratios = {c.number: r for (c, _), r in zip(rows, speedups, strict=True) if isinstance(r, Ratio)}
    rows = [(c, p) for c, p in rows if c.number in ratios]
    if not rows:
        return Ranking(best=None, tied=(), speedups={}, prompts=len(common), ratios={}, family=0)
    best, best_rows = max(rows, key=lambda row: ratios[row[0].number].value)
    others = [(c, p) for c, p in rows if c is not best]
    between = [_between(best_rows, p, work, shared=c.baseline == best.baseline) for c, p in others]
    distances = list(zip((c for c, _ in others), _ratios(between, seed), strict=True))
    family = [*ratios.values(), *(r for _, r in distances if isinstance(r, Ratio))]
    reach = critical(family)
    return Ranking(
        best=best,
        tied=tuple(c for c, r in distances if _may_be_none(r, reach)),
        speedups={number: one.figure(reach) for number, one in ratios.items()},
        prompts=len(common),
        ratios=ratios,
        family=len(family),
    )


def _common(arms: Sequence[Paired], work: Sequence[str]) -> tuple[str, ...]:
    """The prompts that all arms answered and timed, in the first one's order."""
    timed = list(dict.fromkeys(tuple(_timed(arm, _both(work))) for arm in arms))
    known = [set(one) for one in timed]
    return tuple(p for p in arms[0].prompts if all(p in one for one in known)) if arms else ()


def _timed(arm: Paired, names: Sequence[str]) -> Iterator[str]:
    return compress(arm.prompts, np.atleast_1d(np.isfinite(arm.columns(*names)).all(axis=1)))


def _both(work: Sequence[str]) -> tuple[str, ...]:
    return (*work, *(f"base_{name}" for name in work))


def _ratios(asked: Sequence[_Asked], seed: int) -> Iterator[Ratio | Figure]:
    """One of each table and its powers, in their order."""
    for some in (asked[at : at + _AT_ONCE] for at in range(0, len(asked), _AT_ONCE)):
        draw_ahead((with_products(table) for table, _ in some), seed=seed)
        yield from (log_ratio(table, powers, seed=seed) for table, powers in some)


def _between(best: Paired, other: Paired, work: Sequence[str], *, shared: bool) -> _Asked:
    """The best's rate over another's, on the same prompts; with a baseline each, which may have
    run on another node, the one's speed-up over the other's."""
    names, powers = (work, _POWERS) if shared else (_both(work), _SPEEDUPS)
    return np.hstack([best.columns(*names), other.columns(*names)]), powers


def _may_be_none(distance: Ratio | Figure, reach: float) -> bool:
    low = distance.figure(reach).low if isinstance(distance, Ratio) else None
    return low is None or low <= 1
