"""Latencies of one point under its load; pure functions of its records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweeper.judge.bootstrap import Array, draw_ahead, quantile, resample_sums
from sweeper.measure.throughput import Throughput, throughput
from sweeper.measure.times import (
    SHARED_STREAM,
    chunk_gaps_ns,
    e2e_ms,
    late_ms,
    tpot_ms,
    ttft_ms,
)
from sweeper.values import Load, RequestRecord, Slo

Codes = NDArray[np.integer[Any]]
"""Numbers that stand for prompts, from 0."""


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
    index: dict[str, int] = {}
    prompts = np.array([index.setdefault(r.prompt_id, len(index)) for r in good], dtype=np.int64)

    streamed = [r for r in good if r.chunk_ns]
    gaps = [chunk_gaps_ns(r) for r in streamed]
    all_gaps = np.fromiter(chain.from_iterable(gaps), dtype=np.float64) / 1e6
    codes = np.array([index[r.prompt_id] for r in streamed], dtype=np.int64)
    of_gaps = np.repeat(codes, np.array([len(each) for each in gaps], dtype=np.int64))
    not_streamed, silent = "the answers were not streamed", "the server does not report it"
    of_all = SHARED_STREAM if any(r.answers > 1 for r in streamed) else ""
    one_token = "no answer had two tokens" if streamed else not_streamed
    measured: dict[str, tuple[Iterable[float | None], str]] = {
        "ttft_ms": (map(ttft_ms, good), not_streamed),
        "tpot_ms": (map(tpot_ms, good), of_all or one_token),
        "e2e_ms": (map(e2e_ms, good), ""),
        "queue_ms": ((r.queue_ms for r in good), silent),
        "prefill_ms": ((r.prefill_ms for r in good), silent),
        "decode_ms": ((r.decode_ms for r in good), silent),
        "late_ms": (map(late_ms, good), "the load plans no times"),
    }
    found = {name: (*_known(prompts, v), missing) for name, (v, missing) in measured.items()}
    found["chunk_gap_ms"] = (of_gaps, all_gaps, of_all or not_streamed)
    draw_ahead((_sums(p, values) for p, values, _ in found.values() if len(values)), seed=seed)
    spreads = {
        name: spread_of(p, values, seed=seed, missing=why or missing)
        for name, (p, values, missing) in found.items()
    }
    return Latency(
        success_rate=len(good) / len(records) if records else None,
        one_token=sum(1 for r in good if r.completion_tokens == 1),
        throughput=throughput(records, load, slo),
        **spreads,
    )


def _known(prompts: Codes, values: Iterable[float | None]) -> tuple[Codes, Array]:
    """The values there are, and their prompts."""
    found = list(values)
    if found.count(None) == len(found):  # most loads have no value of most kinds
        return prompts[:0], np.empty(0)
    every = np.array(found, dtype=np.float64)  # None becomes NaN
    there = ~np.isnan(every)
    return prompts[there], every[there]


def _sums(prompts: Codes, values: Array) -> Array:
    """The sum and the number of the values of each prompt that has one."""
    numbers = np.bincount(prompts).astype(np.float64)
    sums = np.column_stack([np.bincount(prompts, weights=values), numbers])
    return sums[numbers > 0]


def spread_of(prompts: Codes, values: Array, *, seed: int, missing: str) -> Spread:
    """The spread of ``values``, whose prompts are numbered; ``missing`` is the reason for none."""
    if not len(values):
        return Spread(reason=missing)
    drawn = resample_sums(_sums(prompts, values), names=("sum", "n"), seed=seed)
    mean = drawn.figure(lambda s: s["sum"] / s["n"])
    ordered = np.sort(values)
    return Spread(
        count=len(values),
        mean=mean.value,
        low=mean.low,
        high=mean.high,
        p50=quantile(ordered, 0.5),
        p90=quantile(ordered, 0.9),
        p95=quantile(ordered, 0.95),
        p99=quantile(ordered, 0.99),
        reason=f"of {len(values)} values" if len(values) < 100 else "",
    )
