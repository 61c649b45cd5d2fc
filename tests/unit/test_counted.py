"""Acceptance over time out of readings of the server's counters."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from sweeper.judge.judgement import judge
from sweeper.measure.counted import (
    Reading,
    Readings,
    acceptance_over_time,
    dead_counted,
    kept,
    raw,
    was_reset,
)
from sweeper.measure.counters import drafts, parse
from sweeper.measure.stretches import Window
from sweeper.report.page.build import write_page
from sweeper.values import Load, RequestRecord, SpecCounts
from tests.unit.sweeps import Made, counts, folder, point, record

STEPS = 40
"""Of a second."""


def text(steps: int, hits: int, *, engine: int = 0, started: float = 1.0) -> str:
    """A ``/metrics`` text of drafts of two tokens, of which both are accepted or none."""
    of = f'{{engine="{engine}",model_name="a }} b"'
    return "\n".join(
        (
            f"process_start_time_seconds {started}",
            "# TYPE vllm:spec_decode_num_drafts_total counter",
            f"vllm:spec_decode_num_drafts_total{of}}} {float(steps)}",
            f"vllm:spec_decode_num_drafts_created{of}}} 1.79e+09",
            f"vllm:spec_decode_num_draft_tokens_total{of}}} {2.0 * steps}",
            f"vllm:spec_decode_num_accepted_tokens_total{of}}} {2.0 * hits}",
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{of},position="0"}} {hits}',
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{of},position="1"}} {hits}',
            f"vllm:generation_tokens_total{of}}} 99.0",
            "",
        )
    )


def readings(hits: Iterable[int], every_s: float = 1.0, begin: int = 7) -> list[Reading]:
    """``STEPS`` verify steps between two readings, and so many of them with something accepted."""
    found, total = [Reading(0.0, drafts(text(begin * STEPS, begin)))], begin
    for number, more in enumerate(hits, start=1):
        total += more
        now = drafts(text((begin + number) * STEPS, total))
        found.append(Reading(number * every_s, now))
    return found


def requests(seconds: float, count: int = 40) -> list[RequestRecord]:
    """One ends every so many seconds."""
    return [record(f"p{n}", seconds=seconds * (n + 1), answers=2) for n in range(count)]


def windows(seen: Sequence[Reading]) -> list[Window]:
    return [Window(**one) for one in kept(seen)["over_time"]]


def test_only_what_speculation_counts_is_read() -> None:
    found = drafts(text(10, 4))
    assert found == replace(parse(text(10, 4)), completion_tokens=None)
    assert (found.verify_steps, found.drafted, found.accepted) == (10.0, 20.0, 8.0)
    assert found.accepted_at == (4.0, 4.0)


def test_a_draft_that_dies_half_way_is_seen() -> None:
    seen = readings([30] * 10 + [0] * 10)
    assert [w.dead for w in windows(seen)] == [False] * 5 + [True] * 5
    assert windows(seen)[0] == Window(start=0, end=2, verify_steps=80, drafted=160, accepted=120)
    assert dead_counted(seen, requests(1.0)) == [
        "no draft was accepted from 10.0 s to 20.0 s (from the server's counters)"
    ]


def test_a_draft_that_lives_is_not_flagged() -> None:
    dice = random.Random(3)
    seen = readings(dice.randint(1, STEPS) for _ in range(60))
    assert not any(w.dead for w in windows(seen))
    assert dead_counted(seen, requests(1.0)) == []


def test_a_draft_that_never_lived_is_said_elsewhere() -> None:
    seen = readings([0] * 20)
    assert all(w.dead for w in windows(seen))
    assert dead_counted(seen, requests(1.0)) == []


def test_a_long_request_that_is_hard_is_no_dead_draft() -> None:
    """Many readings, but of few requests: the same texts are refused all along."""
    seen = readings([30] * 20 + [0] * 20)
    assert dead_counted(seen, requests(20.0, 2)) == []
    batches = [replace(r, prompt_id=f"{n}") for r in requests(20.0, 2) for n in range(40)]
    assert dead_counted(seen, batches) == []
    assert dead_counted(seen, requests(6.0, 6)) != []


def test_hard_and_easy_texts_in_turn_are_no_dead_draft() -> None:
    """One request after another, each of its own worth for five readings."""
    found = []
    for seed in range(40):
        dice = random.Random(seed)
        worth = [dice.betavariate(0.8, 1.2) for _ in range(12)]
        hits = [sum(dice.random() < w for _ in range(STEPS)) for w in worth for _ in range(5)]
        found += dead_counted(readings(hits), requests(5.0, 12))
    assert found == []


def test_across_a_reset_nothing_is_counted() -> None:
    again = readings([30] * 5 + [0] * 5, begin=0)
    later = [Reading(s + 11, replace(c, started=2.0)) for s, c in again]
    seen = [*readings([30] * 10), *later]
    assert was_reset(seen) and not was_reset(readings([30] * 3))
    found = windows(seen)
    assert sum(w.verify_steps for w in found) == 20 * STEPS
    assert sum(w.accepted for w in found) == 2 * 15 * 30
    assert dead_counted(seen, requests(1.0)) == [
        "no draft was accepted from 17.0 s to 21.0 s (from the server's counters)"
    ]


def test_counters_that_fall_were_reset_whatever_the_server_says_of_its_start() -> None:
    seen = [*readings([30] * 3), *(Reading(s + 4, c) for s, c in readings([30] * 3, begin=0))]
    assert was_reset(seen)
    assert sum(w.verify_steps for w in windows(seen)) == 6 * STEPS


def test_engines_are_summed_so_that_one_that_lives_is_no_dead_draft() -> None:
    def both(first: int, second: int, number: int) -> Reading:
        two = text(number * STEPS, first) + text(number * STEPS, second, engine=1, started=0.0)
        return Reading(float(number), drafts(two))

    one_dies = [both(30 * min(n, 10), 30 * n, n) for n in range(21)]
    assert [w.accepted for w in windows(one_dies)] == [240] * 5 + [120] * 5
    assert dead_counted(one_dies, requests(1.0)) == []
    both_die = [both(30 * min(n, 10), 30 * min(n, 10), n) for n in range(21)]
    assert len(dead_counted(both_die, requests(1.0))) == 1


def test_without_positions_as_many_steps_were_right_as_there_must_be() -> None:
    seen = [Reading(s, replace(c, accepted_at=())) for s, c in readings([30] * 10 + [0] * 10)]
    assert len(dead_counted(seen, requests(1.0))) == 1


def test_few_readings_are_windows_as_they_are_and_many_are_ten() -> None:
    assert [(w.start, w.end) for w in windows(readings([1, 1, 1], 2.0))] == [(0, 2), (2, 4), (4, 6)]
    assert len(windows(readings([1] * 1000, 2.0))) == 10
    assert kept([]) == {}
    no_drafts = drafts(text(0, 0))
    assert kept([Reading(0.0, no_drafts), Reading(1.0, no_drafts)]) == {}


def test_what_was_asked_before_the_first_request_is_not_heard() -> None:
    before = drafts(text(10, 4))
    heard = Readings(time.perf_counter_ns(), before)
    heard.hear(heard.origin_ns - 1, text(8, 3))
    heard.hear(heard.origin_ns + 1, "")  # no answer
    heard.hear(heard.origin_ns + 1, text(12, 5))
    seen = heard.until(drafts(text(14, 6)))
    assert [c.verify_steps for _, c in seen] == [10.0, 12.0, 14.0]
    assert [s for s, _ in seen] == sorted(s for s, _ in seen)
    first, *_ = raw(seen)
    assert first == {"second": 0.0, "verify_steps": 10.0, "drafted": 20.0, "accepted": 8.0}


@pytest.mark.parametrize("spec", [None, counts((1, 0, 2))])
def test_what_requests_tell_comes_first(spec: SpecCounts | None) -> None:
    found = acceptance_over_time([record("p", spec=spec)], kept(readings([30] * 3)))
    assert found.counted == (spec is None)
    assert len(found.windows) == (3 if spec is None else 10)
    assert acceptance_over_time([record("p")], {}).windows == ()


def test_the_page_draws_them_and_says_where_they_are_from(tmp_path: Path) -> None:
    load = Load(name="closed", concurrency=2, stream=True)
    records = tuple(requests(1.0, 4))
    seen = readings([30] * 10 + [0] * 10)
    change = seen[-1].counters.since(seen[0].counters)
    assert change is not None
    base = Made(point=point("none", 0, load=load), records=records)
    arm = Made(point=point("ngram", 2, load=load), records=records)
    arm = replace(arm, counters={"change": asdict(change), **kept(seen)})
    page = paged(tmp_path / "counted", base, arm)
    assert "ngram γ=2 (from counters)" in page
    assert "From counters: the server&#39;s, of all requests together" in page
    why = "requests do not tell what was drafted for them, and the server&#39;s counters do not"
    assert f"<li>Acceptance by sequence length: not measured: {why} tell which" in page
    assert "requests without speculation metrics are not in A/D" not in page
    page = paged(tmp_path / "not", base, replace(arm, counters={}))
    assert "<li>Acceptance over time: not measured: no request tells what was drafted" in page
    assert "Acceptance by sequence length" not in page


def paged(path: Path, *made: Made) -> str:
    sweep_folder = folder(path, *made)
    return write_page(sweep_folder, judge(sweep_folder)).read_text(encoding="utf-8")
