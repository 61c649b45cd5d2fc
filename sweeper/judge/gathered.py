"""What the requests of one point add up to by prompt: gathered first, so that everything that is
resampled can be drawn in one product over the resamples."""

from __future__ import annotations

from dataclasses import dataclass

from sweeper.judge.arms import Arm
from sweeper.judge.bootstrap import Array
from sweeper.judge.drafts import Counted, count
from sweeper.judge.latency import Measured, measure


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """The drafts and the times of one point."""

    drafts: Counted
    times: Measured

    @property
    def tables(self) -> tuple[Array, ...]:
        """What is drawn of them."""
        return (*self.drafts.tables, *self.times.tables)


def gather(arm: Arm) -> Gathered | None:
    """``None`` for a point without usable requests."""
    if not arm.usable:
        return None
    point = arm.planned.point
    return Gathered(
        count(arm.records, gamma=point.gamma, baseline=point.is_baseline), measure(arm.records)
    )
