"""Acceptance of a whole point from the server's counters, where requests did not report it.

Requests that overlap have no decode steps of their own, and a request for several answers reports
no counts at all; the server counts both. One difference of counters has no interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sweeper.judge.acceptance import Acceptance
from sweeper.judge.bootstrap import Figure
from sweeper.values import Json, RequestRecord

OF_COUNTERS = "from the server's counters over the whole point: no interval"


def with_totals(found: Acceptance, counters: Json, records: Sequence[RequestRecord]) -> Acceptance:
    """``found`` with what is undefined there taken from the change of the counters.

    Only where no request failed: the counters hold the steps of failed ones too.
    """
    change = counters.get("change") if isinstance(counters, Mapping) else None
    if counters and (counters.get("cross_check") or {}).get("agree") is False:
        return found
    if not isinstance(change, Mapping) or any(r.error for r in records) or not records:
        return found
    steps, drafts = change.get("decode_steps"), change.get("verify_steps")
    if found.tokens_per_decode_step.value is None and steps and change.get("completion_tokens"):
        # The first token of every answer comes from prefill, not from a decode step.
        emitted = change["completion_tokens"] - sum(r.answers for r in records)
        found = replace(found, tokens_per_decode_step=_figure(emitted / steps))
    if found.state == "no speculation" or drafts is None:
        return found
    if found.draft_coverage.value is None and steps:
        found = replace(found, draft_coverage=_figure(drafts / steps))
    return _counted(found, change) if found.state == "no per-request metrics" else found


def _counted(found: Acceptance, change: Mapping[str, Json]) -> Acceptance:
    """Drafts of all requests together."""
    steps, drafted, accepted = (
        int(change.get(name) or 0) for name in ("verify_steps", "drafted", "accepted")
    )
    found = replace(
        found, verify_steps=steps, drafted=drafted, accepted=accepted, without_metrics=0
    )
    if not drafted:
        return replace(found, state="no drafts")
    reached = (steps, *(change.get("accepted_at") or ()))
    survival = [_figure(count / steps) for count in reached[1:]]
    exactly = [_figure((a - b) / steps) for a, b in zip(reached, (*reached[1:], 0), strict=True)]
    return replace(
        found,
        state="drafted" if accepted else "drafted but nothing accepted",
        acceptance_rate=_figure(accepted / drafted),
        mean_acceptance_length=_figure(1 + accepted / steps),
        survival=tuple(survival) or found.survival,
        exactly=tuple(exactly) if survival else found.exactly,
    )


def _figure(value: float) -> Figure:
    return Figure(value=value, reason=OF_COUNTERS)
