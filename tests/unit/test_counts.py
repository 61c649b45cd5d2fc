"""Speculation counts of requests that report none, out of the server's counters."""

from __future__ import annotations

from sweeper.judge.acceptance import acceptance
from sweeper.judge.drafts import count
from sweeper.measure.checks import cross_check, point_warnings
from sweeper.measure.counters import Counters, with_counts
from sweeper.values import SpecCounts
from tests.unit.sweeps import point, record


def change(steps: float | None, *accepted_at: float, drafted: float = 0.0) -> Counters:
    none = dict.fromkeys(("running", "waiting", "preemptions", "cached_tokens", "decode_seconds"))
    return Counters(
        started=1.0,
        verify_steps=steps,
        drafted=drafted if steps is not None else None,
        accepted=float(sum(accepted_at)) if steps is not None else None,
        decode_steps=12.0,
        completion_tokens=24.0,
        prompt_tokens=5.0,
        accepted_at=accepted_at,
        **none,
    )


def test_counters_of_one_request_are_its_counts() -> None:
    filled = with_counts(record("a", steps=None), change(8.0, 6.0, 4.0, 1.0, drafted=24.0))
    assert filled.decode_steps == 12
    assert filled.spec == SpecCounts(
        verify_steps=8, drafted=24, accepted=11, histogram=(2, 2, 3, 1), counted=True
    )


def test_what_a_request_says_itself_comes_first() -> None:
    own = SpecCounts(verify_steps=1, drafted=4, accepted=2, histogram=(0, 0, 1, 0, 0))
    filled = with_counts(record("a", spec=own), change(8.0, 6.0, drafted=24.0))
    assert filled.spec is own


def test_a_server_without_speculation_counts_nothing() -> None:
    assert with_counts(record("a"), change(None)).spec is None


def test_no_draft_in_a_request_is_zero_and_not_unknown() -> None:
    filled = with_counts(record("a"), change(0.0, 0.0, 0.0))
    assert filled.spec == SpecCounts(
        verify_steps=0, drafted=0, accepted=0, histogram=(0, 0, 0), counted=True
    )


def test_acceptance_and_survival_come_out_and_the_point_says_where_from() -> None:
    records = [
        with_counts(record(name, tokens=20), change(8.0, 6.0, 4.0, drafted=16.0))
        for name in ("a", "b")
    ]
    figures = acceptance(count(records, gamma=2, baseline=False), seed=0)
    assert figures.acceptance_rate.value == 20 / 32
    assert [f.value for f in figures.survival] == [0.75, 0.5]
    assert (
        "acceptance is from differences of the server's counters for 2 of 2 requests: "
        "the server reported none with them"
    ) in point_warnings(point("ngram", 2), records, {})


def test_counters_are_not_checked_against_themselves() -> None:
    counts = change(8.0, 6.0, drafted=16.0)
    checked = cross_check([with_counts(record("a", tokens=24), counts)], counts)
    assert set(checked["requests_and_server"]) == {"completion_tokens", "prompt_tokens"}
    assert checked["agree"] is True
