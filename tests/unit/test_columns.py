"""What the table's columns hold, and that each is described."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from sweeper.judge.judgement import judge
from sweeper.report.columns import columns
from sweeper.report.page.cells import shown
from sweeper.report.runs import child
from sweeper.report.tables import points_table
from sweeper.scores import Grade, Quality
from sweeper.store import read_sweep, to_json, write_json
from tests.unit.sweeps import Made, counts, folder, point, record, rollouts

SIX = tuple(record(f"p{n}", seconds=2.0 + n) for n in range(6))
FASTER = tuple(record(f"p{n}", seconds=1.0 + n, spec=counts((5, 5)), steps=10) for n in range(6))
BASE, LOOKUP = (
    Made(point=point("none", 0), records=SIX),
    Made(point=point("ngram", 1), records=FASTER),
)


def test_quality_and_output_have_their_columns(tmp_path: Path) -> None:
    sweep_folder = folder(tmp_path, BASE, LOOKUP)
    base, lookup = read_sweep(sweep_folder).plan.points
    for planned, passed in ((base, (True,) * 6), (lookup, (True, False, True, True, False, True))):
        grades = (
            Grade(prompt_id=f"p{n}", turn=0, repeat=0, passed=ok) for n, ok in enumerate(passed)
        )
        quality = Quality(grader="unit_tests", key="k", grades=tuple(grades))
        write_json(sweep_folder.point(planned).quality, to_json(quality))
    judgement = judge(sweep_folder)
    first, second = (points_table(judgement.comparisons).iloc[n] for n in range(2))
    assert second["quality"] == pytest.approx(4 / 6)
    assert second["quality_low"] < second["quality"] < second["quality_high"]
    assert second["quality_p"] == pytest.approx(2 / 4)
    assert second["output"] == "right"
    assert pd.isna(first["quality_p"]) and pd.isna(first["output"])
    run = child(sweep_folder, read_sweep(sweep_folder), judgement.comparisons[1], judgement)
    assert run.metrics["quality_p"] == pytest.approx(2 / 4)
    assert run.metrics["quality_low"] == pytest.approx(second["quality_low"])
    assert run.tags["output"] == "right"


def test_what_makes_a_rollout_is_told_everywhere(tmp_path: Path) -> None:
    base = rollouts("none", 0, [2.0 + n / 10 for n in range(6)])
    drafts = rollouts("ngram", 4, [1.5 + n / 20 for n in range(6)])
    sweep_folder = folder(tmp_path, base, drafts)
    judgement = judge(sweep_folder)
    table = points_table(judgement.comparisons)
    assert list(table.columns)[-4:] == ["conditions", "n", "batch_prompts", "policy_version"]
    assert table.iloc[1][["n", "batch_prompts", "policy_version"]].tolist() == [4, 2, "0"]
    run = child(sweep_folder, read_sweep(sweep_folder), judgement.comparisons[1], judgement)
    assert {run.params[name] for name in ("n", "batch_prompts", "policy_version")} == {
        "4",
        "2",
        "0",
    }
    by_name = {column.name: column for column in shown(judgement.comparisons)}
    waiting = by_name["waiting for the last"].cell(judgement.comparisons[1])
    logprobs = by_name["logprobs"].cell(judgement.comparisons[1])
    assert waiting.text == "30 %"
    assert (logprobs.text, logprobs.interval) == ("agree", "mean 0.012, max 0.345")


def test_no_other_load_has_the_columns_of_rollouts(tmp_path: Path) -> None:
    comparisons = judge(folder(tmp_path, BASE, LOOKUP)).comparisons
    one = points_table(comparisons).iloc[1]
    assert one["n"] == 1 and pd.isna(one["batch_prompts"]) and pd.isna(one["policy_version"])
    assert not {"waiting for the last", "logprobs"} & {c.name for c in shown(comparisons)}


@pytest.mark.parametrize("name", list(columns(2)))
def test_every_column_is_described(name: str) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "metrics.md").read_text()
    described = re.sub(r"_[12]$", "_i", name) if name.endswith(("_1", "_2")) else name
    assert f"`{described}`" in page, f"docs/metrics.md does not describe {described}"
