from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sweeper.judge.bootstrap import Figure
from sweeper.judge.speedup import (
    identical_share,
    pair,
    paired,
    paired_batches,
    rendered_differently,
    same_history,
)
from sweeper.values import RequestRecord
from tests.unit.sweeps import record


def arm(*seconds: float, tokens: int = 10) -> list[RequestRecord]:
    return [record(f"p{n}", seconds=s, tokens=tokens) for n, s in enumerate(seconds)]


def test_ratios_are_of_sums() -> None:
    pairs = pair(arm(8.0, 2.0), arm(2.0, 2.0))
    found = paired(pairs).request_time(seed=0)
    assert found.value == 2.5
    # Two prompts: the standard error of the logarithm is 0.6, Student's t 12.71.
    assert (found.low, found.high) == pytest.approx((2.5 / 2047.8, 2.5 * 2047.8), rel=1e-3)
    assert paired(pairs).output_rate(seed=0).value == pytest.approx(2.5)


def test_the_clock_of_a_rollout_batch_counts_once_and_batches_are_what_is_resampled() -> None:
    def batches(*seconds: float) -> list[RequestRecord]:
        """Two prompts with two samples, then one prompt with two; 10 tokens each."""
        shapes = [(0, seconds[0]), (0, seconds[0]), (1, seconds[1])]
        return [
            replace(
                record(f"p{n}", repeat=r, tokens=10, seconds=s),
                sent_ns=at,
                done_ns=at + int(s * 1e9),
            )
            for n, (at, s) in enumerate(shapes)
            for r in (0, 1)
        ]

    both = paired_batches(pair(batches(8.0, 2.0), batches(2.0, 2.0)))
    assert both.prompts == ("p0", "p2")
    assert both.columns("base_tokens", "base_s", "tokens", "s").tolist() == [
        [40, 8, 40, 2],
        [20, 2, 20, 2],
    ]
    assert both.output_rate(seed=0).value == pytest.approx((60 / 4) / (60 / 10))


def test_the_output_rate_counts_the_tokens_of_each_arm() -> None:
    pairs = pair(arm(2.0, 2.0), arm(2.0, 2.0, tokens=5))
    assert paired(pairs).request_time(seed=0).value == 1.0
    assert paired(pairs).output_rate(seed=0).value == 0.5


def test_a_request_that_failed_in_one_arm_leaves_both() -> None:
    slow = arm(1.0, 1.0, 100.0)
    fast = arm(0.5, 0.5, 0.1)
    fast[2] = replace(fast[2], error="503")
    assert paired(pair(slow, fast)).request_time(seed=0).value == 2.0
    assert paired(pair(fast, slow)).request_time(seed=0).value == 0.5


def test_pairs_share_prompt_turn_and_repeat() -> None:
    base = [record("a", turn=t, repeat=r) for t in (0, 1) for r in (0, 1)]
    assert len(pair(base, base)) == 4
    assert pair(base, [record("a", turn=2), record("b")]) == ()


@pytest.mark.parametrize("common", [0, 1])
def test_fewer_than_two_common_prompts_are_no_speedup(common: int) -> None:
    candidate = [record("p0", repeat=0), record("p0", repeat=1)] if common else [record("other")]
    base = [*arm(1.0, 1.0), record("p0", repeat=1)]
    found = paired(pair(base, candidate)).output_rate(seed=0)
    assert found.value is None
    assert found.low is None
    assert found.reason == f"{common} prompts in common with the baseline, 2 are needed"


def test_tokens_of_nothing_are_no_ratio() -> None:
    pairs = pair(arm(1.0, 1.0, tokens=0), arm(1.0, 1.0))
    found = paired(pairs).output_rate(seed=0)
    assert (found.value, found.reason) == (None, "a sum of times or tokens is zero")


def same(one: Figure, other: Figure) -> bool:
    pairs = [(one.value, other.value), (one.low, other.low), (one.high, other.high)]
    return all(x == pytest.approx(y) for x, y in pairs)


def test_repeats_stay_together() -> None:
    """Ten copies of each prompt leave the interval as wide as it was."""
    base, candidate = arm(8.0, 2.0, 3.0), arm(2.0, 2.0, 1.0)
    many = [
        [replace(r, repeat=n) for n in range(10) for r in records] for records in (base, candidate)
    ]
    once = paired(pair(base, candidate)).request_time(seed=0)
    assert same(paired(pair(*many)).request_time(seed=0), once)


def test_turns_of_a_prompt_stay_together() -> None:
    base, candidate = arm(8.0, 2.0), arm(2.0, 2.0)
    two = [[replace(r, turn=t) for t in (0, 1) for r in records] for records in (base, candidate)]
    once = paired(pair(base, candidate)).request_time(seed=0)
    assert same(paired(pair(*two)).request_time(seed=0), once)


@pytest.mark.parametrize("prompts", [5, 8, 40])
def test_the_interval_covers_a_known_ratio_as_often_as_it_says(prompts: int) -> None:
    generator = np.random.default_rng(20260131)
    covered = sum(_covers(generator, prompts, truth=1.5) for _ in range(1000))
    assert 920 <= covered <= 980


def _covers(generator: np.random.Generator, prompts: int, truth: float) -> bool:
    base = generator.gamma(4.0, 0.5, prompts)
    candidate = base / truth * generator.gamma(25.0, 1 / 25, prompts)  # noise of mean 1
    pairs = pair(arm(*base), arm(*candidate))
    found = paired(pairs).output_rate(seed=int(generator.integers(2**31)))
    assert found.low is not None
    assert found.high is not None
    return found.low <= truth <= found.high


def test_same_output_is_token_for_token() -> None:
    base = [record(p, token_ids=(1, 2)) for p in "abcd"]
    other = [record(p, token_ids=(1, 2)) for p in "abc"] + [record("d", token_ids=(1, 3))]
    assert identical_share(pair(base, other), greedy=True, seed=0).value == 0.75


def test_text_stands_in_where_ids_are_missing() -> None:
    base = [record("a", token_ids=None, text="x"), record("b", token_ids=(1,), text="y")]
    other = [record("a", token_ids=(9,), text="x"), record("b", token_ids=None, text="z")]
    assert identical_share(pair(base, other), greedy=True, seed=0).value == 0.5


def test_sampled_strings_are_not_compared() -> None:
    found = identical_share(pair(arm(1.0), arm(1.0)), greedy=False, seed=0)
    assert found.value is None
    assert found.reason == "sampled output: strings differ even when distributions agree"


def test_no_common_prompt_is_no_share() -> None:
    found = identical_share((), greedy=True, seed=0)
    assert (found.value, found.reason) == (None, "no prompt in common with the baseline")


def test_prompts_that_arrived_as_other_text_are_counted() -> None:
    base = [record("a", prompt_digest="x"), record("b", prompt_digest=None), record("c")]
    other = [record("a", prompt_digest="y"), record("b"), record("c")]
    assert rendered_differently(pair(base, other)) == 1


def turns(name: str, *answers: str, digests: bool = True) -> list[RequestRecord]:
    """One conversation: a prompt's digest is that of all answers before it."""
    return [
        record(
            name,
            turn=turn,
            text=answer,
            token_ids=None,
            prompt_digest="".join(answers[:turn]) or "first" if digests else None,
        )
        for turn, answer in enumerate(answers)
    ]


@pytest.mark.parametrize("digests", [True, False])
def test_a_later_turn_is_compared_only_after_equal_answers(digests: bool) -> None:
    base = [*turns("p", "x", "y", "z", digests=digests), *turns("q", "x", "y", digests=digests)]
    arm = [*turns("p", "x", "Y", "z", digests=digests), *turns("q", "X", "y", digests=digests)]
    pairs = pair(base, arm)
    assert rendered_differently(pairs) == 0
    kept = [(c.prompt_id, c.turn) for _, c in same_history(pairs)]
    assert kept == [("p", 0), ("p", 1), ("q", 0)]
