"""A suffix tree over all requests of a server, and caches that are to be cold."""

from __future__ import annotations

import json
from typing import Any

from sweeper.config import settings_from_mapping
from sweeper.prepare import Composed, prepare
from tests.unit.asked import _composed


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
    "and there are several {}; use cache=warm or cache=as_is, or "
    "method.speculative.suffix_decoding_max_cached_requests=0"
)


def test_a_second_point_or_repeat_cannot_find_a_cold_tree() -> None:
    assert refusals({}, {"repeats": 1, "load__warmup_requests": 3}) == [
        SHARED.format("points on one server")
    ]
    assert refusals({"repeats": 2}) == [SHARED.format("repeats")]


def test_one_point_or_a_declared_state_is_fine() -> None:
    assert refusals({}) == []
    assert refusals({"repeats": 2, "cache": "warm"}) == []
    assert refusals({"repeats": 2}, tree=0) == []
