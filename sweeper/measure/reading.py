"""The server's counters around a point's measured part, and within it where they are needed."""

from __future__ import annotations

import time
from dataclasses import asdict

from sweeper import store
from sweeper.measure import counted
from sweeper.measure.checks import cross_check
from sweeper.measure.counters import Counters, parse
from sweeper.measure.measurement import Measurement

IDLE_WAIT_S = 30.0


def read_counters(one: Measurement) -> Counters | None:
    """Counters when the server is quiet; waits for it up to half a minute."""
    deadline = time.monotonic() + IDLE_WAIT_S
    counters = scrape(one)
    while counters and not counters.idle and time.monotonic() < deadline:
        time.sleep(0.1)
        counters = scrape(one)
    if counters and not counters.idle:
        one.warnings.append("the server was busy with other requests; its counters are not ours")
    return counters


def scrape(one: Measurement) -> Counters | None:
    """Counters as they are now; ``None`` where the server has none."""
    text = one.session.endpoint.metrics()
    return parse(text) if text else None


def open_counters(one: Measurement) -> Counters | None:
    """Counters before the first request, which is sent next.

    They are followed from now on where drafts are made that no request will tell of: the canary,
    which has the fields of all, did not. Requests that do not overlap are counted one by one.
    """
    before, point = read_counters(one), one.planned.point
    silent = point.load.overlapping and not point.is_baseline and not one.told
    if silent and before is not None and before.drafted is not None:
        one.readings = counted.Readings(time.perf_counter_ns(), before)
    return before


def close_counters(one: Measurement, before: Counters | None) -> None:
    """Counters after the last request beside those before the first, raw, and their difference."""
    after = read_counters(one)
    silent = one.readings is not None and not one.told
    seen = one.readings.until(after) if one.readings and after and silent else []
    raw = {"before": before and asdict(before), "after": after and asdict(after)}
    store.write_json(one.folder.counters, raw | ({"between": counted.raw(seen)} if seen else {}))
    change = after.since(before) if after and before else None
    if (before and after and change is None) or counted.was_reset(seen):
        one.warnings.append("the server's counters were reset while the point was measured")
    one.warnings += counted.dead_counted(seen, one.records) if seen else []
    one.counters = {
        "change": change and asdict(change),
        "cross_check": cross_check(one.records, change),
        **counted.kept(seen),
    }
