"""Latencies of one point under its load; pure functions of its records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweeper.judge.bootstrap import Array, draw_ahead, quantile, resample_sums, sum_by_prompt
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


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """Values of one kind, the numbers of their prompts, and ``sums``: the sum and the number of the
    values of each prompt that has one. ``missing`` is why there are none."""

    prompts: Codes
    values: Array
    sums: Array
    missing: str


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What the requests of one point took, by kind. ``totals`` has one row a prompt: successful
    requests, seconds of request time, completion tokens."""

    records: Sequence[RequestRecord]
    good: Sequence[RequestRecord]
    kinds: Mapping[str, Values]
    totals: Array

    @property
    def tables(self) -> tuple[Array, ...]:
        """What :func:`latency` and :func:`sweeper.judge.timing.timing` draw."""
        return (self.totals, *(one.sums for one in self.kinds.values() if len(one.values)))


def measure(records: Sequence[RequestRecord]) -> Measured:
    """All values of the successful requests among ``records``."""
    good = [record for record in records if not record.error]
    index: dict[str, int] = {}
    prompts = np.array([index.setdefault(r.prompt_id, len(index)) for r in good], dtype=np.int64)
    why = "" if good else "no request succeeded"
    not_streamed, silent = "the answers were not streamed", "the server does not report it"
    streamed = [r for r in good if r.chunk_ns]
    of_all = SHARED_STREAM if any(r.answers > 1 for r in streamed) else ""
    one_token = "no answer had two tokens" if streamed else not_streamed
    reported: dict[str, tuple[Iterable[float | None], str]] = {
        "ttft_ms": (map(ttft_ms, good), not_streamed),
        "tpot_ms": (map(tpot_ms, good), of_all or one_token),
        "e2e_ms": (map(e2e_ms, good), ""),
        "queue_ms": ((r.queue_ms for r in good), silent),
        "prefill_ms": ((r.prefill_ms for r in good), silent),
        "decode_ms": ((r.decode_ms for r in good), silent),
        "late_ms": (map(late_ms, good), "the load plans no times"),
    }
    kinds = {
        name: values_of(*_known(prompts, values), why or missing)
        for name, (values, missing) in reported.items()
    }
    gaps = [chunk_gaps_ns(r) for r in streamed]
    every = np.fromiter(chain.from_iterable(gaps), dtype=np.float64) / 1e6
    codes = np.array([index[r.prompt_id] for r in streamed], dtype=np.int64)
    whose = np.repeat(codes, np.array([len(each) for each in gaps], dtype=np.int64))
    kinds["chunk_gap_ms"] = values_of(whose, every, why or of_all or not_streamed)
    return Measured(records=records, good=good, kinds=kinds, totals=_totals(good))


def latency(measured: Measured, load: Load, *, slo: Slo | None = None, seed: int = 0) -> Latency:
    """All figures of one point; failed requests count only against the success rate."""
    records, good = measured.records, measured.good
    draw_ahead(measured.tables, seed=seed)
    spreads = {name: spread_of(values, seed=seed) for name, values in measured.kinds.items()}
    return Latency(
        success_rate=len(good) / len(records) if records else None,
        one_token=sum(1 for r in good if r.completion_tokens == 1),
        throughput=throughput(records, load, slo),
        **spreads,
    )


def values_of(prompts: Codes, values: Array, missing: str = "") -> Values:
    """``values``, whose prompts are numbered."""
    numbers = np.bincount(prompts).astype(np.float64)
    sums = np.column_stack([np.bincount(prompts, weights=values), numbers])
    return Values(prompts, values, sums[numbers > 0], missing)


def spread_of(values: Values, *, seed: int) -> Spread:
    """The spread of ``values``."""
    count = len(values.values)
    if not count:
        return Spread(reason=values.missing)
    drawn = resample_sums(values.sums, names=("sum", "n"), seed=seed)
    mean = drawn.figure(lambda s: s["sum"] / s["n"])
    ordered = np.sort(values.values)
    return Spread(
        count=count,
        mean=mean.value,
        low=mean.low,
        high=mean.high,
        p50=quantile(ordered, 0.5),
        p90=quantile(ordered, 0.9),
        p95=quantile(ordered, 0.95),
        p99=quantile(ordered, 0.99),
        reason=f"of {count} values" if count < 100 else "",
    )


def _known(prompts: Codes, values: Iterable[float | None]) -> tuple[Codes, Array]:
    """The values there are, and their prompts."""
    found = list(values)
    if found.count(None) == len(found):  # most loads have no value of most kinds
        return prompts[:0], np.empty(0)
    every = np.array(found, dtype=np.float64)  # None becomes NaN
    there = ~np.isnan(every)
    return prompts[there], every[there]


def _totals(good: Sequence[RequestRecord]) -> Array:
    seconds = np.array([r.done_ns - r.sent_ns for r in good], dtype=np.float64) / 1e9
    tokens = np.array([r.completion_tokens or 0 for r in good], dtype=np.float64)
    table = np.column_stack([np.ones(len(good)), seconds, tokens])
    return sum_by_prompt([r.prompt_id for r in good], table)[1]
