"""A whole sweep with real vLLM on the CPU, through Slurm."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest

from sweeper.report.columns import columns
from tests.cluster.cluster import Cluster
from tests.cluster.sweeps import FAST, folder_of, nothing_is_left, results, run, starts

# By hand: thirteen real starts as jobs take half an hour on a small machine.
pytestmark = [pytest.mark.slurm, pytest.mark.vllm, pytest.mark.long, pytest.mark.timeout(5400)]

METHODS = ("ngram", "suffix", "draft_model", "eagle3")
GAMMAS = ("2", "4", "8")
SMALL = ("dataset.limit=3", "sampling.max_tokens=24")


def test_real_servers_as_jobs(cluster: Cluster, tmp_path: Path) -> None:
    fast = [f"hydra.launcher.backend.{one}" for one in FAST]
    one = "hydra.launcher.backend.parameters.array_parallelism=1"  # this machine is small
    line = [sys.executable, "-m", "sweeper", "-m", f"output_dir={tmp_path}/out", *SMALL, *fast, one]
    swept = (f"method=none,{','.join(METHODS)}", f"gamma={','.join(GAMMAS)}", "dataset=code,chat")
    done = run(cluster, [*line, "hydra/launcher=slurm", *swept], timeout_s=5000)
    assert done.status == 0, done.out + done.err
    folder = folder_of(tmp_path)
    assert [r.status for r in results(folder).values()] == ["completed"] * 26
    assert starts(folder) == len(METHODS) * len(GAMMAS) + 1  # for any number of datasets
    table = pd.read_csv(folder.points_csv)
    assert list(table.columns) == list(columns(8))  # as that of a sweep without Slurm
    assert table["method"].value_counts().to_dict() == {"none": 2, **dict.fromkeys(METHODS, 6)}
    assert table["speedup"].notna().tolist() == (table["method"] != "none").tolist()
    assert (tmp_path / "out" / "mlflow.db").is_file()
    assert "MLflow: sqlite:" in done.out
    nothing_is_left(cluster)
