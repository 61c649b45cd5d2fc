from __future__ import annotations

from dataclasses import replace

import pytest

from sweeper.judge.acceptance import Acceptance, acceptance
from sweeper.judge.drafts import count
from sweeper.judge.positions import UNKNOWN_LENGTHS
from sweeper.values import RequestRecord, SpecCounts
from tests.unit.sweeps import counts, record

NO_DRAFTS = SpecCounts(verify_steps=0, drafted=0, accepted=0, histogram=(0, 0, 0, 0, 0))


def judged(*records: RequestRecord, gamma: int = 4, baseline: bool = False) -> Acceptance:
    return acceptance(count(records, gamma=gamma, baseline=baseline), seed=0)


def value(figure: object) -> float:
    found = getattr(figure, "value", None)
    assert isinstance(found, float)
    return found


def test_five_full_hits_in_a_hundred_steps_are_not_five_tokens_a_step() -> None:
    hit = record("a", tokens=121, steps=100, spec=counts((0, 0, 0, 0, 5)))
    found = judged(hit)
    assert found.mean_acceptance_length.value == 5.0
    assert found.tokens_per_decode_step.value == 1.2
    assert found.draft_coverage.value == 0.05
    assert (found.checked, found.violations) == (1, 0)


def test_sums_come_before_the_division() -> None:
    long = record("a", tokens=31, steps=20, spec=counts((5, 0, 0, 0, 5), 40))
    short = record("b", tokens=3, steps=1, spec=counts((0, 1, 0, 0, 0), 4))
    found = judged(long, short)
    assert value(found.acceptance_rate) == pytest.approx(21 / 44)  # not the mean of 0.5 and 0.25
    assert value(found.mean_acceptance_length) == pytest.approx(1 + 21 / 11)
    assert value(found.draft_coverage) == pytest.approx(11 / 21)
    assert value(found.tokens_per_decode_step) == pytest.approx(32 / 21)


def test_the_histogram_is_pooled_and_sums_to_one() -> None:
    long = record("a", tokens=31, steps=20, spec=counts((5, 0, 0, 0, 5), 40))
    short = record("b", tokens=3, steps=1, spec=counts((0, 1, 0, 0, 0), 4))
    found = judged(long, short).exactly
    assert [value(f) for f in found] == pytest.approx([5 / 11, 1 / 11, 0, 0, 5 / 11])
    assert all(f.low is not None and f.low <= value(f) <= (f.high or 0) for f in found)
    none = judged(record("a", spec=None)).exactly
    assert [f.reason for f in none] == ["no per-request metrics"] * 5


@pytest.mark.parametrize(
    ("spec", "baseline", "state", "rate"),
    [
        (None, True, "no speculation", None),
        (None, False, "no per-request metrics", None),
        (NO_DRAFTS, False, "no drafts", None),
        (counts((3, 0, 0, 0, 0)), False, "drafted but nothing accepted", 0.0),
    ],
)
def test_four_ways_to_accept_nothing(
    spec: SpecCounts | None, baseline: bool, state: str, rate: float | None
) -> None:
    found = judged(record("a", spec=spec), record("b", spec=spec), baseline=baseline)
    assert found.state == state
    assert found.acceptance_rate.value == rate
    assert found.acceptance_rate.reason == state
    length = found.mean_acceptance_length.value
    assert length == (None if rate is None else 1.0)
    assert found.tokens_per_decode_step.value == 1.0


def test_no_drafts_is_a_coverage_of_zero_and_no_metrics_is_none() -> None:
    assert judged(record("a", spec=NO_DRAFTS)).draft_coverage.value == 0.0
    assert judged(record("a", spec=None)).draft_coverage.value is None


@pytest.mark.parametrize(
    ("tokens", "steps", "violations"),
    [
        (12, 2, 0),  # T = 1+2+12+0-12 = 3, seen with max_tokens=12
        (10, 2, 1),  # T = 5 > γ
        (16, 2, 1),  # more tokens than steps and accepted drafts explain
        (12, 1, 1),  # fewer decode steps than verify steps
    ],
)
def test_tokens_cut_at_the_end_are_within_gamma(tokens: int, steps: int, violations: int) -> None:
    spec = SpecCounts(verify_steps=2, drafted=24, accepted=12)
    found = judged(record("a", tokens=tokens, steps=steps, spec=spec))
    assert (found.checked, found.violations) == (1, violations)


def test_the_identity_needs_all_counts_and_holds_for_a_baseline() -> None:
    assert judged(record("a", spec=None)).checked == 0
    assert judged(record("a", steps=None, spec=NO_DRAFTS)).checked == 0
    found = judged(record("a", tokens=11, steps=10), gamma=0, baseline=True)
    assert (found.checked, found.violations) == (1, 0)
    assert judged(record("a", tokens=13, steps=10), gamma=0, baseline=True).violations == 1


def test_overlapping_requests_have_no_steps_and_say_so() -> None:
    found = judged(record("a", steps=None, spec=counts((1, 1))), gamma=1)
    reason = "no decode steps counted per request"
    assert found.draft_coverage.value is None
    assert found.draft_coverage.reason == reason
    assert found.tokens_per_decode_step.reason == reason


def test_failed_requests_do_not_count() -> None:
    good = record("a", spec=counts((0, 4)))
    bad = record("b", spec=counts((9, 0)), error="timeout")
    assert judged(good, bad, gamma=1).acceptance_rate.value == 1.0


def test_requests_without_metrics_are_counted_apart() -> None:
    found = judged(record("a", spec=counts((0, 4))), record("b", spec=None), gamma=1)
    assert found.without_metrics == 1
    assert found.draft_coverage.value == 0.4  # steps of the counted request only


def test_survival_and_conditional_acceptance_of_full_drafts() -> None:
    found = judged(record("a", spec=counts((4, 0, 2, 4))), gamma=3)
    assert [f.value for f in found.survival] == [0.6, 0.6, 0.4]
    assert [f.value for f in found.position_acceptance] == [0.6, 0.6, 0.4]
    conditional = [f.value for f in found.conditional_acceptance]
    assert conditional == [0.6, 1.0, pytest.approx(4 / 6)]


def test_short_drafts_are_not_rejections() -> None:
    """Nine drafts of one token and one of four, everything accepted."""
    drafted = (1,) * 9 + (4,)
    spec = SpecCounts(
        verify_steps=10,
        drafted=13,
        accepted=13,
        histogram=(0, 9, 0, 0, 1, 0),
        per_step_drafted=drafted,
        per_step_accepted=drafted,
    )
    found = judged(record("a", spec=spec), gamma=5)
    assert [f.value for f in found.survival] == [1.0, 0.1, 0.1, 0.1, None]
    assert [f.value for f in found.conditional_acceptance] == [1.0, 1.0, 1.0, 1.0, None]
    assert [f.value for f in found.position_acceptance] == [1.0, 1.0, 1.0, 1.0, None]
    assert found.survival[4].reason == "position 5 was never drafted"


def test_conditional_acceptance_asks_only_steps_that_got_there() -> None:
    spec = SpecCounts(
        verify_steps=3,
        drafted=6,
        accepted=2,
        histogram=(2, 0, 1),
        per_step_drafted=(2, 2, 2),
        per_step_accepted=(0, 0, 2),
    )
    found = judged(record("a", spec=spec), gamma=2)
    assert found.position_acceptance[1].value == pytest.approx(1 / 3)
    assert found.conditional_acceptance[1].value == 1.0


def test_unknown_draft_lengths_leave_conditional_acceptance_undefined() -> None:
    found = judged(record("a", spec=counts((1, 1, 1), 5)), gamma=2)
    assert found.survival[1].value == pytest.approx(1 / 3)
    assert found.conditional_acceptance[0].value is None
    assert found.conditional_acceptance[0].reason == UNKNOWN_LENGTHS


def test_a_missing_histogram_is_made_from_the_steps_or_undefined() -> None:
    bare = replace(counts((1, 1)), histogram=None)
    assert judged(record("a", spec=bare), gamma=1).survival[0].reason == "no acceptance histogram"
    steps = replace(bare, per_step_drafted=(1, 1), per_step_accepted=(0, 1))
    assert judged(record("a", spec=steps), gamma=1).survival[0].value == 0.5


def test_one_prompt_has_a_value_and_no_interval_and_two_have_both() -> None:
    one = judged(record("a", spec=counts((1, 3))), gamma=1).acceptance_rate
    assert (one.value, one.low, one.reason) == (0.75, None, "one prompt has no interval")
    two = judged(record("a", spec=counts((1, 3))), record("b", spec=counts((3, 1))), gamma=1)
    rate = two.acceptance_rate
    assert (rate.low, rate.value, rate.high) == (0.25, 0.5, 0.75)


def test_repeats_of_a_prompt_are_drawn_together() -> None:
    """Ten repeats of each of two prompts say no more about other prompts than one does."""
    once = [record("a", spec=counts((1, 3))), record("b", spec=counts((3, 1)))]
    ten = [
        record(p, spec=s, repeat=n)
        for n in range(10)
        for p, s in (("a", counts((1, 3))), ("b", counts((3, 1))))
    ]
    assert judged(*ten, gamma=1).acceptance_rate == judged(*once, gamma=1).acceptance_rate


def test_repeats_of_a_prompt_are_summed() -> None:
    """Each prompt accepts 4 of 8 in all, so no draw of prompts can give another share."""
    records = [
        record(prompt, repeat=n, spec=spec)
        for prompt in "ab"
        for n, spec in enumerate((counts((0, 4)), counts((4, 0))))
    ]
    rate = judged(*records, gamma=1).acceptance_rate
    assert (rate.low, rate.value, rate.high) == (0.5, 0.5, 0.5)


def test_the_same_seed_gives_the_same_interval_and_another_seed_another() -> None:
    records = [record(str(n), spec=counts((n, 20 - n))) for n in range(20)]
    first = acceptance(count(records, gamma=1, baseline=False), seed=1)
    assert first == acceptance(count(records, gamma=1, baseline=False), seed=1)
    assert (
        first.acceptance_rate
        != acceptance(count(records, gamma=1, baseline=False), seed=2).acceptance_rate
    )


def test_no_successful_request_at_all() -> None:
    found = judged(record("a", error="refused"))
    assert found.acceptance_rate.reason == "no per-request metrics"
    assert found.tokens_per_decode_step.value is None
