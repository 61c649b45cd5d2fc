"""Points of other conditions are another workload, also where every name is the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sweeper.judge.conditions import called, told_apart
from sweeper.judge.judgement import judge
from sweeper.judge.verdict import Judgement
from sweeper.judge.words import lines, recommended
from sweeper.report.labels import groups, heading
from sweeper.report.markdown import markdown
from sweeper.report.page.loads import families
from sweeper.report.page.verdicts import verdicts
from sweeper.report.runs import child
from sweeper.store import read_sweep
from sweeper.values import Load, Point
from tests.unit.sweeps import CHAT, GREEDY, Made, folder, point
from tests.unit.test_judgement import LOOKUP, answers, closed, streamed

SERVER = point("none", 0).server
WARM = replace(GREEDY, temperature=0.7)
CODE = "chat · greedy · sequential · org/model"


def under(method: str, gamma: int, changes: dict[str, Any]) -> Point:
    """Changes of the point, or of its server."""
    made = point(method, gamma, **{k: v for k, v in changes.items() if not hasattr(SERVER, k)})
    ours = {k: v for k, v in changes.items() if hasattr(SERVER, k)}
    return replace(made, server=replace(made.server, **ours))


def two(path: Path, *pairs: dict[str, Any]) -> Judgement:
    """A baseline of 2 s and an ngram γ=4 of 1 s, then 3 s, a prompt, under each conditions."""
    made = []
    for n, changes in enumerate(pairs):
        seconds = 1.0 + 2.0 * n
        made += [
            Made(point=under("none", 0, changes), records=answers(2.0)),
            Made(
                point=under("ngram", 4, changes),
                records=answers(seconds, spec=LOOKUP, steps=12),
                baseline=2 * n,
            ),
        ]
    return judge(folder(path, *made))


@pytest.mark.parametrize(
    ("one", "other", "names"),
    [
        ({"cache": "cold"}, {"cache": "warm"}, ("cache=cold", "cache=warm")),
        (
            {"sampling": GREEDY},
            {"sampling": WARM},
            ("sampling.temperature=0", "sampling.temperature=0.7"),
        ),
        (
            {"dataset": replace(CHAT, limit=6)},
            {"dataset": replace(CHAT, limit=None, prompts=48)},
            ("dataset.limit=6", "dataset.limit=null"),
        ),
        (
            {"args": ("--dtype", "float32")},
            {"args": ()},
            ("server.args=--dtype float32", "server.args=none"),
        ),
        (
            {"model": "/models/a"},
            {"model": "/models/b"},
            ("server.model=/models/a", "server.model=/models/b"),
        ),
        (
            {"dataset": replace(CHAT, digest="0123456789ab")},
            {"dataset": replace(CHAT, digest="fedcba987654")},
            ("dataset.digest=01234567", "dataset.digest=fedcba98"),
        ),
    ],
)
def test_conditions_that_are_called_the_same_are_two_workloads(
    tmp_path: Path, one: dict[str, Any], other: dict[str, Any], names: tuple[str, str]
) -> None:
    found = two(tmp_path, one, other)
    assert [w.name for w in found.workloads] == [f"{CODE} · {more}" for more in names]
    assert [[c.number for c in w.candidates] for w in found.workloads] == [[1], [3]]
    first, second = found.workloads
    assert first.verdict != "don't" and second.verdict == "don't"


def test_every_output_names_them_apart(tmp_path: Path) -> None:
    found = two(tmp_path, {"cache": "cold"}, {"cache": "warm"})
    names = [f"{CODE} · cache={cache}" for cache in ("cold", "warm")]
    assert [line.partition(": ")[0] for line in lines(found) if line.startswith("chat")] == names
    assert [card.workload for card in verdicts(found)[1:]] == names
    caches = ["cache=cold", "cache=warm"]
    assert [w["conditions"] for w in recommended(found)["workloads"]] == caches
    titles = [heading(group) for group in groups(found.comparisons)]
    assert [title.rpartition(" · ")[2] for title in titles] == caches
    home = folder(tmp_path)
    sweep = read_sweep(home)
    text = markdown(found)
    assert all(f"**{name}: " in text for name in names)
    runs = [child(home, sweep, one, found) for one in found.comparisons]
    assert [run.params["conditions"] for run in runs] == [c for c in caches for _ in range(2)]
    notes = [run.tags["mlflow.note.content"] for run in runs]
    assert all(names[n // 2] in note for n, note in enumerate(notes))


def test_where_names_are_enough_nothing_is_added() -> None:
    alone = told_apart([point("none", 0), point("ngram", 4)], called)
    assert list(alone.values()) == [""]


def test_arrivals_tell_open_loads_apart() -> None:
    loads = [Load(name="open", rate=2.0, stream=True, arrivals=a) for a in ("poisson", "constant")]
    found = told_apart([point("none", 0, load=load) for load in loads], called)
    assert list(found.values()) == ["load.arrivals=poisson", "load.arrivals=constant"]


def test_schedules_and_lines_over_loads_are_of_one_condition(tmp_path: Path) -> None:
    made: list[Made] = []
    for cache in ("cold", "warm"):
        for concurrency in (1, 8):
            changes = {"load": closed(concurrency), "cache": cache}
            fast = streamed(answers(1.0, spec=LOOKUP, steps=None))
            base = Made(point=point("none", 0, **changes), records=streamed(answers(2.0)))
            made += [
                base,
                Made(point=point("ngram", 4, **changes), records=fast, baseline=len(made)),
            ]
    found = judge(folder(tmp_path, *made))
    assert [one.name for one in found.schedules] == [
        f"chat · greedy · all loads · org/model · cache={cache}" for cache in ("cold", "warm")
    ]
    assert [s.recommendation.schedule for s in found.schedules] == [
        ((1, 1, 4), (2, 8, 4), (9, 4096, 0))
    ] * 2
    lined = families(found.comparisons)
    assert {name: [c.number for c in each] for name, each in lined.items()} == {
        "chat · greedy · org/model · cache=cold": [0, 1, 2, 3],
        "chat · greedy · org/model · cache=warm": [4, 5, 6, 7],
    }


def test_curves_are_of_one_server(tmp_path: Path) -> None:
    """Flags of the server are no part of a workload, and γ of two servers make no curve."""

    def flagged(method: str, gamma: int, flag: str) -> Point:
        one = point(method, gamma)
        return replace(one, server=replace(one.server, args=("--dtype", flag)))

    made: list[Made] = []
    for flag in ("float32", "bfloat16"):
        base, fast = flagged("none", 0, flag), flagged("ngram", 4, flag)
        made += [
            Made(point=base, records=answers(2.0)),
            Made(point=fast, records=answers(1.0, spec=LOOKUP), baseline=len(made)),
        ]
    found = judge(folder(tmp_path, *made))
    assert [curve.source for w in found.workloads for curve in w.curves] == [1, 3]
    assert json.dumps(recommended(found))
