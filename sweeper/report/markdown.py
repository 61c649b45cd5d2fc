"""``report/report.md``: every figure with its interval, for people and for pull requests."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from sweeper.judge.bootstrap import Figure
from sweeper.judge.compare import Comparison
from sweeper.judge.judgement import Judgement
from sweeper.judge.shown import say
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
from sweeper.report.loadtable import LOAD_HEADER, load_rows
from sweeper.report.positions import position_tables
from sweeper.report.rollout import rollouts_markdown
from sweeper.report.slices import SliceTable
from sweeper.report.steps import small_tables
from sweeper.report.wording import escape, verdict_markdown

HEADER = (
    "method γ",
    "speed-up",
    "tokens/step",
    "coverage",
    "A/D",
    "1+A/S",
    "request time (s)",
    "output rate (tokens/s)",
    "same output",
    "TPOT P99 (ms)",
    "quality",
    "success",
    "status",
)
INTRO = """\
A figure is followed by its 95 % interval, a bootstrap over prompts. The speed-up is over the \
baseline, first row, on the same requests: of the output rate, or of TPOT where requests overlap \
and are streamed.
"""
SEQUENTIAL = """\
Sequential requests are not streamed: they have a request time, and no TTFT or TPOT.
"""


def markdown(judgement: Judgement) -> str:
    """The whole page, the verdict first."""
    comparisons = judgement.comparisons
    synthetic, failed = any(c.synthetic for c in comparisons), some_failed(comparisons)
    title = "# Speculative decoding, compared" + (" (SYNTHETIC rows)" if synthetic else "")
    parts = [
        title,
        verdict_markdown(judgement),
        _intro(comparisons),
        *(_section(group, failed) for group in groups(comparisons)),
        *rollouts_markdown(judgement),
    ]
    notes = footnotes(comparisons)
    if notes:
        parts.append("\n\n".join(notes).replace("* 1+A/S", r"\* 1+A/S"))
    return "\n\n".join(parts) + "\n"


def _intro(comparisons: Sequence[Comparison]) -> str:
    streamed = any(c.point.load.stream for c in comparisons)
    return (INTRO if streamed else INTRO.strip() + " " + SEQUENTIAL).strip()


def _section(group: Group, failed: bool) -> str:
    """``failed``: a request of the sweep failed, so that successes are shown."""
    names = labels(group)
    rows = [HEADER, ("---",) * len(HEADER), *(_cells(one, names[one.number]) for one in group)]
    kept = [n for n, name in enumerate(HEADER) if failed or name != "success"]
    lines = [f"## {escape(heading(group))}", ""]
    lines += [_line([cells[n] for n in kept]) for cells in rows]
    odd = [f"- {escape(sentence)}" for sentence in remarks(group)]
    under_load = [_line([escape(cell) for cell in row]) for row in load_rows(group)]
    if under_load:
        under_load.insert(1, _line(("---",) * len(LOAD_HEADER)))
    parts = ["\n".join(part) for part in (lines, under_load, odd) if part]
    tables = chain(small_tables(group, intervals=True), position_tables(group))
    return "\n\n".join((*parts, *map(_slices, tables)))


def _slices(table: SliceTable) -> str:
    head, *rows = ([escape(cell) for cell in row] for row in table.rows)
    title = (f"### {table.title}", "", f"{table.key}.", "")
    return "\n".join((*title, *map(_line, (head, ("---",) * len(head), *rows))))


def _cells(one: Comparison, name: str) -> tuple[str, ...]:
    drafts, star = one.acceptance, r"\*" if starred(one) else ""
    status = f"{one.status}: {one.reason}" if one.reason else one.status
    length = _say(drafts.mean_acceptance_length, 2, star)
    return (
        escape(name),
        "baseline" if one.point.is_baseline else _ratio(one.speedup),
        _say(drafts.tokens_per_decode_step, 2),
        _say(drafts.draft_coverage, 2),
        _say(drafts.acceptance_rate, 3),
        length,
        _say(one.request_time_s, 3),
        _say(one.output_tokens_per_s, 1),
        _say(one.identical_share, 2),
        _say(one.latencies["tpot_ms_p99"], 1),
        _say(figures(one)["quality"], 2),
        success(one),
        escape(status),
    )


def _ratio(figure: Figure) -> str:
    """A speed-up is shown with its interval or not at all."""
    return NOT_MEASURED if figure.low is None else _say(figure, 2)


def _say(figure: Figure, digits: int, mark: str = "") -> str:
    if figure.value is None:
        return "-" if figure.reason in OF_BASELINES else NOT_MEASURED
    return say(figure, digits, mark)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
