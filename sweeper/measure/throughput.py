"""Throughput and goodput of one point inside its measuring window.

The measuring window is where the load was what was asked for. It begins with the first request. A
closed load's ends when the first slot stays empty: at the first conversation to end after the last
first turn was sent (without further turns, the first answer after the last request). An open load's
ends when the last first turn is sent: turns that follow are no arrivals. Requests still under way
are waited for and have their latencies counted in; of their tokens only those inside the window
count.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sweeper.measure.times import SHARED_STREAM, e2e_ms, late_ms, tpot_ms, ttft_ms
from sweeper.values import Load, RequestRecord, Slo

ENOUGH = 10_000
"""Conversations from which on those that ended before the last one began are forgotten."""
LATE_MS = 5.0
"""A P99 of sending later than planned above which an open load is not the one asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """What was done inside the measuring window, per second of it.

    ``goodput`` counts the requests that kept every limit of the SLO; ``slo_share`` is their share
    of all requests, failed ones included. Both are ``None`` without an SLO, and where no answer
    has what it limits, with ``slo_reason``. ``reason`` says why there is no window.
    """

    window_s: float | None = None
    requests_per_s: float | None = None
    output_tokens_per_s: float | None = None
    total_tokens_per_s: float | None = None
    goodput: float | None = None
    slo_share: float | None = None
    reason: str = ""
    slo_reason: str = ""


def measuring_window(records: Sequence[RequestRecord], load: Load) -> tuple[int, int] | None:
    """Its two ends in ns as records count them; ``None`` when it has no length."""
    if not records:
        return None
    start, end = min(r.sent_ns for r in records), _end(records, load)
    return (start, end) if end > start else None


def _end(records: Iterable[RequestRecord], load: Load) -> int:
    """When the load was no more the one asked for; records may be many, and are not kept."""
    if not load.overlapping:
        return max(r.done_ns for r in records)
    last, ends = 0, dict[tuple[str, int], int]()  # of each conversation, its last answer
    for record in records:
        last = last if record.turn else max(last, record.sent_ns)
        of = record.prompt_id, record.repeat
        ends[of] = max(ends.get(of, 0), record.done_ns)
        if len(ends) > ENOUGH:
            ends = {name: done for name, done in ends.items() if done > last}
    if load.name == "open" or (load.name == "ramp" and load.ramp_of == "rate"):
        return last
    return min((done for done in ends.values() if done > last), default=last)


def throughput(records: Sequence[RequestRecord], load: Load, slo: Slo | None = None) -> Throughput:
    """Rates inside the window; a request counts by the share of its time that lies inside.

    Repeats that were sent as loads of their own have a window each, and the rates are those of all
    windows together. The answers to a prompt in a batch of rollouts are numbered like repeats, and
    are none.
    """
    apart = load.by_repeat and not load.batches
    repeats = sorted({r.repeat for r in records}) if apart else []
    if len(repeats) < 2:
        return _of_one(records, load, slo)
    each = [[r for r in records if r.repeat == repeat] for repeat in repeats]
    return _joined([(_of_one(part, load, slo), len(part)) for part in each])


def _joined(parts: Sequence[tuple[Throughput, int]]) -> Throughput:
    """Rates of several windows, weighted by their lengths; a share by numbers of requests."""
    there = [(part, count) for part, count in parts if part.window_s]
    if not there:
        return parts[0][0]
    whole, total = sum(p.window_s or 0.0 for p, _ in there), sum(count for _, count in there)

    def rate(name: str) -> float | None:
        values = [(getattr(p, name), p.window_s or 0.0) for p, _ in there]
        if any(value is None for value, _ in values):
            return None
        return float(sum(value * seconds for value, seconds in values) / whole)

    shares = [(p.slo_share, count) for p, count in there]
    known = all(share is not None for share, _ in shares)
    return Throughput(
        window_s=whole,
        requests_per_s=rate("requests_per_s"),
        output_tokens_per_s=rate("output_tokens_per_s"),
        total_tokens_per_s=rate("total_tokens_per_s"),
        goodput=rate("goodput"),
        slo_share=sum((s or 0.0) * c for s, c in shares) / total if known else None,
        slo_reason=next((p.slo_reason for p, _ in there if p.slo_reason), ""),
    )


def _of_one(records: Sequence[RequestRecord], load: Load, slo: Slo | None) -> Throughput:
    window = measuring_window(records, load)
    good = [record for record in records if not record.error]
    if window is None or not good:
        return Throughput(reason="no request succeeded" if not good else "one request, no window")
    start, end = window
    seconds = (end - start) / 1e9
    limits = slo.limits if slo else {}
    unknown = unmeasured(good, limits)
    kept, has = [r for r in good if limits and keeps(r, limits)], bool(limits) and not unknown
    requests, output, prompt = map(sum, zip(*(_done_by(r, end) for r in good), strict=True))
    return Throughput(
        window_s=seconds,
        requests_per_s=requests / seconds,
        output_tokens_per_s=output / seconds,
        total_tokens_per_s=(output + prompt) / seconds,
        goodput=sum(_inside(r, end) for r in kept) / seconds if has else None,
        slo_share=len(kept) / len(records) if has else None,
        slo_reason=unknown,
    )


def unmeasured(good: Iterable[RequestRecord], limits: Iterable[str]) -> str:
    """Which limit is on a figure that none of these answers has, and why; empty when none is."""
    needed = [name for name in ("ttft_ms", "tpot_ms") if name in limits]
    streamed = [record for record in good if record.chunk_ns] if needed else []
    if needed and not streamed:
        return f"{needed[0][:4].upper()} is not measured: the answers are not streamed"
    if "tpot_ms" in needed and all(record.answers > 1 for record in streamed):
        return f"TPOT is not measured: {SHARED_STREAM}"
    return ""


def keeps(record: RequestRecord, limits: Mapping[str, float]) -> bool:
    """Whether an answer kept every limit; a limit on what the answer does not have is broken,
    except that an answer of one token has no TPOT to break."""
    measured = {"ttft_ms": ttft_ms(record), "tpot_ms": tpot_ms(record), "e2e_ms": e2e_ms(record)}
    if record.chunk_ns and record.completion_tokens == 1:
        measured["tpot_ms"] = 0.0
    found = ((measured[name], limit) for name, limit in limits.items())
    return all(value is not None and value <= limit for value, limit in found)


def _done_by(record: RequestRecord, end: int) -> tuple[float, float, float]:
    """What of a request was done at ``end``: its share, and tokens of the answer and the prompt."""
    if record.done_ns <= end:  # most of them: all of it
        return 1.0, record.completion_tokens or 0, record.prompt_tokens or 0
    inside = _inside(record, end)
    return inside, _tokens_by(record, inside, end), _prompt_read_by(record, inside, end)


def _inside(record: RequestRecord, end: int) -> float:
    """The share of a request's time before ``end``."""
    length = record.done_ns - record.sent_ns
    return min(1.0, (end - record.sent_ns) / length) if length > 0 else 1.0


def _tokens_by(record: RequestRecord, inside: float, end: int) -> float:
    """Tokens that had arrived at ``end``, taking the chunks of an answer as equally long."""
    tokens = record.completion_tokens or 0
    if not record.chunk_ns:
        return tokens * inside
    arrived = np.cumsum(record.chunk_ns) <= end - record.sent_ns
    return tokens * float(arrived.mean())


def _prompt_read_by(record: RequestRecord, inside: float, end: int) -> float:
    """Tokens of the prompt that had been read."""
    share = inside if record.first_ns is None else float(record.first_ns <= end)
    return (record.prompt_tokens or 0) * share


def load_warnings(records: Iterable[RequestRecord], load: Load) -> list[str]:
    """Where the load that was sent is not the load that was asked for; ``records`` are gone through
    twice."""
    sent, late = False, array("d")
    for record in records:
        sent = True
        if (by := late_ms(record)) is not None:
            late.append(by)
    if not sent:
        return ["the load sent no request"]
    warnings, wanted = [], load.duration_s
    by_time = bool(wanted) and load.requests is None and not load.cycle
    if wanted and by_time and (seconds := _end(records, load) / 1e9) < 0.9 * wanted:
        warnings.append(
            f"the prompts ran out: from {seconds:.1f} s of {wanted:g} s on it was less than the "
            "load asked for; use more prompts, or load.cycle=true to send them again"
        )
    if late and (p99 := float(np.percentile(late, 99))) > LATE_MS:
        warnings.append(f"requests were sent late, P99 {p99:.1f} ms: the client did not keep up")
    return warnings
