"""Figures of a whole point from the server's counters, where requests cannot tell them apart.

Under overlapping requests no decode step belongs to one request alone, but over the whole point the
counters still tell how many there were. So coverage and tokens per step exist, without an interval.
"""

from __future__ import annotations

from dataclasses import replace

from sweeper.judge.acceptance import Acceptance
from sweeper.judge.bootstrap import Figure
from sweeper.values import Json, PointResult

FROM_COUNTERS = "from the server's counters over the whole point: no interval"


def with_counters(found: Acceptance, result: PointResult | None) -> Acceptance:
    """``found`` with draft coverage and tokens per decode step where only the counters know.

    Counters that disagree with the requests (other clients, failed requests) are not used.
    """
    change = _change(result)
    steps = change.get("decode_steps")
    if result is None or not steps:
        return found
    if found.tokens_per_decode_step.value is None:
        emitted = (change.get("completion_tokens") or 0) - (result.requests - result.failed)
        figure = Figure(value=emitted / steps, reason=FROM_COUNTERS)
        found = replace(found, tokens_per_decode_step=figure)
    drafts = change.get("verify_steps")
    counted = found.state not in ("no speculation", "no per-request metrics")
    if counted and found.draft_coverage.value is None and drafts is not None:
        found = replace(found, draft_coverage=Figure(value=drafts / steps, reason=FROM_COUNTERS))
    return found


def _change(result: PointResult | None) -> dict[str, Json]:
    counters = result.counters if result and isinstance(result.counters, dict) else {}
    change, check = counters.get("change"), counters.get("cross_check")
    agrees = isinstance(check, dict) and check.get("agree") is True
    return change if agrees and isinstance(change, dict) else {}
