"""Synthetic acceptance, by what the server resolved: never measured unless it was asked for."""

from __future__ import annotations

from sweeper.serve.identity import resolved_speculation
from sweeper.values import Json, Point

HOW = "rejection_sample_method"


def refused(point: Point, info: Json | None) -> str:
    """Why ``point`` is not measured on the server that says ``info`` of itself; empty if it is."""
    resolved = resolved_speculation(info)
    if resolved is None:
        return ""
    synthetic = resolved.get(HOW) == "synthetic"
    if synthetic and point.control == "none":
        return (
            f"the server resolved {HOW}=synthetic: drafts are accepted by a fixed rate, which is "
            f"no measurement of them; serve without it, or measure a control with control=synthetic"
        )
    if point.control == "synthetic" and not synthetic:
        return (
            f"control=synthetic: the server resolved {HOW}={resolved.get(HOW) or 'standard'} and "
            f"verifies its drafts; measure it with control=none"
        )
    return ""
