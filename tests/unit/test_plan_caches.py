"""A suffix tree over all requests of a server, and caches that are to be cold."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from sweeper.config import settings_from_mapping
from sweeper.plan.grid import plan
from sweeper.prepare import Composed, prepare
from sweeper.values import Baselines, Cache, Job
from tests.unit.asked import _composed
from tests.unit.sweeps import point


def refusals(*changes: dict[str, Any], tree: int = 1000) -> list[str]:
    composed = []
    for change in changes:
        data = json.loads(_composed("suffix"))
        data["method"]["speculative"]["suffix_decoding_max_cached_requests"] = tree
        data["preflight"] = False
        for path, value in change.items():
            *parents, last = path.split("__")
            node = data
            for part in parents:
                node = node[part]
            node[last] = value
        settings_from_mapping(data)
        composed.append(Composed(overrides=(), data=data))
    found = prepare(composed).plan.refusals
    return [line for r in found for line in r.reason.splitlines() if line.startswith("cache")]


SHARED = (
    "cache: cold: suffix keeps a tree over all earlier requests, which only a new server empties, "
    "and there are several repeats; use cache=warm or cache=as_is, or "
    "method.speculative.suffix_decoding_max_cached_requests=0"
)


def test_a_second_repeat_cannot_find_a_cold_tree() -> None:
    assert refusals({"repeats": 2}) == [SHARED]


@pytest.mark.parametrize(
    ("cache", "baseline", "groups"),
    [
        ("cold", "shared", [["none"], ["suffix"], ["suffix"]]),
        ("cold", "per_group", [["none", "suffix"], ["none", "suffix"]]),
        ("as_is", "shared", [["none", "none"], ["suffix", "suffix"]]),
    ],
)
def test_each_point_with_a_cold_tree_has_a_fresh_server(
    cache: Cache, baseline: Baselines, groups: list[list[str]]
) -> None:
    one = point("suffix", 4, cache=cache)
    assert one.keeps_tree
    two = replace(one, dataset=replace(one.dataset, digest="other"))
    jobs = [Job(number=n, overrides=(), point=p) for n, p in enumerate((one, two))]
    found = plan(jobs, baseline=baseline)
    methods = [[p.point.method for p in group.points] for group in found.groups]
    assert [sorted(set(m)) if cache == "cold" and m[0] == "none" else m for m in methods] == groups
    assert len({group.key for group in found.groups}) == len(found.groups)
    assert all(p.baseline is not None for p in found.points if not p.point.is_baseline)


def test_one_point_or_a_declared_state_is_fine() -> None:
    assert refusals({}) == []
    assert refusals({"repeats": 2, "cache": "warm"}) == []
    assert refusals({"repeats": 2}, tree=0) == []
