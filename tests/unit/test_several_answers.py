"""Several answers to one request: acceptance from the server's counters, and called that."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from sweeper.drive.events import read_stream
from sweeper.judge.acceptance import acceptance
from sweeper.judge.compare import compare
from sweeper.judge.drafts import count
from sweeper.judge.latency import latency, measure
from sweeper.judge.speedup import paired
from sweeper.judge.totals import OF_COUNTERS, with_totals
from sweeper.measure.checks import cross_check, identity_violation
from sweeper.measure.counters import Counters
from sweeper.values import Load, RequestRecord, Slo, SpecCounts
from tests.unit.sweeps import GREEDY, Made, folder, point, record

CLOSED = Load(name="closed", concurrency=4, stream=True)

NONE = Counters(
    started=1.0, verify_steps=None, drafted=None, accepted=None, decode_steps=None,
    decode_seconds=None, completion_tokens=None, prompt_tokens=None, cached_tokens=None,
    preemptions=None, running=None, waiting=None,
)  # fmt: skip
CHANGE = replace(
    NONE, verify_steps=10.0, drafted=40.0, accepted=20.0, decode_steps=40.0,
    completion_tokens=64.0, accepted_at=(8.0, 6.0, 4.0, 2.0),
)  # fmt: skip
RECORDS = tuple(record(f"p{n}", tokens=32, steps=None, answers=2) for n in range(2))


def counted(**changes: Any) -> dict[str, Any]:
    return {"change": asdict(replace(CHANGE, **changes))}


def test_acceptance_of_several_answers_is_that_of_the_counters() -> None:
    found = acceptance(count(RECORDS, gamma=4, baseline=False), seed=0)
    assert found.state == "no per-request metrics"
    found = with_totals(found, counted(), RECORDS)
    assert (found.state, found.acceptance_rate.value) == ("drafted", 0.5)
    assert found.acceptance_rate.reason == OF_COUNTERS
    assert found.mean_acceptance_length.value == 3.0
    assert found.draft_coverage.value == 0.25
    assert found.tokens_per_decode_step.value == (64 - 4) / 40
    assert [f.value for f in found.survival] == [0.8, 0.6, 0.4, 0.2]


def test_five_hits_in_a_hundred_steps_are_not_five_tokens_a_step_under_load_either() -> None:
    spec = SpecCounts(verify_steps=5, drafted=20, accepted=20, histogram=(0, 0, 0, 0, 5))
    records = (record("p", tokens=121, steps=None, spec=spec),)
    found = acceptance(count(records, gamma=4, baseline=False), seed=0)
    assert found.tokens_per_decode_step.value is None
    totals = counted(
        verify_steps=5.0, drafted=20.0, accepted=20.0, decode_steps=100.0, completion_tokens=121.0
    )
    found = with_totals(found, totals, records)
    assert found.mean_acceptance_length.value == 5.0
    assert found.tokens_per_decode_step.value == 1.2
    assert found.draft_coverage.value == 0.05


def test_counters_with_steps_of_failed_requests_are_not_used() -> None:
    records = (*RECORDS, record("x", error="HTTP 500"))
    found = acceptance(count(records, gamma=4, baseline=False), seed=0)
    assert with_totals(found, counted(), records) == found
    assert with_totals(found, {}, RECORDS) == found


def test_the_tables_say_where_acceptance_comes_from(tmp_path: Path) -> None:
    base = Made(point=point("none", 0), records=RECORDS)
    arm = Made(point=point("ngram", 4), records=RECORDS, counters=counted())
    found = compare(folder(tmp_path, base, arm))[1]
    assert found.acceptance.acceptance_rate.value == 0.5
    assert any("from the server's counters" in note for note in found.notes)


def test_the_server_reads_a_prompt_once_for_every_answer() -> None:
    change = replace(CHANGE, prompt_tokens=20.0, verify_steps=None, drafted=None, accepted=None)
    assert cross_check(RECORDS, change)["agree"] is True


def test_every_answer_has_a_token_of_its_own_from_prefill() -> None:
    spec = SpecCounts(verify_steps=4, drafted=16, accepted=8)
    good = record("p", tokens=2 + 10 + 8, steps=10, spec=spec, answers=2)
    assert identity_violation(good, 4) is None
    assert identity_violation(replace(good, completion_tokens=21), 4) is not None


@pytest.mark.parametrize("compact", [True, False])
def test_of_streamed_answers_the_first_is_kept_and_all_chunks_count(compact: bool) -> None:
    def event(index: int, text: str, ids: list[int]) -> str:
        choice = {"index": index, "text": text, "token_ids": ids, "finish_reason": None}
        separators = (",", ":") if compact else None
        return f"data: {json.dumps({'choices': [choice]}, separators=separators)}\n\n"

    usage = json.dumps({"choices": [], "usage": {"completion_tokens": 4}})
    events = [event(0, "a", [1]), event(1, "x", [9]), event(0, "b", [2]), event(1, "y", [8])]
    body = "".join([*events, f"data: {usage}\n\n", "data: [DONE]\n\n"]).encode()
    found = read_stream(body, [5], [len(body)])
    assert found.error == ""
    assert len(found.chunks_ns) == 4
    (choice,) = found.answer["choices"]
    assert (choice["text"], choice["token_ids"]) == ("ab", [1, 2])


def test_every_answer_may_end_in_the_middle_of_a_draft() -> None:
    spec = SpecCounts(verify_steps=4, drafted=16, accepted=8)
    closes = record("p", tokens=2 + 10 + 8 - 6, steps=10, spec=spec, answers=2)  # T = 6 of 2γ
    off = replace(closes, completion_tokens=21)
    found = acceptance(count((closes, off), gamma=4, baseline=False), seed=0)
    assert (found.checked, found.violations) == (2, 1)
    assert identity_violation(off, 4) == "p: 21 tokens, but 2 + S 4 + A 8 + Z 6 = 20"


def streamed(prompt: str, gap_ms: int) -> RequestRecord:
    """Two answers of 21 tokens in one stream, a chunk of each every ``gap_ms``."""
    gaps = (100_000_000, *(gap_ms * 1_000_000, 0) * 20)
    made = record(prompt, tokens=42, steps=None, answers=2, seconds=sum(gaps) / 1e9)
    return replace(made, first_ns=gaps[0], chunk_ns=gaps)


def test_answers_that_share_a_stream_have_no_tpot_and_no_chunk_gaps() -> None:
    found = latency(measure([streamed("p", 10)]), CLOSED, slo=Slo(tpot_ms=6.0))
    assert found.ttft_ms.p50 == 100.0
    for spread in (found.tpot_ms, found.chunk_gap_ms):
        assert (spread.p50, spread.reason) == (None, "several answers share a stream")
    assert (found.throughput.goodput, found.throughput.slo_share) == (None, None)
    assert found.throughput.slo_reason == "TPOT is not measured: several answers share a stream"


def test_their_speed_up_is_by_output_rate(tmp_path: Path) -> None:
    two = replace(GREEDY, n=2)
    slow, fast = (tuple(streamed(f"p{n}", gap) for n in range(6)) for gap in (20, 10))
    base = Made(point=point("none", 0, load=CLOSED, sampling=two), records=slow)
    arm = Made(point=point("ngram", 4, load=CLOSED, sampling=two), records=fast)
    found = compare(folder(tmp_path, base, arm))[1]
    assert found.speedup_by == "output rate"
    assert found.speedup.value == pytest.approx(0.5 / 0.3)
    assert found.speedup_tpot.value is None
    assert found.speedup_tpot.reason == "several answers share a stream"


def test_of_unstreamed_answers_the_server_tells_the_decode_time_of_all(tmp_path: Path) -> None:
    """3 s over 30 decode steps of 3 answers: 0.1 s a token, not 3 s over the 32 after the first."""
    three = replace(GREEDY, n=3)
    one = tuple(replace(record(f"p{n}", tokens=33, answers=3), decode_ms=3000.0) for n in range(3))
    alone = tuple(replace(record(f"p{n}", tokens=11), decode_ms=1000.0) for n in range(3))
    columns = paired([(a, b) for a, b in zip(alone, one, strict=True)])
    assert columns.tpot(seed=0).value == pytest.approx(1.0)
    made = (
        Made(point=point(m, g, sampling=three), records=one) for m, g in (("none", 0), ("ngram", 4))
    )
    assert compare(folder(tmp_path, *made))[1].speedup_tpot.value == 1.0
