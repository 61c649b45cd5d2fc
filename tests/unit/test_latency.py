"""Latencies, throughput and goodput of records made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sweeper.judge.latency import latency, measure, spread_of, values_of
from sweeper.measure.throughput import ENOUGH, load_warnings, measuring_window, throughput
from sweeper.values import Load, RequestRecord, Slo
from tests.unit.sweeps import record

CLOSED = Load(name="closed", concurrency=2, stream=True)
OPEN = Load(name="open", rate=2.0, stream=True)
MS = 1_000_000


def streamed(
    prompt: str, *, tokens: int, chunks_ms: tuple[float, ...], sent_s: float = 0.0, **changes: Any
) -> RequestRecord:
    """Sent at ``sent_s``, chunks with these gaps; the last byte comes with the last chunk."""
    sent, gaps = round(sent_s * 1e9), tuple(round(gap * MS) for gap in chunks_ms)
    return replace(
        record(prompt, tokens=tokens, steps=None),
        sent_ns=sent,
        first_ns=sent + gaps[0],
        done_ns=sent + sum(gaps),
        chunk_ns=gaps,
        **changes,
    )


def test_tpot_is_per_token_and_chunk_gaps_are_not() -> None:
    """10 ms for one token against 20 ms for four: twice as fast, though the gaps are longer."""
    base = streamed("a", tokens=41, chunks_ms=(50, *(10,) * 40))
    spec = streamed("a", tokens=41, chunks_ms=(50, *(20,) * 10))
    one, other = latency(measure([base]), CLOSED), latency(measure([spec]), CLOSED)
    assert (one.tpot_ms.p50, other.tpot_ms.p50) == (10.0, 5.0)
    assert (one.chunk_gap_ms.p50, other.chunk_gap_ms.p50) == (10.0, 20.0)
    assert (one.ttft_ms.p50, other.ttft_ms.p50) == (50.0, 50.0)
    assert (one.e2e_ms.p50, other.e2e_ms.p50) == (450.0, 250.0)


def test_answers_of_one_token_have_no_tpot_and_are_counted() -> None:
    short, long = (
        streamed("a", tokens=1, chunks_ms=(30,)),
        streamed("b", tokens=3, chunks_ms=(30, 4, 4)),
    )
    found = latency(measure([short, long]), CLOSED)
    assert (found.one_token, found.tpot_ms.count, found.tpot_ms.mean) == (1, 1, 4.0)
    assert found.ttft_ms.count == 2
    alone = latency(measure([short]), CLOSED)
    assert (alone.tpot_ms.p50, alone.tpot_ms.reason) == (None, "no answer had two tokens")


def test_what_was_not_streamed_has_request_times_only() -> None:
    found = latency(measure([record("a", seconds=2.0)]), Load(name="sequential"))
    assert found.e2e_ms.p50 == 2000.0
    for spread in (found.ttft_ms, found.tpot_ms, found.chunk_gap_ms):
        assert (spread.count, spread.p99) == (0, None)
        assert spread.reason == "the answers were not streamed"
    assert found.queue_ms.reason == "the server does not report it"


def test_percentiles_interpolate_and_say_how_few_values_they_are_of() -> None:
    values = [float(v) for v in range(1, 101)]
    many = spread_of(values_of(np.arange(len(values)), np.array(values, dtype=float)), seed=0)
    assert (many.p50, many.p90, many.p95, many.p99) == pytest.approx((50.5, 90.1, 95.05, 99.01))
    assert many.reason == ""
    few = spread_of(values_of(np.array([0, 0, 1]), np.array([1.0, 2.0, 3.0])), seed=0)
    assert (few.p50, few.reason) == (2.0, "of 3 values")


def test_the_interval_keeps_the_values_of_a_prompt_together() -> None:
    dice = np.random.default_rng(0)
    means = dice.normal(100, 10, size=40)
    values, together = np.repeat(means, 25), np.repeat(np.arange(40), 25)
    apart = np.arange(len(values))
    narrow, wide = (spread_of(values_of(p, values), seed=1) for p in (apart, together))
    assert narrow.mean == pytest.approx(wide.mean)
    assert wide.low and wide.high and narrow.low and narrow.high
    assert (wide.high - wide.low) / (narrow.high - narrow.low) == pytest.approx(5, rel=0.1)
    assert wide.low < 100 < wide.high
    one = spread_of(values_of(np.array([0, 0]), np.array([1.0, 2.0])), seed=0)
    assert (one.low, one.high) == (None, None)


def test_failures_count_against_success_only() -> None:
    bad = replace(record("x", seconds=0.001), error="HTTP 503: busy", completion_tokens=None)
    found = latency(measure([streamed("a", tokens=3, chunks_ms=(30, 4, 4)), bad, bad, bad]), CLOSED)
    assert (found.success_rate, found.e2e_ms.count) == (0.25, 1)
    none = latency(measure([bad, bad]), CLOSED)
    assert none.success_rate == 0.0
    assert (none.ttft_ms.reason, none.throughput.reason) == ("no request succeeded",) * 2
    assert none.throughput.output_tokens_per_s is None


def steady(count: int, *, slots: int, seconds: float) -> list[RequestRecord]:
    """A closed loop whose answers all take ``seconds``: one token every 100 ms."""
    chunks = round(seconds * 10)
    return [
        streamed(str(n), tokens=chunks, chunks_ms=(100,) * chunks, sent_s=n // slots * seconds)
        for n in range(count)
    ]


def test_a_closed_window_ends_when_the_first_slot_stays_empty() -> None:
    records = steady(4, slots=2, seconds=1.0)
    records.append(streamed("late", tokens=40, chunks_ms=(100,) * 40, sent_s=0.0))
    assert measuring_window(records, CLOSED) == (0, 2_000_000_000)
    found = throughput(records, CLOSED)
    assert found.output_tokens_per_s == pytest.approx(30.0)  # three slots, ten tokens a second each
    assert found.requests_per_s == pytest.approx(2.25)
    assert found.total_tokens_per_s == pytest.approx(30.0 + 5 * 5 / 2)


def test_a_window_over_many_requests_forgets_what_ended_before_the_last_began() -> None:
    records = [
        replace(record(str(n)), sent_ns=n // 2 * 10, done_ns=n // 2 * 10 + 10)
        for n in range(2 * ENOUGH + 7)
    ]
    assert measuring_window(records, CLOSED) == (0, (ENOUGH + 4) * 10)


def conversation(name: str, sent_s: float, turns: int) -> list[RequestRecord]:
    """Turns of a second each, one after another, ten tokens a turn."""
    return [
        streamed(name, tokens=10, chunks_ms=(100,) * 10, sent_s=sent_s + turn, turn=turn)
        for turn in range(turns)
    ]


def test_a_slot_that_goes_on_with_a_conversation_is_not_empty() -> None:
    """The first slot has nothing left after 4 s; the second is in its conversation until 9 s."""
    records = [*conversation("a", 0.0, 2), *conversation("b", 2.0, 2), *conversation("c", 0.0, 9)]
    assert measuring_window(records, CLOSED) == (0, 4_000_000_000)
    assert throughput(records, CLOSED).output_tokens_per_s == pytest.approx(20.0)


def test_a_failed_turn_ends_its_conversation() -> None:
    failed = replace(conversation("a", 0.0, 1)[0], error="HTTP 500")
    records = [failed, *conversation("b", 1.0, 3), *conversation("c", 0.0, 9)]
    assert measuring_window(records, CLOSED) == (0, 4_000_000_000)


def test_turns_that_follow_are_no_arrivals() -> None:
    records = [one for n in range(5) for one in conversation(str(n), n * 0.5, 3)]
    found = throughput(records, OPEN)
    assert found.window_s == 2.0
    # Tokens at 2 s: two conversations at 20, 15, 10 … of their second turn, the last just began.
    assert found.output_tokens_per_s == pytest.approx((20 + 15 + 10 + 5 + 0) / 2)


def test_fewer_requests_than_slots_still_have_a_window() -> None:
    found = throughput(steady(2, slots=4, seconds=1.0), CLOSED)
    assert (found.window_s, found.output_tokens_per_s) == (1.0, 20.0)


def test_an_open_window_ends_with_the_last_request_sent() -> None:
    records = [
        streamed(str(n), tokens=10, chunks_ms=(100,) * 10, sent_s=n * 0.5) for n in range(11)
    ]
    found = throughput(records, OPEN)
    assert found.window_s == 5.0
    assert found.output_tokens_per_s == pytest.approx((9 * 10 + 5) / 5)
    assert throughput(records[:1], OPEN).reason == "one request, no window"


def test_goodput_counts_answers_that_keep_every_limit() -> None:
    good = streamed("a", tokens=11, chunks_ms=(100, *(10,) * 10))
    slow = streamed("b", tokens=11, chunks_ms=(100, *(10,) * 9, 500))
    late = streamed("c", tokens=11, chunks_ms=(300, *(10,) * 10))
    one = streamed("d", tokens=1, chunks_ms=(100,))
    failed = replace(record("e", seconds=0.2), error="HTTP 503: busy")
    slo = Slo(ttft_ms=200.0, tpot_ms=20.0)
    load = Load(name="sequential")
    found = throughput([good, slow, late, one, failed], load, slo)
    assert found.slo_share == 2 / 5
    assert found.goodput == pytest.approx(2 / found.window_s if found.window_s else None)
    assert throughput([good], load, Slo(e2e_ms=150.0)).goodput == 0.0
    assert throughput([good], load, Slo()).goodput is None


def test_times_the_server_reports_and_lateness_are_summed_up() -> None:
    record_ = streamed(
        "a", tokens=2, chunks_ms=(30, 4), sent_s=1.0, due_ns=990 * MS, queue_ms=7.0, prefill_ms=20.0
    )
    found = latency(measure([record_]), OPEN)
    assert (found.queue_ms.p50, found.prefill_ms.p50, found.late_ms.p50) == (7.0, 20.0, 10.0)
    assert found.decode_ms.p50 is None


def ran_out(seconds: float, wanted: float) -> str:
    return (
        f"the prompts ran out: from {seconds:.1f} s of {wanted:g} s on it was less than the load "
        "asked for; use more prompts, or load.cycle=true to send them again"
    )


def test_prompts_ran_out_when_a_slot_has_no_conversation_left() -> None:
    """Turns of one long conversation are not the load; conversations that fill all slots are."""
    ten = replace(CLOSED, duration_s=10.0)
    one_goes_on = [*conversation("a", 0, 2), *conversation("b", 2, 1), *conversation("c", 0, 10)]
    assert load_warnings(one_goes_on, ten) == [ran_out(3, 10)]
    both_go_on = [*conversation("a", 0, 10), *conversation("b", 0, 10)]
    assert load_warnings(both_go_on, ten) == []
    arrived = [one for n in range(4) for one in conversation(str(n), n, 8)]
    assert load_warnings(arrived, replace(OPEN, duration_s=10.0)) == [ran_out(3, 10)]


def test_a_load_that_was_not_what_was_asked_for_is_said() -> None:
    records = steady(4, slots=2, seconds=1.0)
    assert load_warnings(records, CLOSED) == []
    assert load_warnings(records, replace(CLOSED, duration_s=10.0)) == [ran_out(2, 10)]
    assert load_warnings(records, replace(OPEN, duration_s=10.0)) == [ran_out(1, 10)]
    late = [replace(r, due_ns=r.sent_ns - 12 * MS) for r in records]
    assert load_warnings(late, OPEN) == [
        "requests were sent late, P99 12.0 ms: the client did not keep up"
    ]
    assert load_warnings([], OPEN) == ["the load sent no request"]
