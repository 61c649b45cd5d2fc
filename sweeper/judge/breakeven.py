"""Does a speculative step pay for itself, and what would other γ have brought?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from sweeper.judge.bootstrap import Figure, undefined
from sweeper.judge.compare import Comparison
from sweeper.judge.verdict import BreakEven, Curve, CurvePoint
from sweeper.values import content_key

PREDICTION = "prediction"


def break_even(one: Comparison, baseline: Comparison | None) -> BreakEven:
    """Cost, tokens needed and tokens got of one decode step.

    A step that costs c baseline steps is as fast as the baseline when it brings c times the
    baseline's tokens per decode step (1, but for tokens cut at the end). The margin is measured
    directly, as the ratio of decode rates (tokens after the first / time after the first) - 1.
    """
    got, cost = tokens_per_step(one), one.step_cost
    there = tokens_per_step(baseline) if baseline else undefined(one.speedup.reason)
    decode = one.speedup_tpot
    return BreakEven(
        point=one.number,
        gamma=one.point.gamma,
        step_cost=cost,
        needed=_times(cost, there),
        got=got,
        margin=_shifted(decode, -1) if decode.value is not None else _margin(got, cost, there),
    )


def tokens_per_step(one: Comparison) -> Figure:
    return one.acceptance.tokens_per_decode_step


def curves(candidates: Sequence[Comparison]) -> tuple[Curve, ...]:
    """One curve for every method that was measured with several γ or with γ above 1."""
    families: dict[str, list[Comparison]] = {}
    for one in candidates:
        if one.completed and not one.synthetic:
            families.setdefault(family(one), []).append(one)
    return tuple(_curve(members) for members in families.values())


def family(one: Comparison) -> str:
    """Equal for settings that differ in γ only."""
    point, server = one.point, one.point.server
    flags = (*server.args, *map("=".join, server.env), server.revision or "", *server.workarounds)
    return _family(point.target, point.method, point.warm, flags, server.speculative_config)


@lru_cache(maxsize=4096)
def _family(target: str, method: str, warm: bool, flags: tuple[str, ...], config: str) -> str:
    """Every setting of a workload is asked for beside every other one."""
    speculative = json.loads(config) if config else {}
    speculative.pop("num_speculative_tokens", None)
    return content_key([target, method, warm, flags, speculative])


def _curve(members: Sequence[Comparison]) -> Curve:
    source = max(members, key=lambda c: c.point.gamma)
    by_gamma = {c.point.gamma: c for c in members}
    tokens = source.acceptance.tokens_at
    missing = next((f.reason for f in tokens if f.value is None), "")
    return Curve(
        method=source.point.method,
        source=source.number,
        points=tuple(_point(g, source, by_gamma.get(g)) for g in range(1, source.point.gamma + 1))
        if tokens and not missing
        else (),
        reason=missing or ("" if tokens else "no acceptance by position"),
    )


def _point(gamma: int, source: Comparison, measured: Comparison | None) -> CurvePoint:
    tokens, none = source.acceptance.tokens_at[gamma - 1], undefined("this γ was not measured")
    predicted = Figure(value=tokens.value, low=tokens.low, high=tokens.high, reason=PREDICTION)
    return CurvePoint(
        gamma=gamma,
        predicted_tokens_per_step=predicted,
        measured_tokens_per_step=tokens_per_step(measured) if measured else none,
        predicted_speedup=_predicted_speedup(predicted, gamma, source),
        measured_speedup=measured.speedup_tpot if measured else none,
    )


def _predicted_speedup(tokens: Figure, gamma: int, source: Comparison) -> Figure:
    """Of the decode rate, with a step's cost on the line from 1 at γ = 0 to the measured one."""
    cost = source.step_cost.value
    if cost is None:
        return undefined(source.step_cost.reason)
    at = 1 + (cost - 1) * gamma / source.point.gamma
    return _times(tokens, Figure(value=1 / at), PREDICTION)


def _margin(got: Figure, cost: Figure, there: Figure) -> Figure:
    needed = _times(cost, there)
    if got.value is None or needed.value is None:
        return undefined(got.reason or needed.reason)
    return Figure(value=got.value / needed.value - 1, reason="no interval")


def _times(one: Figure, other: Figure, reason: str = "") -> Figure:
    """``one`` scaled by the value of ``other``, which is taken as exact."""
    if one.value is None or other.value is None:
        return undefined(one.reason if one.value is None else other.reason)
    return replace(one.scaled(other.value), reason=reason or one.reason)


def _shifted(one: Figure, by: float) -> Figure:
    if one.value is None:
        return one
    low = None if one.low is None else one.low + by
    high = None if one.high is None else one.high + by
    return Figure(value=one.value + by, low=low, high=high, reason=one.reason)
