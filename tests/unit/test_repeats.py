"""Repeats: their order, their loads, their spread."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sweeper.drive.requests import asked_for, requests_of, shuffled, unused
from sweeper.judge.compare import compare
from sweeper.measure.throughput import throughput
from sweeper.measure.times import later
from sweeper.values import Load, Message, Prompt, RequestRecord, SpecCounts
from tests.unit.sweeps import GREEDY, Made, counts, folder, point, record

PROMPTS = tuple(Prompt(id=f"p{n}", text=f"text {n}") for n in range(20))


def test_every_repeat_has_an_order_of_its_own_which_comes_again() -> None:
    first, second = shuffled(PROMPTS, "o", 0), shuffled(PROMPTS, "o", 1)
    assert set(first) == set(second) == set(PROMPTS)
    assert len({tuple(first), tuple(second), PROMPTS}) == 3
    assert shuffled(PROMPTS, "o", 1) == second != shuffled(PROMPTS, "other", 1)


def test_all_arms_have_one_order() -> None:
    base, arm = point("none", 0), point("eagle3", 4)
    assert base.order == arm.order
    assert base.order != replace(base, repeats=2).order
    sent = asked_for(PROMPTS, GREEDY, 2, Load(name="sequential"), base.order)
    again = asked_for(PROMPTS, GREEDY, 2, Load(name="sequential"), arm.order)
    ids = [(r.prompt_id, r.repeat) for r in sent]
    assert ids == [(r.prompt_id, r.repeat) for r in again]
    assert [repeat for _, repeat in ids] == [0] * 20 + [1] * 20


def test_seeds_belong_to_prompts_whatever_the_order() -> None:
    plain = {r.prompt_id: r.body["seed"] for r in requests_of(PROMPTS, GREEDY)}
    mixed = {r.prompt_id: r.body["seed"] for r in requests_of(PROMPTS, GREEDY, 1, "o")}
    assert plain == mixed


def test_warm_up_texts_that_are_asked_for_are_not_used() -> None:
    chat = Prompt(id="c", messages=(Message(role="user", content="well, warm one please"),))
    assert unused(("warm one", "warm two"), (chat, *PROMPTS)) == ["warm two"]


def test_a_load_bound_by_time_runs_through() -> None:
    assert Load(name="closed").by_repeat
    assert not Load(name="closed", duration_s=5.0).by_repeat
    assert not Load(name="closed", cycle=True, requests=9).by_repeat


def test_rates_leave_out_the_time_between_repeats() -> None:
    def streamed(number: int, repeat: int, start: float) -> RequestRecord:
        made = record(f"p{number}", repeat=repeat, tokens=10, chunk_ns=(500_000_000, 500_000_000))
        return later(made, round(start * 1e9))

    load = Load(name="closed", concurrency=1)
    once = [streamed(n, 0, n) for n in range(3)]
    twice = [*once, *(streamed(n, 1, 100 + n) for n in range(3))]
    alone, both = throughput(once, load), throughput(twice, load)
    assert both.output_tokens_per_s == pytest.approx(alone.output_tokens_per_s)
    assert both.window_s == pytest.approx(2 * (alone.window_s or 0))


def repeated(seconds: tuple[float, ...], accepted: tuple[int, ...] = ()) -> list[RequestRecord]:
    spec: list[SpecCounts | None] = [counts([10 - a, a]) for a in accepted]
    spec = spec or [None] * len(seconds)
    return [
        record(f"p{n}", repeat=r, seconds=s, tokens=10, spec=spec[r])
        for r, s in enumerate(seconds)
        for n in range(2)
    ]


def test_the_spread_over_repeats_is_said_and_in_the_columns(tmp_path: Path) -> None:
    base = Made(point=point("none", 0, repeats=2), records=tuple(repeated((1.0, 2.0))))
    arm = Made(point=point("eagle3", 1, repeats=2), records=tuple(repeated((0.5, 0.5), (5, 8))))
    found = compare(folder(tmp_path, base, arm))[1]
    assert found.repeats.speedup == (2.0, 4.0)
    assert (
        "over 2 repeats: speed-up 2.00 to 4.00, output rate 20.0 to 20.0, A/D 0.500 to 0.800"
        in found.notes
    )
    from sweeper.report.columns import row

    assert (row(found)["speedup_repeats_low"], row(found)["speedup_repeats_high"]) == (2.0, 4.0)


def test_the_spread_of_a_streamed_load_is_by_tpot_like_the_speedup(tmp_path: Path) -> None:
    """Each token takes half and then a third of the time; the wait for the first is another."""

    def streamed(gaps_ms: tuple[int, int], first_ms: int) -> tuple[RequestRecord, ...]:
        return tuple(
            record(
                f"p{n}",
                repeat=r,
                seconds=(first_ms + 10 * gap) / 1e3,
                chunk_ns=(first_ms * 10**6, *(gap * 10**6 for _ in range(10))),
                steps=None,
            )
            for r, gap in enumerate(gaps_ms)
            for n in range(2)
        )

    load = Load(name="closed", concurrency=2, stream=True)
    base = Made(point=point("none", 0, repeats=2, load=load), records=streamed((60, 60), 100))
    arm = Made(point=point("eagle3", 1, repeats=2, load=load), records=streamed((30, 20), 900))
    found = compare(folder(tmp_path, base, arm))[1]
    assert found.speedup_by == "TPOT"
    assert found.speedup.value == pytest.approx(2.4)
    assert found.repeats.speedup == pytest.approx((2.0, 3.0))


def test_one_repeat_has_no_spread(tmp_path: Path) -> None:
    made = Made(point=point("none", 0), records=(record("a"), record("b")))
    (found,) = compare(folder(tmp_path, made))
    assert found.repeats.sentence == "" and found.notes == ()


def test_the_cached_share_is_said_where_arms_differ(tmp_path: Path) -> None:
    def change(cached: float) -> dict[str, dict[str, float]]:
        return {"change": {"prompt_tokens": 100.0, "cached_tokens": cached}}

    records = (record("a"), record("b"))
    base = Made(point=point("none", 0), records=records, counters=change(0.0))
    arm = Made(point=point("ngram", 4), records=records, counters=change(30.0))
    found = compare(folder(tmp_path, base, arm))
    assert [one.cached_share.value for one in found] == [0.0, 0.3]
    said = "30 % of the prompt tokens came from the prefix cache, and 0 % for the baseline"
    assert said in found[1].notes
