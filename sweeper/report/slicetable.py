"""Small tables on a terminal: as many settings beside each other as there is room for."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sweeper.report.labels import Group
from sweeper.report.slices import SliceTable
from sweeper.report.steps import small_tables

GAP = 2


def print_slices(console: Console, group: Group) -> None:
    """Every table of a group, in parts where it is wider than the terminal."""
    for found in small_tables(group, intervals=False):
        console.print(Text(f"{found.title} ({found.key})", style="bold"))
        print_parts(console, found)


def print_parts(console: Console, found: SliceTable) -> None:
    """The table without its title, in as many parts as the terminal's width asks for."""
    for columns in parts(found, console.width):
        console.print(_table(found, columns))
        console.print()


def parts(found: SliceTable, width: int) -> Iterator[tuple[int, ...]]:
    """Numbers of the columns of each part, which begins with those that name its rows; a single
    column that is too wide stands alone."""
    widths = [GAP + max(map(_width, column)) for column in zip(*found.rows, strict=True)]
    names = tuple(range(found.names))
    room = width - sum(widths[: found.names])
    now: list[int] = []
    for column in range(found.names, len(widths)):
        if now and sum(widths[c] for c in (*now, column)) > room:
            yield names + tuple(now)
            now = []
        now.append(column)
    if now:
        yield names + tuple(now)


def _width(cell: str) -> int:
    return max(map(cell_len, cell.split("\n")))


def _table(found: SliceTable, columns: tuple[int, ...]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
    head, *rows = found.rows
    for column in columns:
        table.add_column(Text(head[column]), justify="right" if column and head[column] else "left")
    for cells in rows:
        table.add_row(*(Text(cells[column]) for column in columns))
    return table
