"""How long a plan takes: by earlier sweeps, else by assumptions that are said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sweeper.plan.estimate import START_S, TOKEN_S, estimate, of_start
from sweeper.plan.grid import plan
from sweeper.plan.past import NEWEST, Past, read_past
from sweeper.store import write_json
from sweeper.values import Baselines, Job, Load, Plan, Point
from tests.unit.sweeps import CHAT, Made, folder, point, record, rollouts

SEQUENTIAL = Load(name="sequential", warmup_requests=1)


def planned(*points: Point, baseline: Baselines = "off") -> Plan:
    jobs = [Job(number=n, overrides=(), point=p) for n, p in enumerate(points)]
    return plan(jobs, baseline=baseline)


def of(method: str, gamma: int, /, **changes: Any) -> Point:
    return point(method, gamma, load=SEQUENTIAL, **changes)


def earlier(tmp_path: Path, name: str, *points: Point, start_s: float = 40.0) -> None:
    """A sweep in which each point took 6 s for its 4 requests and the 2 before them."""
    made = [Made(point=p, records=tuple(record(f"p{n}") for n in range(4))) for p in points]
    home = folder(tmp_path / "2026-01-31" / name, *made, id=name)
    for p in points:
        server = home.path / "servers" / f"{p.server.key[:8]}-1" / "server.json"
        write_json(server, {"start_s": start_s})


def test_nothing_is_known_so_it_is_assumed_and_said() -> None:
    found = estimate(planned(of("ngram", 4)))
    one = 96 * TOKEN_S
    assert found.groups[0].start_s == START_S
    assert found.groups[0].run_s == pytest.approx(6 * one + 2 * one)
    assert found.source == (
        "assumed: 0.05 s a token of one stream, every answer at its longest, 120 s a server start"
    )


def test_every_server_of_a_group_starts() -> None:
    asked = planned(of("ngram", 4), of("ngram", 8), baseline="per_group")
    found = estimate(asked)
    assert [g.start_s for g in found.groups] == [2 * START_S, 2 * START_S]
    assert found.start_s == 4 * START_S
    parts = [part for group in asked.groups for part in group.starts]
    times = [of_start(found, part) for part in parts]
    assert [one and (one.start_s, len(one.points)) for one in times] == [(START_S, 1)] * 4
    assert of_start(estimate(asked, kept={0, 1}), parts[0]) is None


def test_an_earlier_sweep_of_the_model_is_gone_by(tmp_path: Path) -> None:
    earlier(tmp_path, "12-00-00-a", of("ngram", 4))
    found = estimate(planned(of("ngram", 4)), read_past(tmp_path))
    assert found.start_s == 40.0
    assert found.run_s == pytest.approx(8 * 1.0)  # 1 s a request, six and two before them
    assert found.source == "by 1 earlier sweep of this model on node1"


def test_the_most_alike_is_gone_by(tmp_path: Path) -> None:
    earlier(tmp_path, "12-00-00-a", of("ngram", 4), start_s=40.0)
    earlier(tmp_path, "13-00-00-b", of("eagle3", 4), start_s=90.0)
    past = read_past(tmp_path)
    assert estimate(planned(of("ngram", 8)), past).start_s == 40.0
    assert estimate(planned(of("eagle3", 8)), past).start_s == 90.0
    assert estimate(planned(of("suffix", 8)), past).start_s == 65.0


def test_longer_answers_take_longer(tmp_path: Path) -> None:
    earlier(tmp_path, "12-00-00-a", of("ngram", 4))
    longer = of("ngram", 4, sampling=replace(of("ngram", 4).sampling, max_tokens=192))
    assert estimate(planned(longer), read_past(tmp_path)).run_s == pytest.approx(16.0)


def test_another_model_tells_nothing(tmp_path: Path) -> None:
    other = of("ngram", 4)
    earlier(tmp_path, "12-00-00-a", replace(other, server=replace(other.server, model="org/b")))
    assert estimate(planned(of("ngram", 4)), read_past(tmp_path)).start_s == START_S


@pytest.mark.parametrize(
    ("load", "rounds"),
    [
        (Load(name="closed", concurrency=4, requests=40, warmup_requests=3), 4 + 10),
        (Load(name="closed", concurrency=2, warmup_requests=1), 2 + 3),
    ],
)
def test_streams_share_the_requests(load: Load, rounds: int) -> None:
    found = estimate(planned(point("ngram", 4, load=load)))
    assert found.run_s == pytest.approx(rounds * 96 * TOKEN_S)


def test_a_load_that_says_its_length_is_believed() -> None:
    timed = Load(name="closed", concurrency=4, duration_s=300.0, cycle=True, warmup_requests=0)
    opened = Load(name="open", rate=0.5, requests=100, warmup_requests=0)
    assert estimate(planned(point("ngram", 4, load=timed))).run_s == pytest.approx(300 + 2 * 4.8)
    assert estimate(planned(point("ngram", 4, load=opened))).run_s == pytest.approx(200 + 2 * 4.8)


def test_a_rollout_takes_what_its_batches_took(tmp_path: Path) -> None:
    made = rollouts("ngram", 4, [10.0, 10.0, 10.0])  # of 2 prompts × 4: 24 records
    folder(tmp_path / "2026-01-31" / "12-00-00-a", replace(made, wall_s=60.0), id="12-00-00-a")
    past = read_past(tmp_path)
    assert past.points[0].requests == 24
    assert estimate(planned(made.point), past).run_s == pytest.approx(60.0)
    twice = replace(made.point, repeats=2)
    assert estimate(planned(twice), past).run_s == pytest.approx(60.0 / 5 * 8)


def test_several_turns_of_a_prompt_are_several_requests(tmp_path: Path) -> None:
    talks = replace(CHAT, requests=12)  # two turns of each of the six prompts
    one = of("ngram", 4, dataset=talks)
    made = Made(point=one, records=tuple(record(f"p{n}", turn=t) for n in range(6) for t in (0, 1)))
    folder(tmp_path / "2026-01-31" / "12-00-00-a", replace(made, wall_s=70.0), id="12-00-00-a")
    assert estimate(planned(one), read_past(tmp_path)).run_s == pytest.approx(70.0)
    bound = replace(one, load=replace(SEQUENTIAL, requests=3))  # of first turns
    assert estimate(planned(bound), read_past(tmp_path)).run_s == pytest.approx(5.0 * (2 + 6))


def test_kept_and_skipped_points_take_no_time() -> None:
    asked = planned(of("ngram", 2), of("ngram", 4))
    assert len(estimate(asked).groups) == 2
    assert [g.key for g in estimate(asked, kept={0}).groups] == [asked.groups[1].key]
    assert estimate(asked, kept={0, 1}) == estimate(planned())


def test_a_profile_takes_another_start_of_every_server() -> None:
    once, twice = (
        estimate(planned(of("ngram", 4), baseline="shared"), profiled=p) for p in (False, True)
    )
    assert twice.total_s - once.total_s == pytest.approx(2 * START_S)


def test_gpu_hours_count_every_gpu_of_a_server() -> None:
    two = of("ngram", 4)
    two = replace(two, server=replace(two.server, args=("--tensor-parallel-size", "2")))
    found = estimate(planned(two))
    assert found.gpu_hours == pytest.approx(2 * found.total_s / 3600)
    assert estimate(planned(two), on_cpu=lambda _: True).gpu_hours == 0


def test_broken_and_old_sweeps_are_passed_over(tmp_path: Path) -> None:
    earlier(tmp_path, "12-00-00-a", of("ngram", 4))
    earlier(tmp_path, "13-00-00-b", of("ngram", 4))
    (tmp_path / "2026-01-31" / "13-00-00-b" / "sweep.json").write_text("{")
    for path in tmp_path.glob("*/*/servers/*/server.json"):
        path.write_text("[]")
    past = read_past(tmp_path)
    assert [p.sweep for p in past.points] == ["12-00-00-a"]
    assert past.starts == ()


def test_only_the_newest_are_read(tmp_path: Path) -> None:
    for number in range(NEWEST + 1):
        earlier(tmp_path, f"12-00-{number:02d}-a", of("ngram", 4))
    assert {p.sweep for p in read_past(tmp_path).points} == {
        f"12-00-{number:02d}-a" for number in range(1, NEWEST + 1)
    }


def test_no_outputs_yet(tmp_path: Path) -> None:
    assert read_past(tmp_path / "nowhere") == Past()
