"""A whole sweep with real vLLM on the CPU, through Slurm."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.sweeps import FAST, folder_of, nothing_is_left, results, run, starts

# By hand: one real start as a job takes minutes on a small machine, so it is not part of CI.
pytestmark = [pytest.mark.slurm, pytest.mark.vllm, pytest.mark.long, pytest.mark.timeout(1200)]

SMALL = ("dataset.limit=2", "sampling.max_tokens=16", "load.warmup_requests=1")


def test_real_servers_as_jobs(cluster: Cluster, tmp_path: Path) -> None:
    fast = [f"hydra.launcher.backend.{one}" for one in FAST]
    one = "hydra.launcher.backend.parameters.array_parallelism=1"  # this machine is small
    line = [sys.executable, "-m", "sweeper", "-m", f"output_dir={tmp_path}/out", *SMALL, *fast, one]
    options = ("hydra/launcher=slurm", "method=ngram", "gamma=2", "dataset=code,chat")
    done = run(cluster, [*line, *options], timeout_s=1000)
    assert done.status == 0, done.out + done.err
    folder = folder_of(tmp_path)
    assert [r.status for r in results(folder).values()] == ["completed"] * 4
    assert starts(folder) == 2
    table = pd.read_csv(folder.points_csv)
    assert list(table["method"]) == ["none", "none", "ngram", "ngram"]
    assert table["speedup"].notna().tolist() == [False, False, True, True]
    assert (tmp_path / "out" / "mlflow.db").is_file()
    assert "MLflow: sqlite:" in done.out
    nothing_is_left(cluster)
