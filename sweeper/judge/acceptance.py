"""What the drafts of one point were worth, pooled over its requests: sum first, then divide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sweeper.judge.bootstrap import (
    Array,
    Bootstrap,
    Figure,
    draw_ahead,
    resample_sums,
    sum_by_prompt,
    undefined,
)
from sweeper.judge.positions import (
    Positions,
    longest_draft,
    no_positions,
    positions_of,
    tally,
)
from sweeper.measure.checks import NOTHING, adds_up
from sweeper.values import RequestRecord, SpecCounts

State = Literal[
    "drafted",
    "no speculation",
    "no per-request metrics",
    "no drafts",
    "drafted but nothing accepted",
]

_POOLED = ("S", "D", "A", "steps", "emitted", "S_of_known", "steps_of_known")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """The pooled figures of some requests."""

    acceptance_rate: Figure
    mean_acceptance_length: Figure
    draft_coverage: Figure
    tokens_per_decode_step: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Acceptance figures of one point; ``docs/metrics.md`` has the formulas.

    ``survival[i - 1]`` belongs to draft position i, and so do the other two. ``tokens_at[g - 1]``
    are the tokens per decode step to expect with drafts cut to g tokens: a prediction, see
    :func:`sweeper.judge.positions.positions_of`. ``exactly[k]`` is the share of the steps with a
    draft that accepted k tokens of it, neither more nor less. ``violations`` counts the requests,
    of ``checked``, whose tokens and steps do not add up.
    """

    state: State
    verify_steps: int
    drafted: int
    accepted: int
    without_metrics: int
    acceptance_rate: Figure
    mean_acceptance_length: Figure
    draft_coverage: Figure
    tokens_per_decode_step: Figure
    survival: tuple[Figure, ...]
    position_acceptance: tuple[Figure, ...]
    conditional_acceptance: tuple[Figure, ...]
    checked: int
    violations: int
    tokens_at: tuple[Figure, ...] = ()
    exactly: tuple[Figure, ...] = ()


def acceptance(
    records: Sequence[RequestRecord], *, gamma: int, baseline: bool, seed: int
) -> Acceptance:
    """Figures of the successful requests among ``records``."""
    good = [r for r in records if not r.error]
    counted = [r.spec for r in good if r.spec is not None]
    state = _state(counted, baseline)
    table = quantities(good)
    _, sums = by_prompt(good, table)
    length = 0 if baseline else longest_draft(counted, gamma)
    positions = _positions(good, sums, state, length, seed)
    pooled = _rates(sums, state, seed)
    told = ((r, NOTHING if baseline else r.spec) for r in good)
    checks = [c for r, spec in told if spec and (c := adds_up(r, spec, gamma)) is not None]
    verify_steps, drafted, accepted = (int(total) for total in table[:, :3].sum(axis=0))
    return Acceptance(
        state=state,
        verify_steps=verify_steps,
        drafted=drafted,
        accepted=accepted,
        without_metrics=0 if baseline else len(good) - len(counted),
        acceptance_rate=pooled.acceptance_rate,
        mean_acceptance_length=pooled.mean_acceptance_length,
        draft_coverage=pooled.draft_coverage,
        tokens_per_decode_step=pooled.tokens_per_decode_step,
        survival=positions.survival,
        position_acceptance=positions.position_acceptance,
        conditional_acceptance=positions.conditional_acceptance,
        tokens_at=positions.tokens_at,
        exactly=positions.exactly,
        checked=len(checks),
        violations=checks.count(False),
    )


def quantities(good: Sequence[RequestRecord]) -> Array:
    """What :func:`rates` sums, one row a request: the quantities of ``_POOLED``; those
    ``…_of_known`` need both sources."""
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


def rates(records: Sequence[RequestRecord], sums: Array, *, seed: int) -> Rates:
    """Of successful requests of a server that speculates, and their :func:`quantities` summed
    :func:`by_prompt`."""
    counted = [r.spec for r in records if r.spec is not None]
    return _rates(sums, _state(counted, baseline=False), seed)


def _rates(sums: Array, state: State, seed: int) -> Rates:
    boot = resample_sums(sums, names=_POOLED, seed=seed)
    return Rates(
        acceptance_rate=_of_drafts(boot, state, "A/D"),
        mean_acceptance_length=_of_drafts(boot, state, "1+A/S"),
        draft_coverage=_coverage(boot, state),
        tokens_per_decode_step=_tokens_per_step(boot),
    )


def unmeasured_acceptance(reason: str) -> Acceptance:
    """The acceptance of a point without usable requests."""
    none = undefined(reason)
    return Acceptance(
        state="no per-request metrics",
        verify_steps=0,
        drafted=0,
        accepted=0,
        without_metrics=0,
        acceptance_rate=none,
        mean_acceptance_length=none,
        draft_coverage=none,
        tokens_per_decode_step=none,
        survival=(),
        position_acceptance=(),
        conditional_acceptance=(),
        checked=0,
        violations=0,
    )


def _state(counted: Sequence[SpecCounts], baseline: bool) -> State:
    if baseline:
        return "no speculation"
    if not counted:
        return "no per-request metrics"
    if not any(c.drafted for c in counted):
        return "no drafts"
    if not any(c.accepted for c in counted):
        return "drafted but nothing accepted"
    return "drafted"


def _of_drafts(boot: Bootstrap, state: State, formula: Literal["A/D", "1+A/S"]) -> Figure:
    if state not in ("drafted", "drafted but nothing accepted"):
        return undefined(state)
    reason = "" if state == "drafted" else state
    if formula == "A/D":
        return boot.figure(lambda s: s["A"] / s["D"], reason)
    return boot.figure(lambda s: 1 + s["A"] / s["S"], reason)


def _coverage(boot: Bootstrap, state: State) -> Figure:
    if state in ("no speculation", "no per-request metrics"):
        return undefined(state)
    if not boot.total["steps_of_known"]:
        return undefined("no decode steps counted per request")
    reason = "" if state == "drafted" else state
    return boot.figure(lambda s: s["S_of_known"] / s["steps_of_known"], reason)


def _tokens_per_step(boot: Bootstrap) -> Figure:
    if not boot.total["steps"]:
        return undefined("no decode steps counted per request")
    return boot.figure(lambda s: s["emitted"] / s["steps"])


def _positions(
    good: Sequence[RequestRecord], sums: Array, state: State, length: int, seed: int
) -> Positions:
    """``sums`` are drawn with what the positions need."""
    if state not in ("drafted", "drafted but nothing accepted"):
        return no_positions(state, length)
    if (found := tally(good, length)) is not None:
        draw_ahead([sums, found.sums], seed=seed)
    return positions_of(found, length=length, seed=seed)
