"""Times and rates of a point under its load, each with its interval or the reason it has none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sweeper.judge.bootstrap import Figure, resample_sums, undefined
from sweeper.judge.latency import Latency, Measured, Spread, latency
from sweeper.measure.energy import NO_GPU
from sweeper.values import Json, Load, Slo

LATENCIES = tuple(f"{name}_ms_p{p}" for name in ("ttft", "tpot") for p in (50, 95, 99))
"""Names of the first latency figures, milliseconds."""
_KINDS = ("ttft", "tpot", "e2e", "chunk_gap", "queue", "prefill", "decode")
MORE_LATENCIES = tuple(
    name
    for kind in _KINDS
    for name in (f"{kind}_ms_mean", *(f"{kind}_ms_p{p}" for p in (50, 90, 95, 99)))
    if name not in LATENCIES
)
"""The others, of every kind; only means have an interval."""
RATES = (
    "requests_per_s",
    "total_tokens_per_s",
    "output_tokens_per_s_per_gpu",
    "total_tokens_per_s_per_gpu",
    "slo_share",
    "energy_j_per_output_token",
)
NOT_PER_SECOND = ("slo_share", "energy_j_per_output_token")
"""Those of them."""
_NO_INTERVAL = "one window has no interval"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What the server ran on: ``gpus`` in use (``None``: not recorded), ``joules`` they took over
    the measured part, or the reason why that is unknown."""

    gpus: int | None = None
    joules: float | None = None
    reason: str = "energy was not recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Mean seconds a request; completion tokens per second of request time, and where requests
    overlap per second of the measuring window; :data:`LATENCIES` and :data:`MORE_LATENCIES` by
    name; requests per second that kept the SLO; :data:`RATES` by name; answers of one token, which
    have no TPOT."""

    request_time_s: Figure
    output_tokens_per_s: Figure
    latencies: Mapping[str, Figure]
    goodput: Figure
    rates: Mapping[str, Figure]
    one_token: int | None


def machine_of(provenance: Json, counters: Json) -> Machine:
    """As the files of a point tell it."""
    engine = provenance.get("engine") if isinstance(provenance, dict) else None
    gpus = engine.get("gpus") if isinstance(engine, dict) else None
    energy = counters.get("energy") if isinstance(counters, dict) else None
    found = energy if isinstance(energy, dict) else {}
    joules, reason = found.get("joules"), found.get("reason") or Machine().reason
    return Machine(gpus=gpus, joules=joules, reason=NO_GPU if gpus == 0 else reason)


def timing(measured: Measured, load: Load, *, slo: Slo, seed: int, machine: Machine) -> Timing:
    """Figures of the successful requests; tokens are those of ``usage``."""
    if not measured.good:
        return unmeasured_timing("no request succeeded")
    found = latency(measured, load, slo=slo, seed=seed)
    boot = resample_sums(measured.totals, names=("n", "s", "tokens"), seed=seed)
    window = _of_window(found, found.throughput.output_tokens_per_s)
    return Timing(
        request_time_s=boot.figure(lambda s: s["s"] / s["n"]),
        output_tokens_per_s=window
        if load.overlapping
        else boot.figure(lambda s: s["tokens"] / s["s"], ""),
        latencies=_latencies(found),
        goodput=_by_slo(found, found.throughput.goodput, slo),
        rates=_rates(found, slo, machine, int(boot.total["tokens"])),
        one_token=found.one_token,
    )


def _of_window(found: Latency, value: float | None) -> Figure:
    if value is None:
        return undefined(found.throughput.reason)
    return Figure(value=value, reason=_NO_INTERVAL)


def _latencies(found: Latency) -> dict[str, Figure]:
    figures = {}
    for name in (*LATENCIES, *MORE_LATENCIES):
        kind, _, which = name.rpartition("_")
        spread: Spread = getattr(found, kind)
        value = getattr(spread, which)
        bounds = (spread.low, spread.high) if which == "mean" else (None, None)
        figures[name] = (
            undefined(spread.reason)
            if value is None
            else Figure(value=value, low=bounds[0], high=bounds[1], reason=spread.reason)
        )
    return figures


def _by_slo(found: Latency, value: float | None, slo: Slo) -> Figure:
    if not slo.limits:
        return undefined("no slo was set")
    if value is None:
        return undefined(found.throughput.slo_reason or found.throughput.reason)
    return Figure(value=value)


def _rates(found: Latency, slo: Slo, machine: Machine, tokens: int) -> dict[str, Figure]:
    """:data:`RATES`; the window is the measuring window, also of a sequential load."""
    rates = found.throughput
    return {
        "requests_per_s": _of_window(found, rates.requests_per_s),
        "total_tokens_per_s": _of_window(found, rates.total_tokens_per_s),
        "output_tokens_per_s_per_gpu": _per_gpu(found, rates.output_tokens_per_s, machine),
        "total_tokens_per_s_per_gpu": _per_gpu(found, rates.total_tokens_per_s, machine),
        "slo_share": _by_slo(found, rates.slo_share, slo),
        "energy_j_per_output_token": _energy(machine, tokens),
    }


def _per_gpu(found: Latency, value: float | None, machine: Machine) -> Figure:
    if not machine.gpus:
        return undefined(NO_GPU if machine.gpus == 0 else "the number of GPUs was not recorded")
    return _of_window(found, None if value is None else value / machine.gpus)


def _energy(machine: Machine, tokens: int) -> Figure:
    if machine.joules is None or not tokens:
        return undefined(machine.reason)
    return Figure(value=machine.joules / tokens, reason="the whole boards, from NVML")


def unmeasured_timing(reason: str) -> Timing:
    """The timing of a point without usable requests."""
    none = undefined(reason)
    return Timing(
        request_time_s=none,
        output_tokens_per_s=none,
        latencies=dict.fromkeys((*LATENCIES, *MORE_LATENCIES), none),
        goodput=none,
        rates=dict.fromkeys(RATES, none),
        one_token=None,
    )
