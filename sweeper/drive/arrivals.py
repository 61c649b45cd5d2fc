"""When an open load sends: arrivals drawn from a seed, the same in every arm."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from itertools import accumulate, takewhile

from sweeper.values import Load


def arrivals(load: Load) -> Iterator[float]:
    """Seconds from the start to each arrival, the first at 0; ends only with ``duration_s``.

    The gaps are drawn with mean 1 and stretched to the rate. A rate that ramps from a to b within
    T has seen ``a t + (b - a) t² / 2T`` arrivals at t, so arrival n is where that is n.
    """
    counted = accumulate(_unit_gaps(load), initial=0.0)
    when = _ramped(load) if load.name == "ramp" else _steady(load)
    times = (when(count) for count in counted)
    limit = load.duration_s
    return takewhile(lambda t: limit is None or t < limit, times)


def _unit_gaps(load: Load) -> Iterator[float]:
    """Gaps with mean 1; gamma gaps have the coefficient of variation ``1 / sqrt(burstiness)``."""
    dice = random.Random(load.seed)
    while True:
        match load.arrivals:
            case "constant":
                yield 1.0
            case "poisson":
                yield dice.expovariate(1.0)
            case "gamma":
                yield dice.gammavariate(load.burstiness, 1.0 / load.burstiness)


def _steady(load: Load) -> Callable[[float], float]:
    if not load.rate:
        raise ValueError("an open load has a rate")
    rate = load.rate
    return lambda count: count / rate


def _ramped(load: Load) -> Callable[[float], float]:
    """Arrivals past those that the ramp has room for are at infinity."""
    start, end, seconds = ramp_of(load)
    slope = (end - start) / seconds

    def when(count: float) -> float:
        if not slope:
            return count / start
        under = start * start + 2 * slope * count
        return (math.sqrt(under) - start) / slope if under >= 0 else math.inf

    return when


def ramp_of(load: Load) -> tuple[float, float, float]:
    """From, to and seconds of a ramp."""
    if load.ramp_from is None or load.ramp_to is None or load.duration_s is None:
        raise ValueError("a ramp has ramp_from, ramp_to and duration_s")
    return load.ramp_from, load.ramp_to, load.duration_s


def shifts(load: Load) -> Iterator[tuple[float, float]]:
    """From and to second of every slot of a closed load or of a ramp of concurrency.

    One request at a time is under way in a slot. Slot k of a ramp, counted from 1, is open while
    the line, rounded to whole requests, is at k or above.
    """
    if load.name != "ramp":
        yield from [(0.0, load.duration_s or math.inf)] * load.concurrency
        return
    start, end, seconds = ramp_of(load)
    for slot in range(1, math.floor(max(start, end) + 0.5) + 1):
        level = slot - 0.5
        crossed = (level - start) / (end - start) * seconds if start != end else 0.0
        if end >= start:
            yield max(0.0, crossed), seconds
        else:
            yield 0.0, min(seconds, crossed)
