"""The server's counters around a point's measured part."""

from __future__ import annotations

import time
from dataclasses import asdict

from sweeper import store
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


def close_counters(one: Measurement, before: Counters | None) -> None:
    """Counters after the last request beside those before the first, raw, and their difference."""
    after = read_counters(one)
    raw = {"before": before and asdict(before), "after": after and asdict(after)}
    store.write_json(one.folder.counters, raw)
    change = after.since(before) if after and before else None
    if before and after and change is None:
        one.warnings.append("the server's counters were reset while the point was measured")
    one.counters = {
        "change": change and asdict(change),
        "cross_check": cross_check(one.records, change),
    }
