from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from sweeper.judge.distribution import sampled
from sweeper.judge.noise import Noise, noise
from sweeper.judge.notes import output_notes
from sweeper.judge.output import OutputCheck, output_check
from sweeper.judge.quality import quality_figures
from sweeper.judge.speedup import Pair
from sweeper.scores import Near, Samples, Scored, Scores
from tests.unit.sweeps import record

UNSCORED = noise(None)
NO_SAMPLES = sampled(None, None, seed=0)
NO_GRADES = quality_figures(None, None, is_baseline=False, seed=0)


def two(prompt: str, base: str, other: str, *ids: tuple[int, ...]) -> Pair:
    first, second = ids
    return record(prompt, text=base, token_ids=first), record(prompt, text=other, token_ids=second)


def check(*pairs: Pair, floor: Noise = UNSCORED) -> OutputCheck:
    return output_check(
        pairs, greedy=True, seed=0, floor=floor, quality=NO_GRADES, sampled=NO_SAMPLES
    )


def near(*gaps: float) -> tuple[Near, ...]:
    """The answer's token is 10 times its position, the runner-up the next number."""
    return tuple(((10 * n, -0.1), (10 * n + 1, round(-0.1 - g, 4))) for n, g in enumerate(gaps))


def scored(prompt: str, read: tuple[Near, ...], decoded: tuple[Near, ...]) -> Scored:
    ids = tuple(10 * n for n in range(len(read)))
    return Scored(
        prompt_id=prompt,
        token_ids=ids,
        near=read,
        again=ids,
        again_near=decoded,
        batched=ids,
    )


def floor(*answers: Scored) -> Noise:
    return noise(Scores(concurrency=8, answers=answers))


THREE = scored("p", near(2.0, 0.1, 2.0), near(1.8, 0.1, 2.0))
"""Three tokens, the second a near tie; one gap changed by 0.2."""


def left(*ids: int) -> Pair:
    return two("p", "a b c", "a x y", (0, 10, 20), ids)


def test_equal_answers_are_right() -> None:
    found = check(two("p1", "a b", "a b", (1, 2), (1, 2)))
    assert found.state == "right"
    assert found.sentence == "all 1 greedy answers are the baseline's, token for token"
    assert found.noise.reason == "the baseline's answers were not scored"


def test_a_difference_is_located_and_not_judged_without_scores() -> None:
    found = check(
        two("p1", "a b", "a b", (1, 2), (1, 2)), two("p2", "red car", "red bus", (4, 5), (4, 6))
    )
    assert found.state == "not measured"
    assert found.sentence == (
        "not measured: 1 of 2 greedy answers differ from the baseline's, and the baseline's "
        "answers were not scored"
    )
    (one,) = found.divergences
    assert (one.prompt_id, one.position, one.baseline_token, one.token) == ("p2", 1, 5, 6)
    assert (one.before, one.baseline_text, one.text) == ("red ", "car", "bus")
    assert found.identical_share.value == 0.5


def test_why_nothing_was_scored_is_said() -> None:
    why = noise(Scores(concurrency=8, problem="the server gave no token ids"))
    assert check(left(0, 11, 1), floor=why).noise.reason == (
        "the baseline's answers were not scored (the server gave no token ids)"
    )


def test_a_near_tie_is_numerical() -> None:
    found = check(left(0, 11, 3), floor=floor(THREE))
    assert found.state == "numerical"
    assert found.noise.value == pytest.approx(0.2)
    (one,) = found.divergences
    assert (one.position, one.kind, one.at_least) == (1, "numerical", False)
    assert one.gap == pytest.approx(0.1)
    assert found.sentence == (
        "1 of 1 greedy answers differ from the baseline's, each at a near tie (gaps up to 0.1 nats)"
        "; the baseline's own noise reaches 0.2 nats and would change about 0.2 answers (p=0.15)"
    )


def test_a_token_far_behind_is_wrong() -> None:
    found = check(left(0, 10, 21), floor=floor(THREE))
    assert found.state == "wrong"
    assert found.sentence == (
        "1 of 1 greedy answers differ from the baseline's, 1 of them with a token up to 2 nats "
        "less likely than the baseline's; the baseline's own noise reaches 0.2 nats"
    )


def test_the_worst_of_a_wrong_output_are_said_as_text() -> None:
    base, other = left(0, 10, 21)
    base, other = replace(base, text="a new\nday"), replace(other, text="a new\nnight")
    (_, difference) = output_notes(check((base, other), floor=floor(THREE)))
    assert difference == (
        'p, token 2: after "a new⏎" the baseline goes on "day", this "night" (2 nats less likely)'
    )
    four = [two(f"p{n}", "a b", f"a {n}", (0, 1), (0, 2)) for n in range(4)]
    each = [scored(f"p{n}", near(1.0, 2.0 + n), near(1.0, 2.0 + n)) for n in range(4)]
    pairs = [(replace(b, token_ids=(0, 10)), replace(o, token_ids=(0, 11))) for b, o in four]
    said = list(output_notes(check(*pairs, floor=floor(*each))))
    assert said[0].startswith("WRONG OUTPUT: 4 of 4 greedy answers differ")
    assert [line.split(",")[0] for line in said[1:]] == ["p3", "p2", "p1"]
    assert list(output_notes(check(*pairs[:1], floor=UNSCORED))) == []


def test_a_token_that_is_not_among_the_likely_is_wrong() -> None:
    found = check(left(0, 77, 20), floor=floor(THREE))
    assert found.state == "wrong"
    assert found.divergences[0].at_least
    assert "up to more than 5 nats" in found.sentence
    sure = replace(THREE, near=(((0, -0.1),), ((10, -0.1),), ((20, -0.1),)))
    assert check(left(0, 77, 20), floor=floor(sure)).state == "wrong"


def test_a_token_behind_twenty_likely_ones_may_be_a_near_tie() -> None:
    many = tuple((10 + n, -3.0 - n / 1000) for n in range(20))
    one = replace(THREE, near=(THREE.near[0], many, THREE.near[2]))
    found = check(left(0, 77, 20), floor=floor(one))
    assert found.divergences[0].kind == "not scored"


def test_an_answer_that_stops_is_wrong() -> None:
    found = check(two("p", "a b c", "a", (0, 10, 20), (0,)), floor=floor(THREE))
    assert found.state == "wrong"
    (one,) = found.divergences
    assert (one.position, one.baseline_token, one.token, one.gap) == (1, 10, None, None)
    assert "1 of them end where the baseline's goes on" in found.sentence


def test_the_noise_is_also_where_the_baseline_left_its_own_answer() -> None:
    one = replace(THREE, near=near(2.0, 0.3, 2.0), again_near=near(2.0, 0.3, 2.0))
    assert floor(one).explains == 0.0
    flipped = replace(one, batched=(0, 11, 5))
    assert floor(flipped).explains == pytest.approx(0.3)
    assert floor(replace(one, again=(0, 11, 5))).flips == pytest.approx((0.3,))


def test_other_answers_than_the_scored_ones_are_not_judged() -> None:
    pair = two("p", "a b c", "a x y", (0, 10, 30), (0, 11, 3))
    found = check(pair, floor=floor(THREE))
    assert found.state == "not measured"
    assert found.sentence.endswith("greedy answers differ from the baseline's, and none was scored")


def test_sampled_answers_are_judged_by_their_distribution() -> None:
    pairs = [two("p", "a", "b", (1,), (2,))]

    def judged(one: Samples | None, other: Samples | None) -> OutputCheck:
        found = sampled(one, other, seed=0)
        return output_check(
            pairs, greedy=False, seed=0, floor=UNSCORED, quality=NO_GRADES, sampled=found
        )

    def drawn(token: int, drafted: int | None = 5) -> Samples:
        return Samples(texts=("t",), draws=(((token,), (1,)) * 16,), drafted=drafted)

    none = judged(None, None)
    assert none.sentence == "not measured: the baseline's continuations were not sampled"
    assert none.identical_share.reason == (
        "sampled output: strings differ even when distributions agree"
    )
    alike = judged(drawn(7), drawn(7))
    assert (alike.state, alike.p_value.value) == ("right", 1.0)
    assert alike.sentence == (
        "no difference between its distribution and the baseline's "
        "(p=1, 1 texts × 32 continuations)"
    )
    other = judged(drawn(7), drawn(8))
    assert other.state == "wrong"
    assert other.sentence == (
        "samples from another distribution than the baseline (p=0.0005, 1 texts × 32 continuations)"
    )
    assert judged(drawn(7), drawn(7, drafted=0)).sentence == (
        "not measured: nothing was drafted while continuations were sampled"
    )
    refused = Samples(texts=("t",), problem="HTTP 400")
    assert judged(drawn(7), refused).sentence == "not measured: its continuations: HTTP 400"


def simulated(
    seed: int, *, sigma: float, prompts: int = 16, length: int = 64, accept: float | None = None
) -> OutputCheck:
    """A greedy engine whose readings differ by rounding of scale ``sigma``, and a candidate.

    ``accept``: the candidate takes the runner-up wherever it is this near, as an engine with a
    lenient acceptance rule would.
    """
    dice = np.random.default_rng(seed)
    answers, pairs = [], []
    for number in range(prompts):
        true = dice.exponential(2.5, length)
        decoded = np.abs(true + dice.normal(0.0, sigma, length))
        read = true + dice.normal(0.0, sigma, length)
        candidate = true + dice.normal(0.0, sigma, length)
        turned = candidate < (0.0 if accept is None else accept)
        name, ids = f"p{number}", tuple(10 * n for n in range(length))
        answers.append(scored(name, near(*read), near(*decoded)))
        other = tuple(t + int(x) for t, x in zip(ids, turned, strict=True))
        pairs.append(two(name, "a", "b", ids, other))
    return check(*pairs, floor=floor(*answers))


def test_rounding_is_hardly_ever_called_wrong() -> None:
    states = [simulated(seed, sigma=0.08).state for seed in range(60)]
    assert states.count("numerical") > 45
    assert states.count("wrong") <= 1


@pytest.mark.parametrize("lenient", [0.3, 1.0])
def test_an_engine_that_takes_runners_up_is_called_wrong(lenient: float) -> None:
    states = [simulated(seed, sigma=0.08, accept=lenient).state for seed in range(15)]
    assert states.count("wrong") >= 14


def repeated(pairs: Sequence[Pair], count: int) -> tuple[Pair, ...]:
    """The same answers in every repeat, as a server gives them that rounds alike each time."""
    return tuple(
        (replace(base, repeat=n), replace(other, repeat=n))
        for n in range(count)
        for base, other in pairs
    )


def test_five_repeats_of_the_same_noise_are_not_too_many_for_it() -> None:
    """Of eight near ties rounding turns the same four in every repeat: four, and not twenty."""
    read = near(0.1, 2.0)
    each = [scored(f"p{n}", read, near(0.25 if n % 2 else 0.1, 2.0)) for n in range(8)]
    turned = [two(f"p{n}", "a b", "x y", (0, 10), (1 if n < 4 else 0, 10)) for n in range(8)]
    once, five = (check(*repeated(turned, n), floor=floor(*each)) for n in (1, 5))
    assert (once.state, five.state) == ("numerical", "numerical")
    assert once.sentence.startswith("4 of 8 greedy answers differ")
    assert five.sentence.startswith("20 of 40 greedy answers differ")
    assert (once.compared, five.compared, len(five.divergences)) == (8, 8, 4)


def test_other_prompts_in_each_repeat_are_judged_by_the_risk_of_each_repeat() -> None:
    """Each repeat is as noise has it; every prompt differs in one of them."""
    each = [scored(f"p{n}", near(0.1, 2.0), near(0.1 + 0.2 * (n < 3), 2.0)) for n in range(12)]
    pairs = [
        tuple(
            replace(one, repeat=repeat)
            for one in two(f"p{n}", "a b", "x y", (0, 10), (int(n // 3 == repeat), 10))
        )
        for repeat in range(4)
        for n in range(12)
    ]
    found = check(*((base, other) for base, other in pairs), floor=floor(*each))
    assert found.state == "numerical"
    assert found.sentence.startswith("12 of 48 greedy answers differ")


def test_too_many_in_one_repeat_are_too_many() -> None:
    each = [scored(f"p{n}", near(0.1, 2.0), near(0.1 + 0.2 * (n < 1), 2.0)) for n in range(40)]
    turned = [two(f"p{n}", "a b", "x y", (0, 10), (1, 10)) for n in range(40)]
    found = check(*repeated(turned, 2), floor=floor(*each))
    assert found.state == "wrong"
    assert found.sentence.endswith("too many for rounding alone")


def test_a_near_tie_in_one_repeat_hides_nothing_wrong_in_another() -> None:
    near_tie, wrong = left(0, 11, 3), left(0, 10, 21)
    later = tuple(replace(one, repeat=1) for one in wrong)
    found = check(near_tie, (later[0], later[1]), floor=floor(THREE))
    assert found.state == "wrong"
    assert found.sentence.startswith("2 of 2 greedy answers differ from the baseline's, 1 of them")
    (shown,) = found.divergences
    assert (shown.kind, shown.repeat, shown.position) == ("wrong", 1, 2)


def unscored(count: int) -> list[Pair]:
    return [two(f"u{n}", "a b", "a x", (1, 2), (1, 3)) for n in range(count)]


def test_mostly_unscored_differences_are_not_measured() -> None:
    found = check(left(0, 11, 3), *unscored(2), floor=floor(THREE))
    assert found.state == "not measured"
    assert found.sentence == (
        "not measured: 3 of 3 greedy answers differ from the baseline's, and 2 of them were not "
        "scored; check.prompts=3 scores an answer to every prompt"
    )
    assert found.identical_share.value == 0.0
    half = check(left(0, 11, 3), *unscored(1), floor=floor(THREE))
    assert half.state == "numerical"
    assert half.sentence.endswith("; 1 not scored")


def test_what_is_wrong_is_so_however_much_was_not_scored() -> None:
    assert check(left(0, 10, 21), *unscored(9), floor=floor(THREE)).state == "wrong"


def test_later_turns_are_never_scored() -> None:
    """Not even where the answer is, by chance, that to the first."""
    turns = [tuple(replace(one, turn=n) for one in left(0, 11, 3)) for n in (1, 2)]
    found = check(left(0, 11, 3), *((base, other) for base, other in turns), floor=floor(THREE))
    assert found.state == "not measured"
    assert found.sentence.endswith(
        "2 of them were not scored: only first turns are, as the baseline first answered them"
    )


def test_without_rounding_any_difference_is_wrong() -> None:
    states = [simulated(seed, sigma=0.0001, accept=0.05).state for seed in range(15)]
    assert set(states) == {"wrong"}
