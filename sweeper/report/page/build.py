"""Write ``report/index.html``, the plots as PNG files, and the requests beside the page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

import sweeper
from sweeper.errors import StoreError
from sweeper.judge.arms import read_arm
from sweeper.judge.compare import Comparison
from sweeper.judge.judgement import Judgement
from sweeper.measure.counted import OverTime, acceptance_over_time
from sweeper.report.changes import Since
from sweeper.report.labels import groups, heading, labels, remarks
from sweeper.report.page import answers as told
from sweeper.report.page.cells import shown as columns_of
from sweeper.report.page.curves import curve_drawing
from sweeper.report.page.drawing import Drawing, Undrawn, series
from sweeper.report.page.loads import families, load_drawings, no_loads
from sweeper.report.page.plots import drawings
from sweeper.report.page.profile import step_drawing
from sweeper.report.page.svg import markup, save, style, styles
from sweeper.report.page.verdicts import verdicts
from sweeper.report.page.view import (
    FACETS,
    Plot,
    Section,
    facets,
    provenance,
    rows,
    warnings,
)
from sweeper.store import SweepFolder, read_sweep, write_text
from sweeper.values import Json, Sweep

EMBED_BYTES = 3_000_000
"""Requests of a smaller sweep are in the page itself, which then can be mailed alone."""
OPEN_SECTIONS = 6
"""Workloads whose plots are drawn at once; the others when they are opened or printed."""
ALWAYS_SHOWN = ("dataset",)
_TEXTS = {
    name: (Path(__file__).parent / name).read_text(encoding="utf-8")
    for name in ("page.html.j2", "page.css", "page.js")
}
"""Read with the program and not hours later, when the files may be those of another version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Requests or prompts by the name the page asks for."""

    name: str
    json: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Requests:
    """What was read of the points' requests: blocks for the page, acceptance over time."""

    blocks: tuple[Block, ...]
    counts: dict[int, int]
    windows: dict[int, OverTime]
    prompts: dict[str, str]


def write_page(folder: SweepFolder, judgement: Judgement, changes: Sequence[Since] = ()) -> Path:
    """Everything that is read in a browser; ``changes`` since earlier sweeps; the page's path."""
    sweep, comparisons = read_sweep(folder), judgement.comparisons
    found = _requests(folder, comparisons)
    page = folder.page
    small = sum(len(block.json) for block in found.blocks) < EMBED_BYTES
    try:
        if not small:
            _write_beside(folder.report / "requests", found.blocks)
        with style():
            sections = tuple(_sections(folder.report, judgement, found))
        embedded = found.blocks if small else ()
        write_text(page, _render(sweep, judgement, found, sections, embedded, changes))
    except OSError as problem:
        raise StoreError(f"{folder.report}: cannot write the page: {problem}") from None
    return page


def _requests(folder: SweepFolder, comparisons: Sequence[Comparison]) -> _Requests:
    blocks, counts, windows = [], {}, {}
    prompts: dict[str, str] = {}
    coders: dict[tuple[str, str | None], Any] = {}
    for one in comparisons:
        point, model = one.point, (one.point.server.model, one.point.server.revision)
        records = read_arm(folder, one.planned).records
        if model not in coders:
            coders[model] = told.tokenizer_of(point)
        counts[one.number] = len(records)
        windows[one.number] = acceptance_over_time(records, one.result and one.result.counters)
        if records:
            text = told.block(told.answers(records, point, coders[model]))
            blocks.append(Block(name=str(one.number), json=text))
        if point.dataset.digest not in prompts:
            name = f"prompts-{point.dataset.digest[:12]}"
            prompts[point.dataset.digest] = name
            blocks.append(Block(name=name, json=told.block(told.prompts(point.dataset))))
    return _Requests(blocks=tuple(blocks), counts=counts, windows=windows, prompts=prompts)


def _write_beside(home: Path, blocks: Sequence[Block]) -> None:
    for block in blocks:
        name = json.dumps(int(block.name) if block.name.isdigit() else block.name)
        write_text(home / f"{block.name}.js", f"sweeperSide({name},{block.json});\n")


def _sections(report: Path, judgement: Judgement, found: _Requests) -> Iterator[Section]:
    comparisons = judgement.comparisons
    look = styles([series(c) for c in comparisons if not c.point.is_baseline])
    titles = {c.number: _pointed_at(c) for c in comparisons}
    loads = families(comparisons)
    for number, (title, family) in enumerate(loads.items(), start=1):
        plots, missing = _plots(report, f"loads-{number}", load_drawings(family), titles)
        yield Section(title=f"{title} over the load", remarks=(), plots=plots, missing=missing)
    for number, group in enumerate(groups(comparisons), start=1):
        name = f"{number:02d}-{_slug(group[0].point.dataset.name)}"
        drawn = chain(
            drawings(group, found.windows, look),
            curve_drawing(group, judgement.workloads, look),
            step_drawing(group),
        )
        plots, missing = _plots(report, name, drawn, titles)
        yield Section(title=heading(group), remarks=remarks(group), plots=plots, missing=missing)
    if not loads:
        yield Section(title="Over the load", remarks=(), plots=(), missing=no_loads())


def _plots(
    report: Path, name: str, drawn: Iterator[Drawing | Undrawn], titles: dict[int, str]
) -> tuple[tuple[Plot, ...], tuple[Undrawn, ...]]:
    plots, missing = [], []
    for one in drawn:
        if isinstance(one, Undrawn):
            missing.append(one)
            continue
        save(one.figure, report / f"{one.name}-{name}.png")
        label = f"{one.title}. {one.caption}"
        svg = Markup(markup(one.figure, label, titles))
        plots.append(Plot(name=one.name, title=one.title, caption=one.caption, svg=svg))
    return tuple(plots), tuple(missing)


def _pointed_at(one: Comparison) -> str:
    speed = one.speedup.value
    return one.point.label + (f": speed-up {speed:.2f}" if speed else "") + "; choose for requests"


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:40] or "dataset"


def _render(
    sweep: Sweep,
    judgement: Judgement,
    found: _Requests,
    sections: tuple[Section, ...],
    embedded: Sequence[Block],
    changes: Sequence[Since],
) -> str:
    comparisons = judgement.comparisons
    columns, notes = columns_of(comparisons), _Notes()
    table = rows(comparisons, columns)
    choices = facets(table)
    shown = [n for n in FACETS[:5] if n in ALWAYS_SHOWN or n in {c.name for c in choices}]
    return _template("page.html.j2").render(
        title=f"Speculative decoding: sweep {sweep.id}",
        css=Markup(_TEXTS["page.css"]),
        js=Markup(_TEXTS["page.js"]),
        sweep=sweep,
        completed=sum(c.completed for c in comparisons),
        synthetic=any(c.synthetic for c in comparisons),
        verdicts=verdicts(judgement),
        changes=changes,
        warnings=warnings(comparisons),
        open_sections=OPEN_SECTIONS,
        facets=choices,
        facet_numbers={name: n for n, name in enumerate(FACETS)},
        shown_facets=shown,
        shown_numbers=[FACETS.index(name) for name in shown],
        columns=columns,
        table=table,
        note=notes.number,
        notes=notes.seen,
        sections=sections,
        facts=provenance(sweep, comparisons),
        version=sweeper.__version__,
        index={"points": _index(comparisons, found)},
        embedded=[replace(block, json=Markup(block.json)) for block in embedded],
    )


class _Notes:
    """Reasons, numbered from 1 in order of appearance."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}

    def number(self, reason: str) -> int:
        return self.seen.setdefault(reason, len(self.seen) + 1)


def _index(comparisons: Sequence[Comparison], found: _Requests) -> dict[str, Json]:
    """What the script knows of every point."""
    index = {}
    for group in groups(comparisons):
        names = labels(group)
        for one in group:
            index[str(one.number)] = {
                "label": names[one.number],
                "workload": heading(group),
                "baseline": one.baseline,
                "requests": found.counts[one.number],
                "prompts": found.prompts[one.point.dataset.digest],
                "why": one.reason or one.status,
            }
    return index


def _template(name: str) -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=False
    )
    return environment.from_string(_TEXTS[name])
