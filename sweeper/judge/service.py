"""Does the SLO hold, and up to which concurrency?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sweeper.judge.compare import Comparison
from sweeper.judge.conditions import AMOUNT, conditions_key
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


def over_loads(all_of_them: Sequence[Comparison]) -> Mapping[int, Sequence[Comparison]]:
    """By number of each point: itself, and those that differ in concurrency or rate only."""
    found: dict[tuple[object, ...], list[Comparison]] = {}
    for one in all_of_them:
        found.setdefault(_but_load(one), []).append(one)
    return {one.number: alike for alike in found.values() for one in alike}


def _but_load(one: Comparison) -> tuple[object, ...]:
    point = one.point
    same = (conditions_key(point, AMOUNT), point.warm, point.before)
    return (*same, point.method, point.gamma, point.server.key)
