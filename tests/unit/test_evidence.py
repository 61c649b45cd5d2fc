"""What is said in words, so that nobody reads a figure for what it is not."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sweeper.judge.judgement import judge
from sweeper.judge.verdict import WorkloadVerdict
from sweeper.judge.words import lines
from sweeper.values import Load, RequestRecord
from tests.unit.sweeps import GREEDY, Made, counts, folder, point, record

SIX = ("p0", "p1", "p2", "p3", "p4", "p5")


def answers(seconds: float, **changes: Any) -> tuple[RequestRecord, ...]:
    given = {"tokens": 21, "steps": 20} | changes
    return tuple(record(p, seconds=seconds + n / 10, **given) for n, p in enumerate(SIX))


BASE = Made(point=point("none", 0), records=answers(2.0))
RARE = counts((0, 0, 1))
"""One step with a draft of two tokens, both accepted."""


def only(path: Path, *made: Made) -> WorkloadVerdict:
    (workload,) = judge(folder(path, *made)).workloads
    return workload


def test_a_high_rate_at_tiny_coverage_is_no_promise(tmp_path: Path) -> None:
    lookup = Made(point=point("ngram", 2), records=answers(1.9, spec=RARE, steps=18))
    (one,) = only(tmp_path, BASE, lookup).candidates
    assert (
        "high A/D (1.00) at tiny coverage (6 % of the decode steps had a draft): what is drafted "
        "is mostly right, and little is drafted"
    ) in one.notes
    often = Made(point=point("ngram", 2), records=answers(1.5, spec=counts((0, 0, 7)), steps=7))
    (other,) = only(tmp_path / "often", BASE, often).candidates
    assert not any("coverage" in note for note in other.notes)


def test_a_rate_that_falls_with_gamma_is_said_not_to_choose_it(tmp_path: Path) -> None:
    two = Made(point=point("eagle3", 2), records=answers(1.5, spec=counts((2, 3, 5)), steps=10))
    four = Made(
        point=point("eagle3", 4), records=answers(1.4, spec=counts((2, 2, 2, 1, 2)), steps=9)
    )
    sentence = only(tmp_path, BASE, two, four).answers[1].sentence
    assert sentence.endswith(
        "A/D falls with γ by construction (0.65 at 2, 0.47 at 4) and does not choose it"
    )
    assert "by construction" not in only(tmp_path / "one", BASE, two).answers[1].sentence


def test_a_step_that_costs_less_than_the_baselines_is_explained(tmp_path: Path) -> None:
    """Under a load steps are counted by the servers, and their cost has no interval."""
    load = Load(name="closed", concurrency=4)
    base = Made(
        point=point("none", 0, load=load),
        records=answers(2.0, steps=None, decode_ms=2000.0),
        counters={"change": {"decode_steps": 120, "decode_seconds": 12.0}},
    )
    fast = Made(
        point=point("ngram", 2, load=load),
        records=answers(1.0, steps=None, decode_ms=1000.0, spec=counts((2, 2, 6))),
        counters={"change": {"decode_steps": 72, "decode_seconds": 6.0}},
    )
    even = only(tmp_path, base, fast).break_even[0]
    assert even.step_cost.value == pytest.approx((6 / 72) / (12 / 120))
    assert even.step_cost.low is None
    sentence = only(tmp_path, base, fast).answers[2].sentence
    assert sentence.endswith(
        "; no step gets cheaper by drafting: there is no interval, so it may be noise, or the two "
        "servers differ in something else (scheduler, runner, how many share a step)"
    )
    dear = replace(fast, counters={"change": {"decode_steps": 72, "decode_seconds": 9.0}})
    assert "cheaper" not in only(tmp_path / "dear", base, dear).answers[2].sentence


def test_what_would_conclude_names_points_prompts_and_checks(tmp_path: Path) -> None:
    hot = replace(GREEDY, name="t07", temperature=0.7)
    base = replace(BASE, point=point("none", 0, sampling=hot))
    fast = Made(point=point("ngram", 2, sampling=hot), records=answers(1.0))
    unsure = Made(
        point=point("suffix", 4, sampling=hot),
        records=tuple(
            replace(r, done_ns=round(r.done_ns * (0.5 if n % 2 else 1.5)))
            for n, r in enumerate(answers(1.9))
        ),
    )
    failed = Made(point=point("eagle3", 4, sampling=hot), status="failed", reason="no memory")
    workload = only(tmp_path, base, fast, unsure, failed)
    assert workload.verdict == "inconclusive"
    output, prompts, missing = workload.to_conclude
    assert output.startswith("ngram γ=2, suffix γ=4: whether the output is still right is open: ")
    assert output.endswith("; measure it with its baseline and check=distribution")
    assert re.fullmatch(
        r"suffix γ=4: speed-up 1\.\d+ \[.*\] does not settle 1\.05 on 6 prompts; "
        r"about \d+ prompts would",
        prompts,
    )
    assert missing == "eagle3 γ=4 was not measured (failed: no memory)"
    said = list(lines(judge(folder(tmp_path, base, fast, unsure, failed))))
    assert [f"  to conclude: {text}" for text in workload.to_conclude] == said[-4:-1]
