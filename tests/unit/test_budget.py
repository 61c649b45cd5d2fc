"""What fits into a budget, what comes first, and what the plan says of it."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from sweeper.durations import clock, seconds_of
from sweeper.plan.budget import fit
from sweeper.plan.estimate import estimate
from sweeper.plan.grid import plan
from sweeper.report.plan import print_plan
from sweeper.values import Job, Load, Plan, Point
from tests.unit.sweeps import CHAT, point

ONE = Load(name="sequential", warmup_requests=0)
"""A point of six prompts takes 7 × 4.8 s = 33.6 s, a start 120 s."""
CODE = replace(CHAT, name="code", digest="d2")


def asked(*points: Point) -> Plan:
    return plan(
        [Job(number=n, overrides=(), point=p) for n, p in enumerate(points)], baseline="shared"
    )


def of(method: str, gamma: int, dataset: object = CHAT) -> Point:
    return point(method, gamma, load=ONE, dataset=dataset)


def within(wanted: Plan, budget: str, kept: frozenset[int] = frozenset()) -> Plan:
    found = estimate(wanted, kept=kept)
    return fit(wanted, found, seconds_of(budget) or 0, budget, kept)


def measured(found: Plan) -> list[str]:
    return [f"{p.point.label} {p.point.dataset.name}" for p in found.points if not p.skip]


GRID = [of(m, g, d) for m in ("ngram", "eagle3") for g in (2, 4, 8) for d in (CHAT, CODE)]


def test_within_a_group_its_own_baselines_come_first() -> None:
    jobs = [Job(number=n, overrides=(), point=p) for n, p in enumerate(GRID[:4])]
    found = within(plan(jobs, baseline="per_group"), "3h")
    for group in found.groups:
        assert [p.point.is_baseline for p in group.points] == [True, True, False, False]
        assert {p.baseline for p in group.points[2:]} == {p.number for p in group.points[:2]}
    some = within(plan(jobs, baseline="per_group"), "6m")
    # two starts of 120 s and two points of 33.6 s; what is left is for no third point
    assert measured(some) == ["none chat", "ngram γ=2 chat"]


def test_enough_time_measures_all_and_the_middle_gamma_first() -> None:
    found = within(asked(*GRID), "3h")
    assert len(measured(found)) == 14
    assert [g.points[0].point.label for g in found.groups] == [
        "none",
        "ngram γ=4",
        "eagle3 γ=4",
        "ngram γ=2",
        "eagle3 γ=2",
        "ngram γ=8",
        "eagle3 γ=8",
    ]
    assert [p.number for p in found.points] == list(range(14))


def test_every_method_once_before_a_second_gamma() -> None:
    found = within(asked(*GRID), "10m")
    assert measured(found) == [
        "none chat",
        "none code",
        "ngram γ=4 chat",
        "ngram γ=4 code",
        "eagle3 γ=4 chat",
        "eagle3 γ=4 code",
    ]
    names = {p.number: p.point for p in found.points}
    for planned in found.points:
        if planned.baseline is not None:
            assert names[planned.baseline].is_baseline
            assert names[planned.baseline].dataset == planned.point.dataset


def test_what_does_not_fit_says_what_it_would_take() -> None:
    found = within(asked(*GRID), "10m")
    reasons = {p.skip for p in found.points if p.skip}
    assert reasons == {"budget=10m: would take about 2m33s more, 38s are left"}


def test_a_baseline_that_nothing_needs_is_not_measured() -> None:
    found = within(asked(of("ngram", 4)), "3m")
    assert {p.point.label: p.skip for p in found.points} == {
        "none": "budget=3m: no point that is compared with this baseline fits",
        "ngram γ=4": "budget=3m: would take about 5m07s more, 3m00s are left",
    }


def test_kept_points_cost_nothing() -> None:
    wanted = asked(of("ngram", 4))
    assert measured(within(wanted, "3m", frozenset({0}))) == ["none chat", "ngram γ=4 chat"]


def test_a_baseline_that_was_asked_for_comes_last() -> None:
    found = within(asked(of("none", 0, CODE), of("ngram", 4)), "330s")
    assert measured(found) == ["none chat", "ngram γ=4 chat"]
    assert measured(within(asked(of("none", 0, CODE), of("ngram", 4)), "350s")) == [
        "none chat",
        "none code",
        "ngram γ=4 chat",
    ]


def test_refused_points_stay_refused() -> None:
    wanted = plan(
        [Job(number=0, overrides=(), point=of("ngram", 4))],
        baseline="off",
        skips={of("ngram", 4).key: "refused"},
    )
    assert [p.skip for p in within(wanted, "1h").points] == ["refused"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2h", 7200),
        ("90m", 5400),
        ("90min", 5400),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("1.5h", 5400),
        ("45s", 45),
        ("1d", 86400),
        ("120", None),
        ("2 hours", None),
        ("", None),
        ("-2h", None),
    ],
)
def test_times_as_people_write_them(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds


def test_times_as_people_read_them() -> None:
    assert [clock(s) for s in (45, 200, 3900)] == ["45s", "3m20s", "1h05m"]


def printed(wanted: Plan, kept: frozenset[int] = frozenset()) -> list[str]:
    console = Console(file=io.StringIO(), width=120)
    print_plan(console, wanted, (), estimate(wanted, kept=kept), kept=kept)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_the_plan_says_what_is_kept_and_how_long_the_rest_takes() -> None:
    lines = printed(asked(of("ngram", 4)), frozenset({0}))
    assert [line.split()[-1] for line in lines[1:3]] == ["kept", "33s"]
    command = "  vllm serve --model org/model"
    assert lines[3] == "server 1, point 0: not started"
    assert lines[4] == "server 2, point 1: about 2m33s, 2m00s of it to start, 0.04 GPU-hours"
    assert lines[5].startswith(command) and "--speculative-config" in lines[5]
    assert lines[6:] == [
        "checked: 1 jobs passed, 0 refused",
        "resume: 1 of 2 points are complete and kept, 1 are measured",
        "estimate: 2m33s one server after another (2m00s server starts, 33s measuring), "
        "0.04 GPU-hours; assumed: 0.05 s a token of one stream, every answer at its longest, "
        "120 s a server start",
        "1 jobs, 2 points, 2 servers",
    ]


def test_the_plan_gives_every_reason_once() -> None:
    lines = printed(within(asked(*GRID), "10m"))
    assert [line for line in lines if line.startswith("skipped:")] == [
        "skipped: points 6, 7, 8, 9, 10, 11, 12, 13: budget=10m: would take about 2m33s more, "
        "38s are left"
    ]
    assert lines[-1] == "12 jobs, 6 points, 3 servers"
