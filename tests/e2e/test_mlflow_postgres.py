"""Publishing into a real PostgreSQL, started for the test in a folder of its own."""

from __future__ import annotations

import getpass
import importlib.util
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from sweeper.report.mlflow import found_again, publish
from sweeper.report.outcome import write_report
from tests.unit.sweeps import CHAT, Made, counts, folder, point, record

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(not PROGRAMS, reason="needs PostgreSQL: apt install postgresql"),
    pytest.mark.skipif(
        importlib.util.find_spec("psycopg2") is None, reason="needs pip install psycopg2-binary"
    ),
]


def as_owner(*command: object) -> None:
    """PostgreSQL refuses to run as root; the package made a user for it."""
    user = ["runuser", "-u", "postgres", "--"] if getpass.getuser() == "root" else []
    subprocess.run([*user, *map(str, command)], check=True, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an empty database; the server is gone at the end."""
    home = Path("/tmp") / f"pg-{os.getpid()}"
    home.mkdir()
    if getpass.getuser() == "root":
        shutil.chown(home, "postgres")
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    programs, data = PROGRAMS[-1], home / "data"
    as_owner(programs / "initdb", "-D", data, "-U", "sweeper", "-A", "trust")
    options = f"-p {port} -k {home} -c listen_addresses=127.0.0.1"
    as_owner(programs / "pg_ctl", "-D", data, "-o", options, "-l", home / "log", "-w", "start")
    try:
        as_owner(programs / "createdb", "-h", "127.0.0.1", "-p", port, "-U", "sweeper", "mlflow")
        yield f"postgresql+psycopg2://sweeper@127.0.0.1:{port}/mlflow"
    finally:
        as_owner(programs / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
        shutil.rmtree(home)


def test_a_sweep_goes_to_postgresql_once(database: str, tmp_path: Path) -> None:
    records = tuple(record(f"p{n}", spec=counts((1, 0, 2)), steps=3, tokens=8) for n in range(4))
    base = Made(point=point("none", 0), records=tuple(replace(r, spec=None) for r in records))
    server = replace(point("ngram", 2).server, args=("y" * 6001,))
    odd = replace(CHAT, name="a/b 'c' \"d\" é 日本 #%")
    ngram = Made(point=point("ngram", 2, server=server, dataset=odd), records=records)
    sweep = folder(tmp_path / "d" / "s", base, ngram)
    judgement, _ = write_report(sweep)
    top = publish(sweep, judgement, database, "it's odd é")
    assert publish(sweep, judgement, database, "it's odd é") == top
    api: Any = MlflowClient(tracking_uri=database)
    experiment = api.get_experiment_by_name("it's odd é")
    runs = api.search_runs([experiment.experiment_id])
    assert len(runs) == 3 and {r.info.status for r in runs} == {"FINISHED"}
    found = next(r for r in runs if r.data.params.get("method") == "ngram")
    assert found.data.params["dataset"] == odd.name
    assert found.data.metrics["acceptance_rate"] == pytest.approx(2 / 3)
    assert (tmp_path / "mlartifacts" / top / "artifacts" / "index.html").is_file()
    assert found_again(database, top) == (sweep.path.resolve(), "")
