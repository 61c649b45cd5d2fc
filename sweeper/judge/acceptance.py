"""What the drafts of one point were worth, pooled over its requests: sum first, then divide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sweeper.judge.bootstrap import Array, Bootstrap, Figure, draw_ahead, resample_sums, undefined
from sweeper.judge.drafts import POOLED, WITH_DRAFTS, Counted, State, state_of
from sweeper.judge.positions import Positions, no_positions, positions_of
from sweeper.measure.checks import NOTHING, adds_up
from sweeper.values import RequestRecord


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


def acceptance(counted: Counted, *, seed: int) -> Acceptance:
    """The figures of one point."""
    good, baseline, state = counted.good, counted.baseline, counted.state
    draw_ahead(counted.tables, seed=seed)
    positions = _positions(counted, seed)
    pooled = _rates(counted.sums, state, seed)
    told = ((r, NOTHING if baseline else r.spec) for r in good)
    checks = [c for r, s in told if s and (c := adds_up(r, s, counted.gamma)) is not None]
    verify_steps, drafted, accepted = (int(total) for total in counted.table[:, :3].sum(axis=0))
    return Acceptance(
        state=state,
        verify_steps=verify_steps,
        drafted=drafted,
        accepted=accepted,
        without_metrics=0 if baseline else sum(r.spec is None for r in good),
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


def rates(records: Sequence[RequestRecord], sums: Array, *, seed: int) -> Rates:
    """Of successful requests of a server that speculates, and their quantities summed by
    prompt."""
    counted = [r.spec for r in records if r.spec is not None]
    return _rates(sums, state_of(counted, baseline=False), seed)


def _rates(sums: Array, state: State, seed: int) -> Rates:
    boot = resample_sums(sums, names=POOLED, seed=seed)
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


def _of_drafts(boot: Bootstrap, state: State, formula: Literal["A/D", "1+A/S"]) -> Figure:
    if state not in WITH_DRAFTS:
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


def _positions(counted: Counted, seed: int) -> Positions:
    if counted.state not in WITH_DRAFTS:
        return no_positions(counted.state, counted.longest)
    return positions_of(counted.by_position, length=counted.longest, seed=seed)
