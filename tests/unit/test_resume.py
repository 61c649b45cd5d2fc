"""What a resumed sweep keeps, and what it calls another sweep."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sweeper import store
from sweeper.errors import StoreError, UserError
from sweeper.resume import arrange, differences, refuse_changes
from sweeper.store import SweepFolder
from sweeper.values import Plan, PlannedPoint, Sweep
from tests.unit.sweeps import GREEDY, Made, folder, point, record

VERSIONS: dict[str, Any] = {"sweeper": "0.1.0"}


def made(tmp_path: Path) -> tuple[SweepFolder, Sweep]:
    """Three points: completed, lost with a torn line, completed under another sweep's name."""
    found = folder(
        tmp_path / "sweep",
        Made(point=point("none", 0), records=(record("a"),)),
        Made(point=point("ngram", 2), records=(record("a"),), status="lost", reason="killed"),
        Made(point=point("ngram", 4), records=(record("a"),)),
    )
    sweep = store.read_sweep(found)
    for planned in sweep.plan.points:
        result = found.point(planned).read_result()
        assert result
        name = "another" if planned.number == 2 else sweep.id
        same = replace(result, sweep=name, key=planned.key)
        store.write_json(found.point(planned).result, store.to_json(same))
    return found, sweep


def as_measured(found: SweepFolder) -> Sweep:
    """Every result under the name of its sweep."""
    sweep = store.read_sweep(found)
    for planned in sweep.plan.points:
        result = found.point(planned).read_result()
        assert result
        store.write_json(
            found.point(planned).result, store.to_json(replace(result, sweep=sweep.id))
        )
    return sweep


def test_an_own_baseline_is_kept_with_its_points_only(tmp_path: Path) -> None:
    """A new measurement of the points right after it needs a new one of the baseline."""
    lost, whole = point("ngram", 2), point("suffix", 4)
    own = [replace(point("none", 0), before=p.server.key) for p in (lost, whole)]
    records = (record("a"),)
    found = folder(
        tmp_path / "sweep",
        Made(point=own[0], records=records),
        Made(point=lost, records=records, status="lost", reason="killed", baseline=0),
        Made(point=own[1], records=records),
        Made(point=whole, records=records, baseline=2),
    )
    sweep = as_measured(found)
    assert arrange(found, sweep, sweep.plan, same_versions=True) == {2, 3}
    assert found.point(sweep.plan.points[0]).read_result() is None


def renumbered(plan: Plan, *order: int) -> Plan:
    groups = [plan.groups[n] for n in order]
    return replace(
        plan,
        groups=tuple(
            replace(g, points=(replace(g.points[0], number=n),)) for n, g in enumerate(groups)
        ),
    )


def with_sampling(plan: Plan, **changes: Any) -> Plan:
    def changed(planned: PlannedPoint) -> PlannedPoint:
        new = replace(planned.point, sampling=replace(GREEDY, **changes))
        return replace(planned, point=new, key=new.key)

    groups = (replace(g, points=tuple(map(changed, g.points))) for g in plan.groups)
    return replace(plan, groups=tuple(groups))


def test_the_same_sweep_has_no_differences(tmp_path: Path) -> None:
    _, sweep = made(tmp_path)
    assert differences(sweep, sweep.plan, VERSIONS) == ()


def test_differences_name_the_setting(tmp_path: Path) -> None:
    found, sweep = made(tmp_path)
    listed = differences(sweep, with_sampling(sweep.plan, max_tokens=8), {"sweeper": "0.2.0"})
    assert listed == (
        "versions.sweeper: was '0.1.0', is '0.2.0'",
        "point 0 (none).sampling.max_tokens: was 96, is 8",
        "point 1 (ngram γ=2).sampling.max_tokens: was 96, is 8",
        "point 2 (ngram γ=4).sampling.max_tokens: was 96, is 8",
    )
    with pytest.raises(UserError) as caught:
        refuse_changes(found, listed[:1])
    assert str(caught.value) == (
        f"resume: this is not the sweep in {found.path}:\n"
        "  versions.sweeper: was '0.1.0', is '0.2.0'\n"
        "give the same settings, start a new sweep without resume, or measure what has changed "
        "again with resume_changed=rerun"
    )


def test_points_more_or_less_are_named(tmp_path: Path) -> None:
    _, sweep = made(tmp_path)
    assert differences(sweep, renumbered(sweep.plan, 0, 1), VERSIONS) == (
        "no longer asked for: ngram γ=4 on org/model, chat, greedy",
    )


def test_only_completed_points_of_this_sweep_are_kept(tmp_path: Path) -> None:
    found, sweep = made(tmp_path)
    assert arrange(found, sweep, sweep.plan, True) == {0}
    there = store.read_results(found, sweep.plan)
    assert list(there) == [0]
    assert len(list(found.path.glob("superseded/*/requests.jsonl"))) == 2
    # and once more: nothing is left to move
    assert arrange(found, sweep, sweep.plan, True) == {0}
    assert len(list(found.path.glob("superseded/*"))) == 2


def test_kept_points_follow_their_new_numbers(tmp_path: Path) -> None:
    found, sweep = made(tmp_path)
    plan = renumbered(sweep.plan, 2, 1, 0)
    assert arrange(found, sweep, plan, True) == {2}
    result = found.point(plan.points[2]).read_result()
    assert result and (result.number, result.key) == (2, sweep.plan.points[0].key)
    assert len(found.point(plan.points[2]).records()) == 1
    assert not list(found.path.glob("points/old-*"))


def test_with_other_versions_nothing_is_kept(tmp_path: Path) -> None:
    found, sweep = made(tmp_path)
    assert arrange(found, sweep, sweep.plan, False) == set()
    assert store.read_results(found, sweep.plan) == {}


def test_a_torn_line_is_counted_and_left_out(tmp_path: Path) -> None:
    found, sweep = made(tmp_path)
    home = found.point(sweep.plan.points[0])
    with home.requests.open("a") as file:
        file.write('{"prompt_id": "b", "cat')
    assert home.count() == (1, 1)
    assert len(home.records()) == 1


def test_one_process_at_a_time(tmp_path: Path) -> None:
    found, _ = made(tmp_path)
    with store.only_writer(found), pytest.raises(StoreError) as caught, store.only_writer(found):
        pass
    assert str(caught.value) == (
        f"{found.path} is in use: another process measures, watches or collects this sweep"
    )
