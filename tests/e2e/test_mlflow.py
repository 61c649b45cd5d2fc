"""Publishing into a real sqlite database, read back with MLflow's own client."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from sqlalchemy import event
from sqlalchemy.engine import Engine

from sweeper.errors import PublishError
from sweeper.publish import main as publish_main
from sweeper.report.mlflow import default_tracking_uri, found_again, publish
from sweeper.report.outcome import write_report
from sweeper.store import SweepFolder
from tests.e2e.running import PATIENT_S, own_port
from tests.unit.sweeps import CHAT, Made, counts, folder, point, record

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:mlflow"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:sqlalchemy"),
]
RECORDS = tuple(record(f"p{n}", spec=counts((1, 0, 2)), steps=3, tokens=8) for n in range(4))
BASE = Made(point=point("none", 0), records=tuple(replace(r, spec=None) for r in RECORDS))
NGRAM = Made(point=point("ngram", 2), records=RECORDS)
BROKEN = Made(point=point("eagle3", 4), status="failed", reason="CUDA out of memory")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with all its tables, which take seconds to make."""
    path = tmp_path_factory.mktemp("database")
    told(folder(path / "d" / "s", id="another"), path, "another")
    return path / "mlflow.db"


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """An outputs folder with a name that needs care in addresses, and no database."""
    path = tmp_path / "out puts #1 'é'"
    path.mkdir()
    return path


@pytest.fixture
def outputs(fresh: Path, database: Path) -> Path:
    """An outputs folder in which something was published before."""
    shutil.copy(database, fresh / "mlflow.db")
    return fresh


def told(sweep: SweepFolder, outputs: Path, experiment: str = "drafts") -> str:
    judgement, _ = write_report(sweep)
    return publish(sweep, judgement, default_tracking_uri(outputs), experiment)


def client(outputs: Path) -> Any:
    return MlflowClient(tracking_uri=default_tracking_uri(outputs))


def all_runs(outputs: Path, experiment: str = "drafts") -> list[Any]:
    api = client(outputs)
    found = api.get_experiment_by_name(experiment)
    return list(api.search_runs([found.experiment_id], order_by=["attributes.start_time ASC"]))


def by_method(outputs: Path, experiment: str = "drafts") -> dict[str, Any]:
    runs = all_runs(outputs, experiment)
    return {r.data.params["method"]: r for r in runs if "method" in r.data.params}


def dump(outputs: Path) -> list[str]:
    with closing(sqlite3.connect(outputs / "mlflow.db")) as database:
        return list(database.iterdump())


def test_a_sweep_is_one_run_with_a_nested_run_a_point(outputs: Path) -> None:
    sweep = folder(outputs / "d" / "s", BASE, NGRAM, BROKEN)
    top = told(sweep, outputs)
    runs = by_method(outputs)
    assert len(all_runs(outputs)) == 4
    assert {r.data.tags["mlflow.parentRunId"] for r in runs.values()} == {top}
    ngram = runs["ngram"]
    assert ngram.info.status == "FINISHED"
    assert ngram.data.params["gamma"] == "2"
    assert ngram.data.metrics["acceptance_rate"] == pytest.approx(2 / 3)
    assert ngram.data.metrics["speedup"] == 1.0
    assert "tpot_ms_p99" not in ngram.data.metrics
    assert ngram.data.tags["not_measured.tpot_ms_p99"] == "the answers were not streamed"
    assert ngram.data.tags["hardware"] == "hostname=node1, cpu=EPYC, gpu=None"
    assert ngram.data.tags["versions"] == "vllm=0.32.0, torch=2.13.0"
    assert ngram.data.tags["baseline_run"] == runs["none"].info.run_id
    assert ngram.data.tags["verdict"] == "inconclusive"
    note = "**ngram γ=2 · chat · greedy · sequential · org/model: inconclusive.** "
    assert ngram.data.tags["mlflow.note.content"].startswith(note)
    history = client(outputs).get_metric_history(ngram.info.run_id, "survival")
    assert [(m.step, m.value) for m in history] == [
        (1, pytest.approx(2 / 3)),
        (2, pytest.approx(2 / 3)),
    ]


def test_failures_are_runs_with_a_reason(outputs: Path) -> None:
    top = told(folder(outputs / "d" / "s", BASE, BROKEN), outputs)
    run = by_method(outputs)["eagle3"]
    assert (run.info.status, run.data.tags["status"]) == ("FAILED", "failed")
    assert run.data.tags["reason"] == "CUDA out of memory"
    assert run.data.tags["not_measured.speedup"] == "failed: CUDA out of memory"
    assert client(outputs).get_run(top).info.status == "FAILED"


def test_files_are_artifacts_beside_the_database(outputs: Path) -> None:
    top = told(folder(outputs / "d" / "s", BASE, NGRAM), outputs)
    api = client(outputs)
    run_id = by_method(outputs)["ngram"].info.run_id
    names = {f.path for f in api.list_artifacts(run_id)}
    assert names == {"config.yaml", "requests.parquet", "result.json"}
    assert {f.path for f in api.list_artifacts(top)} == {
        "index.html",
        "points.csv",
        "points.parquet",
        "recommended.json",
        "report.md",
        "requests.parquet",
        "sweep.json",
    }
    assert (outputs / "mlartifacts" / run_id / "artifacts" / "result.json").is_file()


def test_publishing_twice_changes_nothing(outputs: Path) -> None:
    sweep = folder(outputs / "d" / "s", BASE, NGRAM, BROKEN)
    first = told(sweep, outputs)
    before = dump(outputs)
    assert told(sweep, outputs) == first
    assert dump(outputs) == before


def test_what_came_later_completes_the_same_runs(outputs: Path) -> None:
    early = folder(outputs / "d" / "s", BASE, replace(NGRAM, records=(), result=False))
    top = told(early, outputs)
    before = by_method(outputs)["ngram"]
    assert (before.info.status, before.data.tags["status"]) == ("KILLED", "not measured yet")
    assert told(folder(outputs / "d" / "s2", BASE, NGRAM), outputs) == top
    after = by_method(outputs)["ngram"]
    assert after.info.run_id == before.info.run_id
    assert (after.info.status, after.data.tags["status"]) == ("FINISHED", "completed")
    assert after.data.metrics["speedup"] == 1.0
    assert "not_measured.speedup" not in after.data.tags
    assert "reason" not in after.data.tags


def test_a_figure_that_is_gone_replaces_the_run(outputs: Path) -> None:
    told(folder(outputs / "d" / "s", BASE, NGRAM), outputs)
    told(folder(outputs / "d" / "s2", BASE, replace(NGRAM, status="failed")), outputs)
    assert len(all_runs(outputs)) == 3
    run = by_method(outputs)["ngram"]
    assert run.info.status == "FAILED"
    assert "speedup" not in run.data.metrics


def test_children_follow_a_parent_that_was_deleted(outputs: Path) -> None:
    sweep = folder(outputs / "d" / "s", BASE, NGRAM)
    old = told(sweep, outputs)
    client(outputs).delete_run(old)
    new = told(sweep, outputs)
    assert new != old
    runs = by_method(outputs)
    assert {r.data.tags["mlflow.parentRunId"] for r in runs.values()} == {new}
    assert len(all_runs(outputs)) == 3


def test_long_values_and_odd_names(outputs: Path) -> None:
    server = replace(point("ngram", 2).server, args=("y" * 6001,))
    dataset = replace(CHAT, name="a/b 'c' \"d\" é 日本 #%")
    odd = replace(NGRAM, point=point("ngram", 2, server=server, dataset=dataset), baseline=None)
    experiment = 'it\'s "odd" / é #1 %'
    sweep = folder(outputs / "d" / "s", odd, id="it's `odd`")
    first = told(sweep, outputs, experiment)
    assert told(sweep, outputs, experiment) == first
    run = by_method(outputs, experiment)["ngram"]
    assert len(run.data.params["server_args"]) == 250
    assert run.data.params["dataset"] == dataset.name
    assert "y" * 6001 in sweep.sweep.read_text(encoding="utf-8")


def test_nothing_is_printed(fresh: Path, capfd: pytest.CaptureFixture[str]) -> None:
    told(folder(fresh / "d" / "s", BASE), fresh)
    assert capfd.readouterr() == ("", "")


def test_the_environment_is_left_as_it_was(outputs: Path) -> None:
    before = dict(os.environ)
    told(folder(outputs / "d" / "s", BASE), outputs)
    changed = {k for k in before.keys() | os.environ.keys() if before.get(k) != os.environ.get(k)}
    assert {k for k in changed if k.startswith("MLFLOW")} == set()


def test_a_broken_database_is_one_line_and_the_files_stay(outputs: Path) -> None:
    sweep = folder(outputs / "d" / "s", BASE)
    (outputs / "mlflow.db").write_text("not a database", encoding="utf-8")
    with pytest.raises(PublishError) as caught:
        told(sweep, outputs)
    message = str(caught.value)
    assert message.startswith(f"MLflow at {default_tracking_uri(outputs)}: ")
    assert "\n" not in message
    assert sweep.points_csv.is_file()


def test_a_server_that_is_away_costs_seconds_and_nothing_is_lost(outputs: Path) -> None:
    sweep = folder(outputs / "d" / "s", BASE)
    judgement, _ = write_report(sweep)
    started = time.monotonic()
    with pytest.raises(PublishError, match=r"^MLflow at http://127\.0\.0\.1:9: "):
        publish(sweep, judgement, "http://127.0.0.1:9", "drafts")
    assert time.monotonic() - started < 60
    assert told(sweep, outputs)


def test_a_run_id_leads_to_the_folder_and_the_point(outputs: Path) -> None:
    sweep = folder(outputs / "d" / "s", BASE, NGRAM)
    top, uri = told(sweep, outputs), default_tracking_uri(outputs)
    assert found_again(uri, top) == (sweep.path.resolve(), "")
    run_id = by_method(outputs)["ngram"].info.run_id
    assert found_again(uri, run_id) == (sweep.path.resolve(), NGRAM.point.key)
    with pytest.raises(PublishError, match="0" * 32):
        found_again(uri, "0" * 32)
    shutil.rmtree(sweep.path)
    with pytest.raises(PublishError, match="the folder of its sweep is not here"):
        found_again(uri, top)


def test_a_deleted_experiment_is_named(outputs: Path) -> None:
    sweep = folder(outputs / "d" / "s", BASE)
    told(sweep, outputs)
    api = client(outputs)
    api.delete_experiment(api.get_experiment_by_name("drafts").experiment_id)
    expected = "experiment 'drafts' was deleted; restore it or choose another name"
    with pytest.raises(PublishError, match=expected):
        told(sweep, outputs)


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", *map(str, arguments)]


def test_the_command_uses_the_tracker_of_the_sweep(outputs: Path) -> None:
    uri = f"sqlite:///{outputs}/elsewhere.db"
    settings = {"seed": 0, "tracking_uri": uri, "experiment": "mine"}
    sweep = folder(outputs / "d" / "s", BASE, settings=settings)
    shutil.move(outputs / "mlflow.db", outputs / "elsewhere.db")
    assert subprocess.run(command("sweeper.publish", sweep.path), check=False).returncode == 0
    found = MlflowClient(tracking_uri=uri).get_experiment_by_name("mine")
    assert found is not None
    assert not (outputs / "mlflow.db").exists()


def test_two_sweeps_may_create_the_database_at_once(fresh: Path) -> None:
    sweeps = [folder(fresh / "d" / name, BASE, id=name) for name in ("one", "two")]
    started = [
        subprocess.Popen(command("sweeper.publish", s.path), stderr=subprocess.PIPE, text=True)
        for s in sweeps
    ]
    ended = [(process.communicate(timeout=200)[1], process.returncode) for process in started]
    assert ended == [("", 0), ("", 0)]
    assert len(all_runs(fresh, "sweeper")) == 4


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("statement", ["INSERT INTO runs", "SELECT", "INSERT INTO latest_metrics"])
def test_an_interrupted_publication_leaves_no_run_running(
    outputs: Path, statement: str, number: signal.Signals
) -> None:
    """The signal comes inside a transaction, with a cursor of the database still open."""
    more = Made(point=point("ngram", 4), records=RECORDS)
    sweep = folder(outputs / "d" / "s", BASE, NGRAM, more)
    with signalled(statement, number) as sent:
        assert publish_main([str(sweep.path)]) == 130
    assert sent == [number]
    runs = all_runs(outputs, "sweeper")
    assert 2 <= len(runs) < 4
    assert {r.info.status for r in runs} <= {"KILLED", "FINISHED"}
    top = next(r for r in runs if "method" not in r.data.params)
    assert top.info.status == "KILLED"
    assert told(sweep, outputs, "sweeper") == top.info.run_id
    again = all_runs(outputs, "sweeper")
    assert [r.info.status for r in again] == ["FINISHED"] * 4


@contextmanager
def signalled(statement: str, number: signal.Signals) -> Iterator[list[signal.Signals]]:
    """This process gets a signal during the first ``statement`` after those that make two runs;
    handlers are put back."""
    sent: list[signal.Signals] = []
    made: list[str] = []

    def executed(connection: Any, cursor: Any, text: str, *more: Any) -> None:
        if text.startswith(statement) and len(made) >= 2 and not sent:
            sent.append(number)
            signal.raise_signal(number)
        if text.startswith("INSERT INTO runs"):
            made.append(text)

    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    event.listen(Engine, "after_cursor_execute", executed)
    try:
        yield sent
    finally:
        event.remove(Engine, "after_cursor_execute", executed)
        for n, handler in before.items():
            signal.signal(n, handler)


def wait_for(condition: Any, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@contextmanager
def served(outputs: Path) -> Iterator[str]:
    """The pages of ``python -m sweeper.ui``; its whole process group is stopped at the end."""
    with own_port() as port:
        arguments = command("sweeper.ui", "--outputs", outputs, "--port", port)
        process = subprocess.Popen(arguments, start_new_session=True, stderr=subprocess.DEVNULL)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=PATIENT_S)


def fetched(address: str) -> bytes:
    try:
        with urllib.request.urlopen(address, timeout=PATIENT_S) as answer:
            return bytes(answer.read())
    except OSError:  # not there yet
        return b""


def test_the_ui_shows_runs_and_their_files(outputs: Path) -> None:
    told(folder(outputs / "d" / "s", BASE, NGRAM), outputs)
    run_id = by_method(outputs)["ngram"].info.run_id
    with served(outputs) as address:
        wait_for(lambda: fetched(f"{address}/health"))
        assert b"<title>MLflow</title>" in fetched(address)
        over = folder(outputs / "d" / "http", BASE, NGRAM, id="over http")
        judgement, _ = write_report(over)
        run = publish(over, judgement, address, "over http")
        assert publish(over, judgement, address, "over http") == run
        assert found_again(address, run) == (over.path, "")
        file = fetched(f"{address}/get-artifact?path=result.json&run_uuid={run_id}")
    assert b'"status": "completed"' in file
