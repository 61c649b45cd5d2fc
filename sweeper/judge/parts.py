"""Acceptance of one point by the length so far: where a draft falls behind its context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sweeper.measure.stretches import by_length
from sweeper.values import RequestRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The steps of all requests within one range of tokens of prompt and answer."""

    name: str
    acceptance_rate: float
    mean_acceptance_length: float


def lengths(records: Sequence[RequestRecord]) -> tuple[Part, ...]:
    """One part a range of tokens of prompt and answer so far; only those with drafts."""
    return tuple(
        Part(
            name=f"{w.start:g} to {w.end:g} tokens",
            acceptance_rate=w.accepted / w.drafted,
            mean_acceptance_length=1 + w.accepted / w.verify_steps,
        )
        for w in by_length(records)
        if w.drafted and w.verify_steps
    )
