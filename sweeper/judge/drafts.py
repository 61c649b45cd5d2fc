"""What the requests of one point drafted, summed but not yet drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sweeper.judge.bootstrap import Array, sum_by_prompt
from sweeper.judge.positions import Tally, longest_draft, tally
from sweeper.measure.checks import NOTHING
from sweeper.values import RequestRecord, SpecCounts

State = Literal[
    "drafted",
    "no speculation",
    "no per-request metrics",
    "no drafts",
    "drafted but nothing accepted",
]

WITH_DRAFTS: tuple[State, ...] = ("drafted", "drafted but nothing accepted")
POOLED = ("S", "D", "A", "steps", "emitted", "S_of_known", "steps_of_known")


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """What the successful requests of one point add up to. ``table`` has one row a request and
    ``sums`` one a prompt, both with the columns :data:`POOLED`; ``by_position`` is ``None`` without
    drafts, and where a request reported no histogram."""

    good: Sequence[RequestRecord]
    gamma: int
    baseline: bool
    state: State
    table: Array
    sums: Array
    longest: int
    by_position: Tally | None

    @property
    def tables(self) -> tuple[Array, ...]:
        """What is drawn of them."""
        return (self.sums, self.by_position.sums) if self.by_position else (self.sums,)


def count(records: Sequence[RequestRecord], *, gamma: int, baseline: bool) -> Counted:
    """Count the successful requests among ``records``."""
    good = [r for r in records if not r.error]
    specs = [r.spec for r in good if r.spec is not None]
    state, longest = state_of(specs, baseline), 0 if baseline else longest_draft(specs, gamma)
    table = _quantities(good)
    return Counted(
        good=good,
        gamma=gamma,
        baseline=baseline,
        state=state,
        table=table,
        sums=by_prompt(good, table)[1],
        longest=longest,
        by_position=tally(good, longest) if state in WITH_DRAFTS else None,
    )


def _quantities(good: Sequence[RequestRecord]) -> Array:
    """One row a request with the columns :data:`POOLED`; those ``…_of_known`` need both sources."""
    specs = [r.spec or NOTHING for r in good]
    steps = np.array([r.decode_steps for r in good], dtype=np.float64)  # None becomes NaN
    verify = np.array([s.verify_steps for s in specs], dtype=np.float64)
    # The first token of an answer comes from prefill, not from a decode step.
    emitted = np.array([(r.completion_tokens or 0) - r.answers for r in good], dtype=np.float64)
    counted, known = ~np.isnan(steps), np.array([r.spec is not None for r in good], dtype=bool)
    steps[~counted] = 0.0
    return np.column_stack(
        [
            verify,
            np.array([s.drafted for s in specs], dtype=np.float64),
            np.array([s.accepted for s in specs], dtype=np.float64),
            steps,
            np.where(counted, np.maximum(emitted, 0), 0),
            np.where(counted & known, verify, 0),
            np.where(counted & known, steps, 0),
        ]
    )


def by_prompt(records: Sequence[RequestRecord], table: Array) -> tuple[tuple[str, ...], Array]:
    """The prompts of ``records``, and the rows of ``table``, one a request, summed by prompt."""
    return sum_by_prompt([r.prompt_id for r in records], table)


def state_of(counted: Sequence[SpecCounts], baseline: bool) -> State:
    """``counted`` are those of the requests that report any."""
    if baseline:
        return "no speculation"
    if not counted:
        return "no per-request metrics"
    if not any(c.drafted for c in counted):
        return "no drafts"
    if not any(c.accepted for c in counted):
        return "drafted but nothing accepted"
    return "drafted"
