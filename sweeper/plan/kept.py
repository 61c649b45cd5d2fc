"""Which points are measured again with others, because they are worth something together only."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sweeper.values import PlannedPoint


def together(points: Sequence[PlannedPoint], left: Collection[int]) -> frozenset[int]:
    """``left``, and what has to be measured with it again, as numbers.

    A group's own baseline says something of points measured right after it, so they are kept or
    measured together.
    """
    own = {p.number for p in points if p.point.before}
    broken = {p.number for p in points if p.number in left} | {
        p.baseline for p in points if p.number in left
    }
    broken &= own
    more = {p.number for p in points if p.number in broken or p.baseline in broken}
    return frozenset({*left, *more})
