"""Latency, throughput and goodput of one point under its load; pure functions of its records.

Definitions, for a streamed answer of n tokens (n from ``usage``, never from chunks):

- TTFT: sending to the first byte of the first event with tokens.
- E2E: sending to the first byte of the last event with tokens; not streamed, to the last byte.
- TPOT: (E2E - TTFT) / (n - 1); answers of one token have none and are counted.
- chunk gap: between two events with tokens. One event may bring several tokens, so a gap is not
  a time per token, and gaps must not be compared between methods.

The measuring window is where the load was what was asked for. It begins with the first request. A
closed load's ends when the first slot stays empty: at the first answer after the last request was
sent. An open load's ends when the last request is sent. Requests still under way are waited for and
have their latencies counted in; of their tokens only those inside the window count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweeper.values import Load, RequestRecord, Slo

Array = NDArray[np.float64]

RESAMPLES = 2000
_CELLS_AT_ONCE = 2_000_000
LATE_MS = 5.0
"""A P99 of sending later than planned above which an open load is not the one asked for."""


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
class Throughput:
    """What was done inside the measuring window, per second of it.

    ``goodput`` counts the requests that kept every limit of the SLO; ``slo_share`` is their share
    of all requests, failed ones included. Both are ``None`` without an SLO. ``reason`` says why
    there is no window.
    """

    window_s: float | None = None
    requests_per_s: float | None = None
    output_tokens_per_s: float | None = None
    total_tokens_per_s: float | None = None
    goodput: float | None = None
    slo_share: float | None = None
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
        chunk_gap_ms=spread(_gaps_ms, not_streamed),
        e2e_ms=spread(lambda r: [e2e_ms(r)], why),
        queue_ms=spread(lambda r: [r.queue_ms], silent),
        prefill_ms=spread(lambda r: [r.prefill_ms], silent),
        decode_ms=spread(lambda r: [r.decode_ms], silent),
        late_ms=spread(lambda r: [_late_ms(r)], "the load plans no times"),
        one_token=sum(1 for r in good if r.completion_tokens == 1),
        throughput=throughput(records, load, slo),
    )


def ttft_ms(record: RequestRecord) -> float | None:
    """``None`` where the answer was not streamed."""
    return record.chunk_ns[0] / 1e6 if record.chunk_ns else None


def e2e_ms(record: RequestRecord) -> float:
    total = sum(record.chunk_ns) if record.chunk_ns else record.done_ns - record.sent_ns
    return total / 1e6


def tpot_ms(record: RequestRecord) -> float | None:
    """``None`` for answers of one token and for those that were not streamed."""
    tokens = record.completion_tokens or 0
    if not record.chunk_ns or tokens < 2:
        return None
    return sum(record.chunk_ns[1:]) / 1e6 / (tokens - 1)


def _gaps_ms(record: RequestRecord) -> list[float]:
    return [gap / 1e6 for gap in (record.chunk_ns or ())[1:]]


def _late_ms(record: RequestRecord) -> float | None:
    return None if record.due_ns is None else (record.sent_ns - record.due_ns) / 1e6


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


def measuring_window(records: Sequence[RequestRecord], load: Load) -> tuple[int, int] | None:
    """Its two ends in ns as records count them; ``None`` when it has no length."""
    if not records:
        return None
    start, last = min(r.sent_ns for r in records), max(r.sent_ns for r in records)
    if not load.overlapping:
        end = max(r.done_ns for r in records)
    elif load.name == "open" or (load.name == "ramp" and load.ramp_of == "rate"):
        end = last
    else:
        end = min(r.done_ns for r in records if r.done_ns > last)
    return (start, end) if end > start else None


def throughput(records: Sequence[RequestRecord], load: Load, slo: Slo | None = None) -> Throughput:
    """Rates inside the window; a request counts by the share of its time that lies inside."""
    window = measuring_window(records, load)
    good = [record for record in records if not record.error]
    if window is None or not good:
        return Throughput(reason="no request succeeded" if not good else "one request, no window")
    start, end = window
    seconds = (end - start) / 1e9
    kept = [r for r in good if slo and slo.limits and keeps(r, slo)]
    has = slo is not None and bool(slo.limits)
    output = sum(_tokens_by(r, end) for r in good)
    prompt = sum((r.prompt_tokens or 0) * _prompt_read_by(r, end) for r in good)
    return Throughput(
        window_s=seconds,
        requests_per_s=sum(_inside(r, end) for r in good) / seconds,
        output_tokens_per_s=output / seconds,
        total_tokens_per_s=(output + prompt) / seconds,
        goodput=sum(_inside(r, end) for r in kept) / seconds if has else None,
        slo_share=len(kept) / len(records) if has else None,
    )


def keeps(record: RequestRecord, slo: Slo) -> bool:
    """Whether an answer kept every limit; a limit on what the answer does not have is broken,
    except that an answer of one token has no TPOT to break."""
    measured = {"ttft_ms": ttft_ms(record), "tpot_ms": tpot_ms(record), "e2e_ms": e2e_ms(record)}
    if record.chunk_ns and record.completion_tokens == 1:
        measured["tpot_ms"] = 0.0
    found = ((measured[name], limit) for name, limit in slo.limits.items())
    return all(value is not None and value <= limit for value, limit in found)


def _inside(record: RequestRecord, end: int) -> float:
    """The share of a request's time before ``end``."""
    length = record.done_ns - record.sent_ns
    return min(1.0, (end - record.sent_ns) / length) if length > 0 else 1.0


def _tokens_by(record: RequestRecord, end: int) -> float:
    """Tokens that had arrived at ``end``, taking the chunks of an answer as equally long."""
    tokens = record.completion_tokens or 0
    if not record.chunk_ns:
        return tokens * _inside(record, end)
    arrived = np.cumsum(record.chunk_ns) <= end - record.sent_ns
    return tokens * float(arrived.mean())


def _prompt_read_by(record: RequestRecord, end: int) -> float:
    return _inside(record, end) if record.first_ns is None else float(record.first_ns <= end)


def load_warnings(records: Sequence[RequestRecord], load: Load) -> list[str]:
    """Where the load that was sent is not the load that was asked for."""
    if not records:
        return ["the load sent no request"]
    warnings = []
    last = max(r.sent_ns for r in records) / 1e9
    wanted = load.duration_s
    if wanted and load.requests is None and not load.cycle and last < 0.9 * wanted:
        warnings.append(
            f"the prompts ran out: the last request was sent after {last:.1f} s of {wanted:g} s; "
            "use more prompts, or load.cycle=true to send them again"
        )
    late = [late for r in records if (late := _late_ms(r)) is not None]
    if late and (p99 := float(np.percentile(late, 99))) > LATE_MS:
        warnings.append(f"requests were sent late, P99 {p99:.1f} ms: the client did not keep up")
    return warnings
