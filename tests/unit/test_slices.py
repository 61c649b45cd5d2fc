"""Acceptance by category and by length, and what is said of prompts that are no text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from sweeper.judge.compare import compare
from sweeper.judge.drafts import Counted, count
from sweeper.judge.judgement import judge
from sweeper.judge.parts import lengths
from sweeper.judge.slices import slices
from sweeper.report.markdown import markdown
from sweeper.report.runs import child
from sweeper.report.tables import print_table
from sweeper.store import read_sweep
from sweeper.values import Dataset, RequestRecord
from tests.unit.sweeps import CHAT, Made, counts, folder, point, record


def drafts(name: str, category: str | None, histogram: list[int]) -> RequestRecord:
    return record(name, category=category, spec=counts(histogram), prompt_tokens=100)


RECORDS = (
    drafts("a", "code", [0, 0, 10]),
    drafts("b", "code", [0, 10, 0]),
    drafts("c", "chat", [10, 0, 0]),
)


def _counted(*records: RequestRecord) -> Counted:
    return count(records, gamma=4, baseline=False)


def test_acceptance_by_category_is_pooled_within_it() -> None:
    code, chat = slices(_counted(*RECORDS), None, "alone", seed=0)
    assert (code.of, code.name, code.requests) == ("category", "code", 2)
    assert code.rates.acceptance_rate.value == pytest.approx(30 / 40)
    assert code.rates.mean_acceptance_length.value == pytest.approx(1 + 30 / 20)
    assert (chat.name, chat.rates.acceptance_rate.value) == ("chat", 0.0)
    assert (code.speedup.value, code.speedup.reason) == (None, "alone")


def test_without_categories_there_are_none() -> None:
    assert slices(_counted(drafts("a", None, [0, 1])), None, "alone", seed=0) == ()


def test_a_category_without_drafts_says_so() -> None:
    (none, _) = slices(_counted(record("x", category="q"), RECORDS[0]), None, "alone", seed=0)
    assert none.rates.acceptance_rate.reason == "no per-request metrics"


def test_acceptance_by_length() -> None:
    short = drafts("a", None, [0, 0, 10])
    long = replace(drafts("b", None, [10, 0, 0]), prompt_tokens=600)
    assert [(s.name, s.acceptance_rate) for s in lengths((short, long))] == [
        ("0 to 128 tokens", 1.0),
        ("512 to 1024 tokens", 0.0),
    ]


def test_tables_by_category_are_on_every_page(tmp_path: Path) -> None:
    base = Made(point=point("none", 0), records=tuple(replace(r, spec=None) for r in RECORDS))
    arm = Made(point=point("eagle3", 2), records=RECORDS)
    sweep_folder = folder(tmp_path, base, arm)
    found = compare(sweep_folder)
    page = markdown(judge(sweep_folder))
    assert "### acceptance by category" in page
    assert "|  | requests | eagle3 γ=2 |" in page
    assert "| code | 2 | 0.750 \\[0.500, 1.000] / 2.50 |" in page
    assert "| chat | 1 | 0.000 / 1.00 |" in page
    console = Console(width=120, record=True)
    print_table(console, found)
    text = console.export_text()
    assert "acceptance by category" in text and "0.750 / 2.50" in text


RANDOM = Dataset(name="random", path="/m", digest="r", prompts=3, format="random", synthetic=True)


def test_prompts_that_are_no_text_are_marked_everywhere_and_have_no_speedup(
    tmp_path: Path,
) -> None:
    made = [
        Made(point=point(method, gamma, dataset=RANDOM), records=RECORDS if gamma else BASE)
        for method, gamma in (("none", 0), ("eagle3", 2))
    ]
    sweep_folder = folder(tmp_path, *made)
    found = compare(sweep_folder)
    assert found[1].speedup.value is None
    assert found[1].speedup.reason == (
        "synthetic prompts: a speed-up on them says nothing about text; measure a real dataset"
    )
    page = markdown(judge(sweep_folder))
    assert "random (SYNTHETIC)" in page and "SYNTHETIC prompts are random tokens" in page
    assert "accept by a fixed rate" not in page
    run = child(sweep_folder, read_sweep(sweep_folder), found[1], judge(sweep_folder))
    assert (run.tags["synthetic"], run.params["synthetic"]) == ("SYNTHETIC: random prompts", "True")


BASE = tuple(replace(r, spec=None) for r in RECORDS)


def test_text_has_no_such_marks(tmp_path: Path) -> None:
    sweep_folder = folder(tmp_path, Made(point=point("none", 0, dataset=CHAT), records=BASE))
    found = compare(sweep_folder)
    assert "SYNTHETIC" not in markdown(judge(sweep_folder))
    run = child(sweep_folder, read_sweep(sweep_folder), found[0], judge(sweep_folder))
    assert "synthetic" not in run.tags


def test_how_many_were_accepted_and_how_likely_the_next_was_is_in_the_report(
    tmp_path: Path,
) -> None:
    short = Made(point=point("ngram", 1), records=(drafts("a", None, [1, 3]),))
    long = Made(point=point("eagle3", 2), records=RECORDS[:1])
    base = Made(point=point("none", 0), records=(record("a"), record("b")))
    page = markdown(judge(folder(tmp_path, base, short, long)))
    start = page.index("### draft tokens accepted in a step")
    assert page[start:].split("\n")[:18] == [
        "### draft tokens accepted in a step",
        "",
        "share of the steps with a draft that accepted exactly so many of its tokens.",
        "",
        "| accepted | ngram γ=1 | eagle3 γ=2 |",
        "| --- | --- | --- |",
        "| 0 | 0.250 | 0.000 |",
        "| 1 | 0.750 | 0.000 |",
        "| 2 |  | 1.000 |",
        "",
        "### conditional acceptance by draft position",
        "",
        "share accepted at a position among the steps that drafted it and accepted all before it.",
        "",
        "| position | ngram γ=1 | eagle3 γ=2 |",
        "| --- | --- | --- |",
        "| 1 | 0.750 | 1.000 |",
        "| 2 |  | 1.000 |",
    ]
