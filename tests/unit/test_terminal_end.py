"""What a sweep leaves on the screen: nothing said twice, nothing too wide, the verdict last."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from sweeper.program import INCOMPLETE
from sweeper.report.outcome import report
from sweeper.report.slices import SliceTable
from sweeper.report.slicetable import parts
from sweeper.report.terminal import say_words
from tests.unit.sweeps import Made, counts, folder, point, record, rollouts

SETTINGS = {"seed": 0, "tracker": "none", "tracking_uri": None, "experiment": "x"}
RECORDS = tuple(
    record(f"p{n}", spec=counts((1, 0, 2)), steps=3, tokens=8, category=f"kind {n % 2}")
    for n in range(6)
)
BASE = Made(point=point("none", 0), records=tuple(replace(r, spec=None) for r in RECORDS))
METHODS = ("ngram", "suffix", "draft_model", "eagle3", "medusa")
DRAFTED = [Made(point=point(name, 2), records=RECORDS) for name in METHODS]
BROKEN = Made(point=point("eagle3", 4), status="failed", reason="CUDA out of memory")


def shown(path: Path, *made: Made, width: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    sweep_folder = folder(path, *made, settings=SETTINGS)

    def errors() -> None:
        console.print("error: point 1: CUDA out of memory")

    assert report(console, sweep_folder, False, errors) == INCOMPLETE
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_errors_are_repeated_before_the_verdict_and_the_page_is_the_last_line(
    tmp_path: Path,
) -> None:
    lines = shown(tmp_path, BASE, DRAFTED[0], BROKEN)
    at = lines.index("error: point 1: CUDA out of memory")
    assert lines[at - 1] == f"files: {tmp_path}"
    assert lines[at + 1].startswith("chat · greedy · sequential · org/model: inconclusive. ")
    assert lines[-1] == f"page: {tmp_path}/report/index.html"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_tables_by_category_are_cut_into_parts_that_fit(tmp_path: Path, width: int) -> None:
    lines = shown(tmp_path, BASE, *DRAFTED, BROKEN, width=width)
    start = next(n for n, line in enumerate(lines) if line.startswith("acceptance by category"))
    end = next(n for n, line in enumerate(lines) if line.startswith("files: "))
    assert max(map(len, lines[start:end])) <= width
    heads = [line for line in lines[start:end] if "requests" in line and "γ=2" in line]
    assert " ".join(heads).count("draft_model γ=2") == 2  # acceptance, speed-up
    assert "…" not in "".join(lines[start:end])


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_figure_of_a_rollout_is_cut_however_narrow_the_screen(
    tmp_path: Path, width: int
) -> None:
    base = rollouts("none", 0, [2.0 + n / 10 for n in range(6)])
    drafts = rollouts("draft_model", 4, [1.5 + n / 20 for n in range(6)])
    lines = shown(tmp_path, base, drafts, BROKEN, width=width)
    start = next(n for n, line in enumerate(lines) if line.startswith("rollouts · "))
    end = next(n for n, line in enumerate(lines) if line.startswith("files: "))
    table = lines[start + 1 : end]
    assert max(map(len, table)) <= width
    rows = " ".join(line for line in table if line.startswith("draft_model γ=4"))
    for figure in ("1.62", "100.9", "0.467", "1.52", "30%", "agree 0.012 0.345", "1.38 ["):
        assert f" {figure}" in rows, figure
    heads = " ".join(line for line in table if not line.startswith(("draft_model", "none")))
    assert "verdict" in heads and "speed-up" in heads


def test_a_setting_wider_than_the_screen_stands_alone() -> None:
    rows = (("", "requests", "a", "b" * 70, "c"), ("edit", "1", "1", "2", "3"))
    assert list(parts(SliceTable(title="", rows=rows), 60)) == [(0, 1, 2), (0, 1, 3), (0, 1, 4)]


def test_a_sentence_about_several_settings_is_said_once_and_indented(tmp_path: Path) -> None:
    odd = replace(BASE, provenance=BASE.provenance | {"engine": {"scheduler": "sync"}})
    lines = shown(tmp_path, odd, *DRAFTED[:3], BROKEN)
    said = [n for n, line in enumerate(lines) if "engine.scheduler is async here" in line]
    assert len(said) == 1
    first = next(line for line in reversed(lines[: said[0] + 1]) if "ngram γ=2, suffix" in line)
    assert first.startswith("  ngram γ=2, suffix γ=2, draft_model γ=2: ")


@pytest.mark.parametrize(("terminal", "lines"), [(True, 2), (False, 1)])
def test_sentences_break_between_words_on_a_terminal_only(terminal: bool, lines: int) -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=terminal, color_system=None)
    say_words(console, Text("a server start " * 7))
    assert isinstance(console.file, io.StringIO)
    said = [line.strip() for line in console.file.getvalue().splitlines()]
    assert len(said) == lines
    assert all(line.split(" ")[-1] in ("a", "server", "start") for line in said)
