"""What a group that runs elsewhere does now, in words."""

from __future__ import annotations

from sweeper.jobs.heartbeat import Beat
from sweeper.jobs.pace import words
from sweeper.jobs.queue import Queued
from sweeper.plan.amount import requests_of
from sweeper.values import Group


def doing_now(beat: Beat | None, queued: Queued | None, group: Group) -> str:
    """``2/6 requests, 10.0 tok/s, A/D 0.75``; before the first beat, why it waits."""
    if beat is None:
        return queued.reason if queued and queued.reason != "None" else ""
    if beat.doing != "measuring":
        return beat.doing
    pace = words(beat.tokens, beat.seconds, beat.accepted, beat.drafted)
    return f"{beat.done}/{_total(beat, group)} requests{pace}"


def _total(beat: Beat, group: Group) -> int:
    """What was planned, until the point says or sends more."""
    planned = (requests_of(p.point) for p in group.points if p.number == beat.point)
    return max(beat.total, beat.done, *planned)
