"""What a plot is before it is on the page, and what several plots share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweeper.judge.compare import Comparison

Styles = Mapping[str, tuple[str, str]]
"""Colour and marker by method."""
FURTHEST = 1e4


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A figure of matplotlib, and what it shows in words."""

    name: str
    title: str
    caption: str
    figure: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Undrawn:
    """A plot that is not there, and why: a whole sentence part."""

    title: str
    reason: str


def not_measured(title: str, reasons: Iterable[str]) -> Undrawn:
    """With every different reason once."""
    known = "; ".join(dict.fromkeys(r.removeprefix("not measured: ") for r in reasons if r))
    return Undrawn(title=title, reason=f"not measured: {known or 'no figures'}")


def fit_height(ax: Any, values: Sequence[float], ends: Sequence[float]) -> str:
    """An interval may be a hundred times its figure: the axis ends at twice the largest figure,
    and the sentence to add to the caption says so where an interval goes on."""
    top = 2 * max(1.0, *values)
    if max(ends) <= top:
        return ""
    ax.set_ylim(0, top)
    return " Intervals that reach the upper edge go on."


def drawable(end: float) -> float:
    """An end of an interval that a file of a drawing can hold: some have forty digits."""
    return min(end, FURTHEST)


def by_method(points: Sequence[Comparison]) -> dict[str, list[Comparison]]:
    """In order of appearance; those of one method by γ. Warm points are a method of their own."""
    found: dict[str, list[Comparison]] = {}
    for one in sorted(points, key=lambda c: c.point.gamma):
        found.setdefault(series(one), []).append(one)
    return found


def longest_drafts(points: Sequence[Comparison]) -> list[Comparison]:
    """Of each method the point with the most draft positions."""
    every = by_method(points).values()
    return [max(each, key=lambda c: len(c.acceptance.survival)) for each in every]


def series(one: Comparison) -> str:
    """The name of the line a point is on."""
    return f"{one.point.method} warm" if one.point.warm else one.point.method


def dots(ax: Any, points: Sequence[Comparison], x: Sequence[float], y: Sequence[float],
         look: tuple[str, str], label: str) -> None:  # fmt: skip
    """Markers that link to their points; a line joins them where there are several."""
    colour, marker = look
    ax.plot(x, y, color=colour, alpha=0.6, zorder=2)
    marks = ax.scatter(x, y, s=34, color=colour, marker=marker, label=label, zorder=3)
    marks.set_urls([f"#point-{c.number}" for c in points])
