from __future__ import annotations

from sweeper.judge.output import output_check
from sweeper.judge.speedup import Pair
from tests.unit.sweeps import record


def two(prompt: str, base: str, other: str, *ids: tuple[int, ...]) -> Pair:
    first, second = ids
    return record(prompt, text=base, token_ids=first), record(prompt, text=other, token_ids=second)


def test_equal_answers_are_right() -> None:
    found = output_check([two("p1", "a b", "a b", (1, 2), (1, 2))], greedy=True, seed=0)
    assert found.state == "right"
    assert found.sentence == "all 1 greedy answers are the baseline's, token for token"


def test_a_difference_is_located_and_not_judged_without_scores() -> None:
    pairs = [
        two("p1", "a b", "a b", (1, 2), (1, 2)),
        two("p2", "red car", "red bus", (4, 5), (4, 6)),
    ]
    found = output_check(pairs, greedy=True, seed=0)
    assert found.state == "not measured"
    assert found.sentence == (
        "not measured: 1 of 2 greedy answers differ from the baseline's, and its answers were not "
        "scored"
    )
    (one,) = found.divergences
    assert (one.prompt_id, one.position, one.baseline_token, one.token) == ("p2", 1, 5, 6)
    assert (one.before, one.baseline_text, one.text) == ("red ", "car", "bus")
    assert found.identical_share.value == 0.5


def test_an_answer_that_ends_early_differs_where_it_ends() -> None:
    (one,) = output_check(
        [two("p", "a b c", "a", (1, 2, 3), (1,))], greedy=True, seed=0
    ).divergences
    assert (one.position, one.baseline_token, one.token) == (1, 2, None)


def test_sampled_answers_are_not_compared_as_strings() -> None:
    found = output_check([two("p", "a", "b", (1,), (2,))], greedy=False, seed=0)
    assert found.state == "not measured"
    assert found.sentence == (
        "not measured: sampled output: strings differ even when distributions agree"
    )
