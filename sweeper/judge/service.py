"""Does the SLO hold, and up to which concurrency?"""

from __future__ import annotations

from collections.abc import Sequence

from sweeper.judge.compare import Comparison
from sweeper.values import Thresholds


def holds(one: Comparison, thresholds: Thresholds) -> bool | None:
    """Whether enough requests of a point kept the SLO; ``None`` where that was not measured."""
    share = one.slo_share.value
    return None if share is None else share >= thresholds.slo_share


def highest_concurrency(of_one_setting: Sequence[Comparison], thresholds: Thresholds) -> int | None:
    """The highest measured concurrency up to which the SLO held at every measured one; 0 when it
    did not at the lowest, ``None`` when none was measured."""
    closed = sorted(
        (c for c in of_one_setting if c.point.load.name == "closed"),
        key=lambda c: c.point.load.concurrency,
    )
    measured = [c for c in closed if holds(c, thresholds) is not None]
    if not measured:
        return None
    found = 0
    for one in measured:
        if not holds(one, thresholds):
            break
        found = one.point.load.concurrency
    return found


def same_but_load(all_of_them: Sequence[Comparison], one: Comparison) -> list[Comparison]:
    """The points that differ from ``one`` in the load only, itself included."""
    mine, server = _but_load(one), one.point.server.key
    alike = (c for c in all_of_them if _but_load(c) == mine)
    return [c for c in alike if c is one or c.point.server.key == server]


def _but_load(one: Comparison) -> tuple[object, ...]:
    """What is quick to compare; the server's key is a hash over all of it."""
    point = one.point
    same = (point.dataset.digest, point.sampling.name, point.warm, point.before)
    return (*same, point.method, point.gamma)
