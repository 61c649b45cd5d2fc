"""Latencies of one point under its load; pure functions of its records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweeper.measure.throughput import Throughput, throughput
from sweeper.measure.times import chunk_gaps_ms, e2e_ms, late_ms, tpot_ms, ttft_ms
from sweeper.values import Load, RequestRecord, Slo

Array = NDArray[np.float64]

RESAMPLES = 2000
_CELLS_AT_ONCE = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """``count`` values: mean with its 95 % interval, and percentiles (linear interpolation).

    Without values all are ``None`` and ``reason`` says why; beside values it qualifies them. The
    interval is a bootstrap over prompts: all values of a prompt stay together.
    """

    count: int = 0
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """One point's figures; ``one_token`` answers are not in ``tpot_ms``.

    ``queue_ms``, ``prefill_ms`` and ``decode_ms`` are the server's own; ``late_ms`` is how much
    later than planned an open load sent.
    """

    success_rate: float | None
    ttft_ms: Spread
    tpot_ms: Spread
    chunk_gap_ms: Spread
    e2e_ms: Spread
    queue_ms: Spread
    prefill_ms: Spread
    decode_ms: Spread
    late_ms: Spread
    one_token: int
    throughput: Throughput


def latency(
    records: Sequence[RequestRecord], load: Load, *, slo: Slo | None = None, seed: int = 0
) -> Latency:
    """All figures of a point's records; failed requests count only against the success rate."""
    good = [record for record in records if not record.error]
    why = "" if good else "no request succeeded"

    def spread(of: Callable[[RequestRecord], Iterable[float | None]], missing: str) -> Spread:
        rows = [(r.prompt_id, [v for v in of(r) if v is not None]) for r in good]
        return spread_of(rows, seed=seed, missing=why or missing)

    not_streamed, silent = "the answers were not streamed", "the server does not report it"
    return Latency(
        success_rate=len(good) / len(records) if records else None,
        ttft_ms=spread(lambda r: [ttft_ms(r)], not_streamed),
        tpot_ms=spread(
            lambda r: [tpot_ms(r)],
            "no answer had two tokens" if any(r.chunk_ns for r in good) else not_streamed,
        ),
        chunk_gap_ms=spread(chunk_gaps_ms, not_streamed),
        e2e_ms=spread(lambda r: [e2e_ms(r)], why),
        queue_ms=spread(lambda r: [r.queue_ms], silent),
        prefill_ms=spread(lambda r: [r.prefill_ms], silent),
        decode_ms=spread(lambda r: [r.decode_ms], silent),
        late_ms=spread(lambda r: [late_ms(r)], "the load plans no times"),
        one_token=sum(1 for r in good if r.completion_tokens == 1),
        throughput=throughput(records, load, slo),
    )


def spread_of(rows: Iterable[tuple[str, Sequence[float]]], *, seed: int, missing: str) -> Spread:
    """The spread of the values in (prompt id, values) rows; ``missing`` is the reason for none."""
    there = [(prompt, np.asarray(values)) for prompt, values in rows if len(values)]
    if not there:
        return Spread(reason=missing)
    values = np.concatenate([each for _, each in there])
    p50, p90, p95, p99 = (float(p) for p in np.percentile(values, (50, 90, 95, 99)))
    low, high = _interval(there, seed)
    return Spread(
        count=len(values),
        mean=float(values.mean()),
        low=low,
        high=high,
        p50=p50,
        p90=p90,
        p95=p95,
        p99=p99,
        reason=f"of {len(values)} values" if len(values) < 100 else "",
    )


def _interval(rows: Iterable[tuple[str, Array]], seed: int) -> tuple[float | None, float | None]:
    """95 % percentile interval of the mean over resampled prompts; none of a single prompt."""
    sums: dict[str, Array] = {}
    for prompt, values in rows:
        sums[prompt] = sums.get(prompt, np.zeros(2)) + np.array([values.sum(), len(values)])
    prompts = len(sums)
    if prompts < 2:
        return None, None
    table, generator = np.array(list(sums.values())), np.random.default_rng(seed)
    shares, size = np.full(prompts, 1 / prompts), max(1, _CELLS_AT_ONCE // prompts)
    drawn = np.concatenate([
        generator.multinomial(prompts, shares, size=min(size, RESAMPLES - at)) @ table
        for at in range(0, RESAMPLES, size)
    ])  # fmt: skip
    low, high = np.percentile(drawn[:, 0] / drawn[:, 1], (2.5, 97.5))
    return float(low), float(high)
