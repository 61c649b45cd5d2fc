"""A sweep as the page's template wants it: rows, groups, choices, provenance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sweeper.judge.bootstrap import undefined
from sweeper.judge.compare import Comparison
from sweeper.report.columns import figures
from sweeper.report.labels import Group, footnotes, groups, labels
from sweeper.report.page.cells import Cell, Column, number
from sweeper.report.page.drawing import Undrawn
from sweeper.values import Json, Sweep

FACETS = ("target", "dataset", "sampling", "load", "conditions", "method", "status")
"""What the table can be narrowed by, where there is more than one of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A point; ``facets`` in the order of :data:`FACETS`."""

    number: int
    name: str
    facets: tuple[str, ...]
    gamma: int
    baseline: bool
    cells: tuple[Cell, ...]
    quality: Cell
    status: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """``svg`` is trusted markup made here; ``caption`` says what is to be seen."""

    name: str
    title: str
    caption: str
    svg: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The points that share a baseline, what is drawn of them, and what could not be."""

    title: str
    remarks: tuple[str, ...]
    plots: tuple[Plot, ...]
    missing: tuple[Undrawn, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facet:
    """A choice above the table."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A line of the provenance: equal for all points, or said once for each value."""

    name: str
    values: tuple[str, ...]


def rows(comparisons: Sequence[Comparison], columns: Sequence[Column]) -> tuple[Row, ...]:
    """Group by group, the baseline of each first."""
    return tuple(row for group in groups(comparisons) for row in _rows(group, columns))


def _rows(group: Group, columns: Sequence[Column]) -> Iterator[Row]:
    names = labels(group)
    for one in group:
        yield Row(
            number=one.number,
            name=names[one.number],
            facets=_facets(one),
            gamma=one.point.gamma,
            baseline=one.point.is_baseline,
            cells=tuple(column.cell(one) for column in columns),
            quality=_quality(one),
            status=one.status,
            reason=one.reason,
        )


def _quality(one: Comparison) -> Cell:
    figure = figures(one).get("quality", undefined("this version does not measure it"))
    return number(figure, 0, percent=True)


def _facets(one: Comparison) -> tuple[str, ...]:
    point = one.point
    return (
        point.target,
        point.dataset.name,
        point.sampling.name,
        point.load.label,
        one.conditions or "–",
        point.method,
        one.status,
    )


def facets(table: Sequence[Row]) -> tuple[Facet, ...]:
    """The choices that tell points apart."""
    found = (
        Facet(name=name, values=tuple(dict.fromkeys(row.facets[n] for row in table)))
        for n, name in enumerate(FACETS)
    )
    return tuple(facet for facet in found if len(facet.values) > 1)


def warnings(comparisons: Sequence[Comparison]) -> tuple[str, ...]:
    """What a reader must know before trusting a number."""
    failed = [c for c in comparisons if not c.completed]
    lost = (f"{len(failed)} of {len(comparisons)} points have no figures; see their status.",)
    return (*(lost if failed else ()), *footnotes(comparisons))


def provenance(sweep: Sweep, comparisons: Sequence[Comparison]) -> tuple[Fact, ...]:
    """How the sweep was made, and on what; sections of the points' own provenance merged."""
    found: dict[str, dict[str, None]] = {
        "sweep": {sweep.id: None},
        "started": {sweep.created_at: None},
        "command": {" ".join(sweep.command): None},
    }
    for one in comparisons:
        recorded = one.result.provenance if one.result else None
        for section in ("host", "versions", "engine", "caches", "model"):
            for name, value in _leaves(section, _get(recorded, section)):
                found.setdefault(name, {})[value] = None
    for one in comparisons:
        dataset = one.point.dataset
        name = f"dataset {dataset.name}"
        found.setdefault(name, {})[f"{dataset.prompts} prompts, sha256 {dataset.digest}"] = None
    return tuple(Fact(name=name, values=tuple(values)) for name, values in found.items())


def _get(recorded: Json, section: str) -> Json:
    return recorded.get(section) if isinstance(recorded, dict) else None


def _leaves(path: str, value: Json) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _leaves(f"{path}.{name}", item)
    elif value not in (None, [], ""):
        yield path, ", ".join(map(str, value)) if isinstance(value, list) else str(value)
