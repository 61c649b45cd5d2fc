"""The points of a plan, one row each, with the settings that tell rows of one name apart."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sweeper.durations import clock
from sweeper.judge.conditions import conditions_key, told_apart
from sweeper.plan.estimate import Estimate
from sweeper.report.labels import drafting_apart
from sweeper.values import Dataset, Plan, PlannedPoint, Point

COLUMNS = ("point", "method", "γ", "dataset", "prompts", "sampling", "load", "server", "about",
           "note")  # fmt: skip
RIGHT = ("point", "γ", "prompts", "server", "about")
GAP = 2
SERVER = ("command", "base_url", "workarounds")
"""What else can differ between servers that have one method and the same conditions."""


def print_points(
    console: Console, plan: Plan, found: Estimate | None, kept: Collection[int]
) -> None:
    """A row a point in the order of their servers; below it what else is set there, where another
    row has the same names."""
    points = [
        (number, p)
        for number, group in enumerate((s for g in plan.groups for s in g.starts), start=1)
        for p in group.points
    ]
    seconds = found.seconds() if found else {}
    rows = [_cells(number, p, seconds.get(p.number), kept) for number, p in points]
    widths = _widths((COLUMNS, *rows), console.width)
    more = settings_apart([p for _, p in points])
    console.print(_line(COLUMNS, widths, "bold"))
    for cells, (_, planned) in zip(rows, points, strict=True):
        console.print(_line(cells, widths, ""))
        if text := more[planned.number]:
            console.print(Padding.indent(Text(text), widths[0] + GAP))


def settings_apart(points: Sequence[PlannedPoint]) -> dict[int, str]:
    """By number, the settings in which points differ that a table calls the same; empty where its
    names are enough."""
    conditions = told_apart((p.point for p in points), _called)
    texts = {p.number: conditions[conditions_key(p.point)] for p in points}
    for apart in (_drafting, _server):
        alike: dict[tuple[str, ...], list[PlannedPoint]] = {}
        for p in points:
            name = (p.point.label, p.point.before, _called(p.point), texts[p.number])
            alike.setdefault(name, []).append(p)
        for of_one_name in alike.values():
            for p in of_one_name:
                said = " ".join(apart(p.point, [other.point for other in of_one_name]))
                texts[p.number] = " · ".join(filter(None, (texts[p.number], said)))
    return texts


def _called(point: Point) -> str:
    return " · ".join((point.dataset.label, point.sampling.name, point.load.label))


def _drafting(point: Point, alike: Sequence[Point]) -> Iterator[str]:
    if len({each.warm for each in alike}) > 1:
        yield f"method.warm={str(point.warm).lower()}"
    for key, value in drafting_apart(point, alike):
        yield f"method.speculative.{key}={value}"


def _server(point: Point, alike: Sequence[Point]) -> Iterator[str]:
    for name in SERVER:
        if len({getattr(each.server, name) for each in alike}) > 1:
            value = getattr(point.server, name)
            said = " ".join(value) if isinstance(value, tuple) else value
            yield f"server.{name}={said or 'none'}"


def _cells(
    server: int, planned: PlannedPoint, seconds: float | None, kept: Collection[int]
) -> tuple[str, ...]:
    point = planned.point
    return (
        str(planned.number),
        point.method,
        str(point.gamma) if point.gamma else "–",
        point.dataset.label,
        _prompts(point.dataset),
        point.sampling.name,
        point.load.label,
        str(server),
        "–" if seconds is None else clock(seconds),
        _note(planned, kept),
    )


def _prompts(dataset: Dataset) -> str:
    turns = f" ({dataset.requests} turns)" if dataset.requests else ""
    return f"{dataset.prompts}{turns}"


def _note(planned: PlannedPoint, kept: Collection[int]) -> str:
    if planned.skip:
        return "skipped"
    if planned.number in kept:
        return "kept"
    if planned.point.before:
        return "of the next server"
    return "" if planned.jobs else "added"


def _widths(rows: Sequence[Sequence[str]], room: int) -> list[int]:
    """As wide as the longest cell, the widest columns narrower where all do not fit."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    while sum(widths) + GAP * (len(widths) - 1) > room and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1
    return widths


def _line(cells: Sequence[str], widths: Sequence[int], style: str) -> Table:
    row = Table.grid(padding=(0, GAP, 0, 0), pad_edge=False)
    for name, width in zip(COLUMNS, widths, strict=True):
        justify = "right" if name in RIGHT else "left"
        row.add_column(width=width, justify=justify, overflow="fold")  # type: ignore[arg-type]
    row.add_row(*(Text(cell) for cell in cells), style=style)
    return row
