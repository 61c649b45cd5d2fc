"""Drafts that die half-way, or past the draft's context."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from sweeper.measure.stretches import by_length, flat, over_time
from sweeper.measure.windows import dead_windows
from sweeper.values import RequestRecord, SpecCounts
from tests.unit.sweeps import record


def drafts(accepted: tuple[int, ...], *, detailed: bool = True) -> SpecCounts:
    return SpecCounts(
        verify_steps=len(accepted),
        drafted=3 * len(accepted),
        accepted=sum(accepted),
        per_step_drafted=(3,) * len(accepted) if detailed else None,
        per_step_accepted=accepted if detailed else None,
    )


def at(second: int, spec: SpecCounts | None, prompt_tokens: int = 5, **more: Any) -> RequestRecord:
    """A request from ``second`` to the next."""
    made = record(f"p{second}", spec=spec, tokens=10, **more)
    return replace(
        made,
        sent_ns=second * 10**9,
        done_ns=(second + 1) * 10**9,
        prompt_tokens=prompt_tokens,
    )


def test_a_draft_that_stops_being_accepted_half_way_is_seen() -> None:
    alive = [at(n, drafts((3, 3, 0))) for n in range(5)]
    frozen = [at(n, drafts((0, 0, 0))) for n in range(5, 10)]
    windows = over_time([*alive, *frozen])
    assert [w.dead for w in windows] == [False] * 5 + [True] * 5
    assert [(w.drafted, w.accepted) for w in windows] == [(9, 6)] * 5 + [(9, 0)] * 5
    assert dead_windows([*alive, *frozen]) == ["no draft was accepted from 5.0 s to 10.0 s"]
    assert dead_windows(alive) == []


def test_steps_are_placed_within_their_request() -> None:
    (one,) = [at(0, drafts((3, 3, 0, 0)))]
    windows = over_time([one], windows=2)
    assert [(w.verify_steps, w.accepted) for w in windows] == [(2, 6), (2, 0)]
    whole = replace(one, spec=drafts((3, 3, 0, 0), detailed=False))
    assert [w.verify_steps for w in over_time([whole], windows=2)] == [0, 4]


def test_a_draft_shorter_than_the_prompts_is_seen_by_length() -> None:
    short = [at(n, drafts((3, 3, 3)), prompt_tokens=50) for n in (0, 2, 4)]
    long = [at(n, drafts((0, 0, 0)), prompt_tokens=600) for n in (1, 3, 5)]
    buckets = by_length([*short, *long])
    assert [(w.start, w.end, w.dead) for w in buckets] == [(0, 128, False), (512, 1024, True)]
    assert "no draft was accepted at 512 to 1024 tokens of prompt and answer" in dead_windows(
        [*short, *long]
    )


def test_without_drafts_there_are_no_windows() -> None:
    none = [at(0, None), at(1, drafts(())), at(2, drafts((1,)), error="HTTP 500: x")]
    assert over_time(none) == by_length(none) == ()
    assert dead_windows(none) == []


def test_nothing_accepted_at_all_is_not_a_matter_of_windows() -> None:
    assert dead_windows([at(0, drafts((0, 0, 0)))]) == []


def lookup_run(seed: int, requests: int, dies_at: float = 1.0) -> list[RequestRecord]:
    """A lookup method: few steps with a draft, and texts that differ in what the drafts are worth;
    from ``dies_at`` of the run on nothing is accepted."""
    dice = random.Random(seed)
    made = []
    for number in range(requests):
        worth = dice.betavariate(0.8, 1.2)
        alive = number < dies_at * requests
        steps = dice.randint(1, 12)
        accepted = tuple(3 * int(alive and dice.random() < worth) for _ in range(steps))
        made.append(at(number, drafts(accepted)))
    return made


def test_a_short_run_of_a_lookup_method_is_not_taken_for_a_dead_draft() -> None:
    """Runs of eight requests nearly always have a window without a single accepted draft."""
    runs = [lookup_run(seed, 8) for seed in range(60)]
    assert sum(any(w.dead for w in over_time(run)) for run in runs) > 30
    assert sum(bool(dead_windows(run)) for run in runs) <= 1


def test_longer_runs_of_a_lookup_method_are_not_either() -> None:
    runs = [lookup_run(seed, 80) for seed in range(12)]
    assert [dead_windows(run) for run in runs if dead_windows(run)] == []


@pytest.mark.parametrize(("requests", "seen"), [(40, 0.9), (80, 0.99)])
def test_a_draft_that_dies_is_seen_in_runs_of_a_lookup_method_too(
    requests: int, seen: float
) -> None:
    runs = [lookup_run(seed, requests, dies_at=0.5) for seed in range(12)]
    assert sum(bool(dead_windows(run)) for run in runs) >= seen * len(runs)


def test_two_requests_are_too_few_to_call_a_draft_dead() -> None:
    alive = [at(n, drafts((3, 3, 3) * 9)) for n in range(8)]
    refused = [at(n, drafts((0, 0, 0) * 9)) for n in (8, 9)]
    assert dead_windows([*alive, *refused]) == []
    assert dead_windows([*alive, *refused, at(10, drafts((0, 0, 0) * 9))]) != []


def test_without_arrays_of_steps_the_histogram_tells_the_refused_ones() -> None:
    alive = [at(n, drafts((3, 3, 0), detailed=False)) for n in range(5)]
    frozen = [at(n, drafts((0, 0, 0), detailed=False)) for n in range(5, 10)]
    assert dead_windows([*alive, *frozen]) == ["no draft was accepted from 6.0 s to 10.0 s"]


def test_counts_too_large_for_a_byte_are_counts_too() -> None:
    assert flat([(1, 2), (300,)]).tolist() == [1, 2, 300]
    assert flat([(0, 255), ()]).tolist() == [0, 255]
