"""Caches in a declared state before every repeat, and what of the prompts came from them."""

from __future__ import annotations

from sweeper.serve.endpoint import Endpoint
from sweeper.values import Json, Point

NOT_RESET = (
    "cache=cold: the prefix cache could not be reset before this point (the server offers no "
    "/reset_prefix_cache)"
)


def make_cold(endpoint: Endpoint) -> str:
    """Empty the prefix cache; the answer is why that was not possible, else empty."""
    return "" if endpoint.reset_prefix_cache() else NOT_RESET


def state(point: Point, reset: bool) -> dict[str, Json]:
    """For the provenance: two points are compared only where this is equal.

    ``suffix_tree`` is ``None`` without a tree over earlier requests, and then says nothing about
    an arm that has one.
    """
    prefix = {
        "cold": "reset before every repeat" if reset else "not reset",
        "warm": "filled with the prompts before measuring",
        "as_is": "left as it was",
    }[point.cache]
    if point.cache == "cold" and reset and not point.load.by_repeat:
        prefix = "reset before the load"
    return {
        "policy": point.cache,
        "prefix": prefix,
        "suffix_tree": "over all requests of this server" if point.keeps_tree else None,
    }


def warnings(point: Point) -> list[str]:
    """What the policy cannot do under this load."""
    if point.cache == "cold" and not point.load.by_repeat and point.repeats > 1:
        return [
            "cache=cold: a load that is bound by time or sends prompts again runs through, so its "
            "caches were reset once before it and not before every repeat"
        ]
    return []
