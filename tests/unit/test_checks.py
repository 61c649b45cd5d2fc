"""The accounting identity, the cross-check with the server's counters, and warnings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sweeper.measure.checks import cross_check, identity_violation, misconfigured, point_warnings
from sweeper.measure.counters import Counters, parse
from sweeper.values import RequestRecord, SpecCounts
from tests.unit.sweeps import point
from tests.unit.test_requests import GREEDY

METRICS = """\
# HELP vllm:spec_decode_num_drafts_total d
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 8.0
vllm:spec_decode_num_drafts_total{engine="1",model_name="m"} 2.0
# HELP vllm:spec_decode_num_accepted_tokens_per_pos_total d
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 5.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 3.0
# HELP process_start_time_seconds s
# TYPE process_start_time_seconds gauge
process_start_time_seconds 100.0
"""


def record(tokens: int, steps: int | None, spec: SpecCounts | None = None) -> RequestRecord:
    return RequestRecord(
        prompt_id="a",
        category=None,
        repeat=0,
        turn=0,
        sent_ns=0,
        first_ns=None,
        done_ns=1,
        prompt_tokens=3,
        cached_tokens=None,
        completion_tokens=tokens,
        finish_reason="stop",
        spec=spec,
        decode_steps=steps,
        text="",
        token_ids=None,
        prompt_digest=None,
        error="",
    )


def counts(s: int, d: int, a: int) -> SpecCounts:
    return SpecCounts(verify_steps=s, drafted=d, accepted=a)


# completion 63 = 1 + 11 + 27 + 24 - 0, measured on vLLM 0.32
@pytest.mark.parametrize(
    "tokens,steps,spec,holds",
    [
        (63, 35, counts(11, 44, 27), True),
        (12, 7, counts(2, 8, 4), True),  # T = 0
        (9, 7, counts(2, 8, 4), True),  # T = 3, cut at max_tokens
        (13, 7, counts(2, 8, 4), False),  # one token from nowhere
        (7, 7, counts(2, 8, 4), False),  # T = 5 > γ
        (10, 9, None, True),  # a baseline: one token a step
        (10, 8, None, False),
    ],
)
def test_the_identity(tokens: int, steps: int, spec: SpecCounts | None, holds: bool) -> None:
    gamma = 4 if spec else 0
    assert (identity_violation(record(tokens, steps, spec), gamma) is None) is holds


def test_engines_are_summed_and_twins_are_not_counted() -> None:
    found = parse(METRICS)
    assert (found.verify_steps, found.accepted_at, found.started) == (10.0, (5.0, 3.0), 100.0)
    assert found.drafted is None


def test_a_restart_leaves_no_difference() -> None:
    before = parse(METRICS)
    assert before.since(before) is not None
    assert replace(before, started=101.0).since(before) is None
    assert replace(before, verify_steps=1.0).since(before) is None


def test_a_disagreement_is_named() -> None:
    base = parse(METRICS)
    change: Counters = replace(
        base,
        completion_tokens=64.0,
        prompt_tokens=3.0,
        verify_steps=11.0,
        drafted=44.0,
        accepted=27.0,
    )
    found = cross_check([record(63, 35, counts(11, 44, 27))], change)
    assert found["agree"] is False and found["differing"] == ["completion_tokens"]
    assert cross_check([], None) == {"agree": None, "reason": "no server counters"}


@pytest.mark.parametrize(
    ("told", "of"), [((True, False), "1 of 2 requests"), ((False, False), "every request")]
)
def test_requests_without_counts_are_counted(told: tuple[bool, ...], of: str) -> None:
    records = [record(9, 7, counts(2, 8, 4)) if one else record(9, None) for one in told]
    missing = f"per-request speculation counts are missing for {of}"
    assert point_warnings(point("ngram", 4), records, {}) == [missing]


def test_ignore_eos_is_said() -> None:
    asked = point("none", 0, sampling=replace(GREEDY, ignore_eos=True))
    assert point_warnings(asked, [], {}) == [
        "ignore_eos: text after its natural end drafts unlike real answers"
    ]


@pytest.mark.parametrize(
    "method,steps,accepted,reason",
    [
        (
            "eagle3",
            100,
            4,
            "misconfigured? a trained draft accepted 4 tokens in 100 steps (1+A/S 1.04, below "
            "1.05); check that it was trained for this target",
        ),
        ("eagle3", 100, 5, ""),  # 1.05: a poor draft is a result
        ("eagle3", 48, 0, ""),  # too few steps to say
        ("ngram", 100, 0, ""),  # a lookup has nothing to be trained for
    ],
)
def test_a_trained_draft_that_accepts_nothing_is_no_result(
    method: str, steps: int, accepted: int, reason: str
) -> None:
    asked = point(method, 4, trained_draft=method == "eagle3")
    spec = counts(steps // 2, steps * 2, 0)
    last = replace(spec, accepted=accepted)
    records = [record(60, steps, spec), record(60, steps, last)]
    assert misconfigured(asked, records) == reason


@pytest.mark.parametrize(("accepted", "wrong"), [(4, True), (5, False)])
def test_where_requests_report_nothing_the_counters_tell_of_it(accepted: int, wrong: bool) -> None:
    asked = point("eagle3", 4, trained_draft=True)
    counters = {"change": {"verify_steps": 100, "drafted": 400, "accepted": accepted}}
    assert bool(misconfigured(asked, [record(60, 100, None)], counters)) is wrong
    assert misconfigured(asked, [record(60, 100, None)], {"change": None}) == ""
