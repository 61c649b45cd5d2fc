"""Acceptance and speed-up by category and by length as small tables, the same for every page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from sweeper.judge.bootstrap import Figure
from sweeper.judge.compare import Comparison
from sweeper.judge.shown import say
from sweeper.judge.slices import Slice
from sweeper.report.labels import Group, labels

KEY = "A/D, and 1+A/S after the slash; empty where nothing was drafted"
SPEED_KEY = "over the prompts of each, with its interval; empty where there is one prompt"


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceTable:
    """Rows of cells, the first row being the header; all rows are equally long. The first ``names``
    columns say what a row is."""

    title: str
    rows: tuple[tuple[str, ...], ...]
    key: str = KEY
    names: int = 2


def slice_tables(group: Group, *, intervals: bool) -> Iterator[SliceTable]:
    """Those of the tables that have something to show for a group."""
    arms = [c for c in group if c.completed and not c.point.is_baseline]
    names = labels(group)
    heads = tuple(names[c.number] for c in arms)
    by = {kind: [[s for s in c.slices if s.of == kind] for c in arms] for kind in _KINDS}

    def accepted(one: Slice) -> str:
        return _accepted(one, intervals)

    for title, key, kind, cell in (
        ("acceptance by category", KEY, "category", accepted),
        ("speed-up by category", SPEED_KEY, "category", lambda s: _interval(s.speedup, 2)),
        ("acceptance by tokens of the answer", KEY, "output length", accepted),
    ):
        yield from (replace(t, key=key) for t in _table(title, heads, by[kind], cell))
    yield from _so_far(heads, arms)


_KINDS = ("category", "output length")


def _table(
    title: str,
    heads: Sequence[str],
    of_arms: Sequence[Sequence[Slice]],
    cell: Callable[[Slice], str],
) -> Iterator[SliceTable]:
    """A row a slice; nothing where a single one is all there is, or all cells are empty."""
    found = [{s.name: s for s in of_one} for of_one in of_arms]
    kinds = list(dict.fromkeys(name for of_one in found for name in of_one))
    requests = {kind: max(of[kind].requests for of in found if kind in of) for kind in kinds}
    rows = [
        (kind, str(requests[kind]), *(cell(of[kind]) if kind in of else "" for of in found))
        for kind in kinds
    ]
    if len(kinds) > 1 and any(any(row[2:]) for row in rows):
        yield SliceTable(title=title, rows=(("", "requests", *heads), *rows))


def _so_far(heads: Sequence[str], arms: Sequence[Comparison]) -> Iterator[SliceTable]:
    """A request grows through several ranges, so no count of requests belongs to one."""
    found = [{part.name: part for part in c.lengths} for c in arms]
    kinds = list(dict.fromkeys(name for of_one in found for name in of_one))
    rows = tuple(
        (
            kind,
            *(
                f"{of[kind].acceptance_rate:.3f} / {of[kind].mean_acceptance_length:.2f}"
                if kind in of
                else ""
                for of in found
            ),
        )
        for kind in kinds
    )
    if len(kinds) > 1:
        title = "acceptance by tokens of prompt and answer"
        yield SliceTable(title=title, rows=(("", *heads), *rows), names=1)


def _accepted(one: Slice, intervals: bool) -> str:
    rate, length = one.rates.acceptance_rate, one.rates.mean_acceptance_length
    if rate.value is None or length.value is None:
        return ""
    shown = _interval(rate, 3) if intervals else f"{rate.value:.3f}"
    return f"{shown} / {length.value:.2f}"


def _interval(figure: Figure, digits: int) -> str:
    if figure.value is None:
        return ""
    return say(figure, digits)
