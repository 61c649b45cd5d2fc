"""The comparison on a terminal: one block of rows a group, fitted to the width there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from sweeper.judge.arms import NOT_YET
from sweeper.judge.bootstrap import Figure
from sweeper.judge.compare import Comparison
from sweeper.judge.judgement import Judgement
from sweeper.judge.shown import fixed, say
from sweeper.judge.words import lines
from sweeper.report.columns import figures
from sweeper.report.labels import (
    NOT_MEASURED,
    OF_BASELINES,
    Group,
    footnotes,
    groups,
    heading,
    labels,
    remarks,
    some_failed,
    starred,
    success,
)
from sweeper.report.slicetable import print_slices

METHOD_AT_LEAST = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """``drop`` orders the columns that go when the terminal is narrow, the lowest first; ``None``
    stays. One whose figure ``of`` was measured nowhere is left out, and its reason said."""

    header: tuple[str, str]
    cell: Callable[[Comparison], str]
    drop: int | None = None
    of: Callable[[Comparison], Figure] | None = None

    @property
    def name(self) -> str:
        return " ".join(self.header).strip().replace("/ ", "/")


def _say(figure: Figure, digits: int, *, percent: bool = False) -> str:
    if figure.value is None:
        return "-" if figure.reason in OF_BASELINES else NOT_MEASURED
    if percent:
        return f"{100 * figure.value:.0f} %"
    return fixed(figure.value, digits)


def _ratio(one: Comparison) -> str:
    """Never without its interval."""
    figure = one.speedup
    if one.point.is_baseline:
        return "baseline"
    if figure.value is None or figure.low is None or figure.high is None:
        return NOT_MEASURED
    return say(figure)


def _length(one: Comparison) -> str:
    return _say(one.acceptance.mean_acceptance_length, 2) + ("*" if starred(one) else "")


def _tpot(one: Comparison) -> Figure:
    return one.latencies["tpot_ms_p99"]


def _quality(one: Comparison) -> Figure:
    return figures(one)["quality"]


SUCCESS = Column(header=("", "success"), cell=success, drop=9)
"""Shown where a request failed."""
COLUMNS = (
    Column(header=("", "A/D"), cell=lambda c: _say(c.acceptance.acceptance_rate, 3), drop=5),
    Column(header=("", "1+A/S"), cell=_length, drop=3),
    Column(
        header=("draft", "coverage"),
        cell=lambda c: _say(c.acceptance.draft_coverage, 0, percent=True),
        drop=4,
    ),
    Column(header=("tokens/", "step"), cell=lambda c: _say(c.acceptance.tokens_per_decode_step, 2)),
    Column(header=("request", "time s"), cell=lambda c: _say(c.request_time_s, 2), drop=2),
    Column(header=("output", "tok/s"), cell=lambda c: _say(c.output_tokens_per_s, 1)),
    Column(header=("speed-up", "[low, high]"), cell=_ratio),
    Column(
        header=("same", "output"),
        cell=lambda c: _say(c.identical_share, 0, percent=True),
        drop=8,
        of=lambda c: c.identical_share,
    ),
    Column(
        header=("TPOT", "P99 ms"),
        cell=lambda c: _say(_tpot(c), 1),
        drop=6,
        of=_tpot,
    ),
    Column(
        header=("", "quality"),
        cell=lambda c: _say(_quality(c), 0, percent=True),
        drop=7,
        of=_quality,
    ),
    SUCCESS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """What fits, what was ``dropped`` for that, and what was measured nowhere; ``widths`` are those
    of method, the kept columns, and status."""

    kept: tuple[Column, ...]
    dropped: tuple[Column, ...] = ()
    unmeasured: tuple[Column, ...] = ()
    widths: tuple[int, ...]
    split: bool

    def lines(self, cell: str) -> tuple[str, ...]:
        """A cell's lines; only the long way of saying nothing is ever split."""
        return tuple(cell.split(" ")) if self.split and cell == NOT_MEASURED else (cell,)


def print_table(console: Console, comparisons: Sequence[Comparison]) -> None:
    """Print all groups in the same columns, then what a reader must know."""
    if not comparisons:
        console.print("no points in this sweep")
        return
    layout = _fit(comparisons, console.width)
    for group in groups(comparisons):
        _print_group(console, group, layout)
    said = (
        *footnotes(comparisons),
        *_not_measured(layout.unmeasured, comparisons),
        *_left_out(layout.dropped, console.width),
    )
    for sentence in said:
        console.print(Text(sentence, style="dim"))


def print_verdicts(console: Console, judgement: Judgement) -> None:
    """The verdict of every workload with its evidence and command, at the end the one over all;
    commands are not broken, so that they can be copied."""
    for line in lines(judgement):
        text = Text(line, style="" if line.startswith(" ") else "bold")
        if line.startswith("  run: "):
            console.print(text, soft_wrap=True)
        else:
            say_words(console, text)


def say_words(console: Console, text: Text) -> None:
    """A sentence, broken between words on a terminal; one line where a program may read it."""
    console.print(text, soft_wrap=not console.is_terminal)


def _fit(comparisons: Sequence[Comparison], width: int) -> _Layout:
    """First split what may be split, then fold the labels, then drop columns."""
    live = [c for c in comparisons if c.completed]
    names = [name for group in groups(comparisons) for name in labels(group).values()]
    method = max((cell_len(name) for name in names), default=0)
    wanted = [c for c in COLUMNS if c is not SUCCESS or some_failed(live)]
    columns = [c for c in wanted if c.of is None or _measured(c.of, live)]
    absent = tuple(c for c in wanted if c not in columns)
    whole = _layout(columns, live, method, width, split=False)
    if _used(whole) <= width:
        return replace(whole, unmeasured=absent)
    kept = list(columns)
    while True:
        layout = _layout(kept, live, method, width, split=True)
        going = [c for c in kept if c.drop is not None]
        if _used(layout) <= width or not going:
            dropped = tuple(c for c in columns if c not in kept)
            return replace(layout, dropped=dropped, unmeasured=absent)
        kept.remove(min(going, key=lambda c: c.drop or 0))


def _layout(
    kept: Sequence[Column], live: Sequence[Comparison], method: int, width: int, *, split: bool
) -> _Layout:
    inner = [_width(column, live, split) for column in kept]
    status = cell_len("completed")
    room = width - sum(inner) - status - len(inner) - 1
    first = max(method, METHOD_AT_LEAST)
    if split:  # the labels may fold
        first = max(min(first, room), METHOD_AT_LEAST)
    return _Layout(kept=tuple(kept), widths=(first, *inner, status), split=split)


def _used(layout: _Layout) -> int:
    return sum(layout.widths) + len(layout.widths) - 1


def _measured(of: Callable[[Comparison], Figure], live: Sequence[Comparison]) -> bool:
    return any(of(c).value is not None for c in live)


def _width(column: Column, live: Sequence[Comparison], split: bool) -> int:
    layout = _Layout(kept=(), widths=(), split=split)
    words = [word for c in live for word in layout.lines(column.cell(c))]
    return max(cell_len(word) for word in (*column.header, *words))


def _print_group(console: Console, group: Group, layout: _Layout) -> None:
    console.print(Text(heading(group), style="bold"))
    for line in range(2):
        inner = (c.header[line] for c in layout.kept)
        head = (("", "method γ")[line], *inner, ("", "status")[line])
        _print_line(console, head, layout.widths, "dim")
    names = labels(group)
    for one in group:
        _print_row(console, one, _fold(names[one.number], layout.widths[0]), layout)
    for sentence in remarks(group):
        for part in Text(sentence).wrap(console, console.width - 2):
            console.print(Text(f"  {part.plain.rstrip()}"))
    console.print()
    print_slices(console, group)


def _print_row(console: Console, one: Comparison, method: Sequence[str], layout: _Layout) -> None:
    if not one.completed:
        _print_reason(console, one, method, layout.widths[0])
        return
    cells = [method, *(layout.lines(c.cell(one)) for c in layout.kept), (one.status,)]
    for line in range(max(len(cell) for cell in cells)):
        parts = [c[line] if line < len(c) else "" for c in cells]
        _print_line(console, parts, layout.widths, "")


def _print_reason(console: Console, one: Comparison, method: Sequence[str], width: int) -> None:
    """A point without figures has its reason where they would be."""
    first = one.reason.partition("\n")[0]  # the page has all of it
    reason = f"{one.status}: {first}" if first else one.status
    style = "" if one.status in ("skipped", NOT_YET) else "red"
    console.print(Text(f"{_padded(method[0], width)} {reason}", style=style))
    for line in method[1:]:
        console.print(Text(line, style=style))


def _fold(name: str, width: int) -> tuple[str, ...]:
    """Break a label at spaces, and inside a word only where one is longer than the column."""
    lines = [""]
    for word in name.split(" "):
        joined = f"{lines[-1]} {word}".lstrip()
        if cell_len(joined) <= width:
            lines[-1] = joined
        else:
            lines += [word[i : i + width] for i in range(0, len(word), width)]
    return tuple(line for line in lines if line)


def _print_line(console: Console, cells: Sequence[str], widths: Sequence[int], style: str) -> None:
    inner = (" " * (w - cell_len(c)) + c for c, w in zip(cells[1:-1], widths[1:-1], strict=True))
    text = " ".join((_padded(cells[0], widths[0]), *inner, cells[-1]))
    console.print(Text(text.rstrip(), style=style), no_wrap=True)


def _padded(text: str, width: int) -> str:
    return set_cell_size(text, width)


def _not_measured(columns: Sequence[Column], comparisons: Sequence[Comparison]) -> Iterator[str]:
    """What a baseline has not because it is one needs no reason."""
    live = [c for c in comparisons if c.completed]
    for column in columns:
        reasons = [column.of(c).reason for c in live if column.of]
        if reason := next((text for text in reasons if text and text not in OF_BASELINES), ""):
            yield f"{column.name}: not measured: {reason}"


def _left_out(dropped: Sequence[Column], width: int) -> Iterator[str]:
    if dropped:
        names = ", ".join(c.name for c in dropped)
        yield f"{width} columns leave no room for {names}; all are in points.csv."
