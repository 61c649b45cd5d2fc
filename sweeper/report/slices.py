"""Acceptance by category and by length as small tables, the same for every page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sweeper.judge.bootstrap import Figure
from sweeper.judge.compare import Comparison
from sweeper.judge.parts import Part
from sweeper.report.labels import Group, labels

KEY = "A/D, and 1+A/S after the slash; empty where nothing was drafted"


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceTable:
    """Rows of cells, the first row being the header; all rows are equally long."""

    title: str
    rows: tuple[tuple[str, ...], ...]


def slice_tables(group: Group, *, intervals: bool) -> Iterator[SliceTable]:
    """Those of the tables that have something to show for a group."""
    arms = [c for c in group if c.completed and not c.point.is_baseline]
    names = labels(group)
    for title, parts in (
        ("acceptance by category", [c.categories for c in arms]),
        ("acceptance by tokens of prompt and answer", [c.lengths for c in arms]),
    ):
        kinds = list(dict.fromkeys(s.name for of_one in parts for s in of_one))
        if len(kinds) > 1 and any(s.drafted for of_one in parts for s in of_one):
            head = ("", "requests", *(names[c.number] for c in arms))
            if all(s.requests is None for of_one in parts for s in of_one):
                head = ("", *head[2:])
            rows = tuple(_row(kind, arms, parts, len(head), intervals) for kind in kinds)
            yield SliceTable(title=title, rows=(head, *rows))


def _row(
    kind: str,
    arms: Sequence[Comparison],
    parts: Sequence[Sequence[Part]],
    width: int,
    intervals: bool,
) -> tuple[str, ...]:
    found = [next((s for s in of_one if s.name == kind), None) for of_one in parts]
    requests = max((s.requests or 0 for s in found if s), default=0)
    first = (kind, str(requests)) if width > len(arms) + 1 else (kind,)
    return (*first, *(_cell(one, intervals) for one in found))


def _cell(one: Part | None, intervals: bool) -> str:
    if one is None or one.acceptance_rate.value is None:
        return ""
    rate, length = one.acceptance_rate, one.mean_acceptance_length
    shown = f"{rate.value:.3f}{_interval(rate) if intervals else ''}"
    return f"{shown} / {length.value:.2f}"


def _interval(figure: Figure) -> str:
    if figure.low is None or figure.high is None:
        return ""
    return f" [{figure.low:.3f}, {figure.high:.3f}]"
