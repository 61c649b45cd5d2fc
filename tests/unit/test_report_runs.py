from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sweeper import ui
from sweeper.judge.judgement import judge
from sweeper.report import mlview
from sweeper.report.mlflow import default_tracking_uri
from sweeper.report.runs import Run, child, parent
from sweeper.store import read_sweep
from sweeper.values import Status
from tests.unit.sweeps import Made, counts, folder, point, record

RECORDS = tuple(record(f"p{n}", spec=counts((1, 0, 2)), steps=3, tokens=8) for n in range(4))


def runs(path: Path, *made: Made) -> tuple[Run, list[Run]]:
    sweep_folder = folder(path, *made)
    sweep, judgement = read_sweep(sweep_folder), judge(sweep_folder)
    each = [child(sweep_folder, sweep, one, judgement) for one in judgement.comparisons]
    return parent(sweep_folder, sweep, judgement), each


def test_undefined_metrics_are_left_out_and_their_reasons_are_tags(tmp_path: Path) -> None:
    base = Made(point=point("none", 0), records=RECORDS)
    _, (run, _) = runs(tmp_path, base, Made(point=point("ngram", 2), status="failed"))
    assert "acceptance_rate" not in run.metrics
    assert run.tags["not_measured.acceptance_rate"] == "no speculation"
    assert run.tags["not_measured.speedup"] == "is the baseline"
    assert run.tags["not_measured.tpot_ms_p99"] == "the answers were not streamed"
    assert run.tags["not_measured.quality"] == "answers were not graded"
    assert run.metrics["request_time_s"] == 1.0
    assert run.metrics["request_time_s_low"] == 1.0


def test_survival_is_one_metric_with_a_step_a_position(tmp_path: Path) -> None:
    _, (run,) = runs(tmp_path, Made(point=point("ngram", 2), records=RECORDS, baseline=None))
    survival = run.stepped["survival"]
    assert [step for step, _ in survival] == [1, 2]
    assert [value for _, value in survival] == pytest.approx([2 / 3, 2 / 3])
    assert run.metrics["survival_2"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("status", "ending"),
    [
        ("completed", "FINISHED"),
        ("failed", "FAILED"),
        ("invalid", "FAILED"),
        ("lost", "FAILED"),
        ("preempted", "KILLED"),
        ("skipped", "KILLED"),
    ],
)
def test_a_run_ends_as_its_point_did(tmp_path: Path, status: Status, ending: str) -> None:
    made = Made(point=point("none", 0), records=RECORDS, status=status)
    top, (run,) = runs(tmp_path, made)
    assert (run.status, top.status) == (ending, ending)


def test_params_are_short_and_typed(tmp_path: Path) -> None:
    long = replace(point("ngram", 4).server, args=("--x", "y" * 6001))
    _, (run,) = runs(tmp_path, Made(point=point("ngram", 4, server=long), baseline=None))
    assert run.params["gamma"] == "4"
    assert run.params["temperature"] == "0.0"
    assert len(run.params["server_args"]) == 250
    other = replace(long, args=("--x", "y" * 6000))
    _, (second,) = runs(tmp_path / "b", Made(point=point("ngram", 4, server=other), baseline=None))
    assert second.params["server_args"] != run.params["server_args"]


def test_the_view_of_an_experiment_names_what_runs_have(tmp_path: Path) -> None:
    plain = tuple(replace(r, spec=None) for r in RECORDS)
    base = Made(point=point("none", 0), records=plain)
    ngram = Made(point=point("ngram", 2), records=RECORDS)
    _, (_, run) = runs(tmp_path, base, ngram)
    known = {f"params.`{name}`" for name in run.params} | {f"tags.`{n}`" for n in run.tags}
    known |= {f"metrics.`{name}`" for name in run.metrics}
    known |= {f"metrics.`{name.removeprefix('not_measured.')}`" for name in run.tags}
    view = json.loads(mlview.state())
    assert set(view["selectedColumns"]) <= known
    assert view["orderByKey"] in known
    charts = {chart["type"]: chart for chart in view["compareRunCharts"]}
    assert charts["PARALLEL"]["selectedParams"] == ["method", "gamma"]
    assert charts["CONTOUR"]["zaxis"] == {"key": "speedup", "type": "METRIC"}
    assert len(mlview.state()) < 5000  # the longest tag


def test_times_are_those_of_the_measurement(tmp_path: Path) -> None:
    _, (run,) = runs(tmp_path, Made(point=point("none", 0), records=RECORDS))
    assert run.start_ms == 1769860805000  # 2026-01-31T12:00:05Z
    assert run.end_ms - run.start_ms == 6000


def test_the_content_changes_with_a_file(tmp_path: Path) -> None:
    _, (run,) = runs(tmp_path, Made(point=point("none", 0), records=RECORDS))
    before = run.content
    run.files[0].write_text("gamma: 5\n", encoding="utf-8")
    assert run.content != before


def test_the_ui_needs_a_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ui.main(["--outputs", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"sweeper.ui: {tmp_path / 'mlflow.db'} is missing; run a sweep first, or name the folder "
        "that has it with --outputs, or the address with --tracking-uri\n"
    )


def test_the_ui_listens_here_only_on_the_database_of_the_outputs(tmp_path: Path) -> None:
    command = ui.server_command(default_tracking_uri(tmp_path), tmp_path, 5001)
    assert command[:6] == [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1"]
    assert command[command.index("--port") + 1] == "5001"
    assert default_tracking_uri(tmp_path) == f"sqlite:///{tmp_path.resolve()}/mlflow.db"


def test_the_ui_takes_another_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    elsewhere = f"sqlite:///{tmp_path}/far/runs.db"
    command = ui.server_command(elsewhere, tmp_path, 5001)
    assert command[-1] == f"file://{tmp_path}/far/mlartifacts"
    server = ui.server_command("postgresql+psycopg://a:pw@db/mlflow", tmp_path, 5001)
    assert "pw" not in " ".join(server)  # its environment has the address
    assert server[-1] == f"file://{tmp_path}/mlartifacts"
    assert ui.main(["--tracking-uri", elsewhere]) == 2
    assert f"{tmp_path}/far/runs.db is missing" in capsys.readouterr().err
    assert ui.main(["--tracking-uri", "http://a:pw@mlflow:5000"]) == 2
    assert capsys.readouterr().err == (
        "sweeper.ui: http://mlflow:5000 is a server already; open it in a browser\n"
    )
