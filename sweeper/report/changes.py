"""What changed between two sweeps, on a terminal and on the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sweeper.judge.across import Across
from sweeper.judge.bootstrap import Figure
from sweeper.judge.shown import say
from sweeper.store import SweepFolder

THRESHOLD = 0.05
"""Losses up to this share are not flagged unless something else is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRow:
    """A line of the page's table; ``lost`` names what became significantly worse."""

    setting: str
    rate: str
    acceptance: str
    same: str
    lost: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Since:
    """An earlier sweep and what changed since."""

    before: str
    rows: tuple[ChangeRow, ...]
    sentences: tuple[str, ...]


def since(before: SweepFolder, found: Across, threshold: float = THRESHOLD) -> Since:
    """For the page of the later sweep."""
    rows = (
        ChangeRow(
            setting=one.name,
            rate=_say(one.rate),
            acceptance=_say(one.acceptance),
            same=_share(one.same),
            lost=" and ".join(one.lost(threshold)),
        )
        for one in found.changes
        if not one.refused
    )
    sentences = tuple(_sentences(found, threshold))
    return Since(before=str(before.path), rows=tuple(rows), sentences=sentences)


def print_across(
    console: Console, before: SweepFolder, after: SweepFolder, found: Across, threshold: float
) -> None:
    """The table of changes, what differs, and the losses last."""
    console.print(Text(f"before: {before.path}\nafter:  {after.path}"), soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("setting", overflow="fold")
    for name in ("output rate", "acceptance", "same output"):
        table.add_column(name, justify="right")
    for one in (c for c in found.changes if not c.refused):
        style = "red" if one.lost(threshold) else ""
        cells = (_say(one.rate), _say(one.acceptance), _share(one.same))
        table.add_row(Text(one.name), *cells, style=style)
    console.print(table)
    for line in _sentences(found, threshold):
        console.print(Text(line), soft_wrap=True)


def _sentences(found: Across, threshold: float) -> Iterator[str]:
    differs = dict.fromkeys(text for one in found.changes for text in one.differs)
    yield from (f"differs: {text}" for text in differs)
    yield from (f"not comparable: {c.name}: {c.refused}" for c in found.changes if c.refused)
    yield from (f"only before: {name}" for name in found.only_before)
    yield from (f"only after: {name}" for name in found.only_after)
    lost = found.lost(threshold)
    for one in lost:
        yield f"LOSS: {one.name}: {' and '.join(one.lost(threshold))}"
    if all(one.refused or one.rate.value is None for one in found.changes):
        yield "nothing could be compared"
    elif not lost:
        yield f"no significant loss of more than {100 * threshold:g} %"


def _say(figure: Figure) -> str:
    none = figure.value is None and figure.reason == "no speculation"
    return "-" if none else say(figure)


def _share(figure: Figure) -> str:
    return "-" if figure.value is None else f"{100 * figure.value:.0f} %"
