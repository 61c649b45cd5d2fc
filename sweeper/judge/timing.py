"""Request time and output rate of any load; TTFT, TPOT and goodput of one that streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sweeper.judge.bootstrap import Figure, resample, undefined
from sweeper.measure.latency import Latency, latency
from sweeper.values import Load, RequestRecord, Slo

LATENCIES = tuple(f"{name}_ms_p{p}" for name in ("ttft", "tpot") for p in (50, 95, 99))
"""Names of the latency figures, milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Mean seconds a request; completion tokens per second of request time, and where requests
    overlap per second of the measuring window; :data:`LATENCIES` by name; requests per second
    that kept the SLO."""

    request_time_s: Figure
    output_tokens_per_s: Figure
    latencies: Mapping[str, Figure]
    goodput: Figure


def timing(records: Sequence[RequestRecord], load: Load, *, slo: Slo, seed: int) -> Timing:
    """Figures of the successful requests among ``records``; tokens are those of ``usage``."""
    good = [r for r in records if not r.error]
    if not good:
        return unmeasured_timing("no request succeeded")
    found = latency(records, load, slo=slo, seed=seed)
    rows = (
        (r.prompt_id, {"n": 1, "s": r.request_time_s, "tokens": r.completion_tokens or 0})
        for r in good
    )
    boot = resample(rows, names=("n", "s", "tokens"), seed=seed)
    return Timing(
        request_time_s=boot.figure(lambda s: s["s"] / s["n"]),
        output_tokens_per_s=_of_window(found)
        if load.overlapping
        else boot.figure(lambda s: s["tokens"] / s["s"], ""),
        latencies=_percentiles(found),
        goodput=_goodput(found, slo),
    )


def _of_window(found: Latency) -> Figure:
    rates = found.throughput
    if rates.output_tokens_per_s is None:
        return undefined(rates.reason)
    return Figure(value=rates.output_tokens_per_s, reason="one window has no interval")


def _percentiles(found: Latency) -> dict[str, Figure]:
    spreads = {"ttft": found.ttft_ms, "tpot": found.tpot_ms}
    figures = {}
    for name in LATENCIES:
        kind, _, percentile = name.partition("_ms_")
        value = getattr(spreads[kind], percentile)
        reason = spreads[kind].reason
        figures[name] = undefined(reason) if value is None else Figure(value=value, reason=reason)
    return figures


def _goodput(found: Latency, slo: Slo) -> Figure:
    if not slo.limits:
        return undefined("no slo was set")
    value = found.throughput.goodput
    return undefined(found.throughput.reason) if value is None else Figure(value=value)


def unmeasured_timing(reason: str) -> Timing:
    """The timing of a point without usable requests."""
    none = undefined(reason)
    return Timing(
        request_time_s=none,
        output_tokens_per_s=none,
        latencies=dict.fromkeys(LATENCIES, none),
        goodput=none,
    )
