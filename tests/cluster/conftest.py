"""The cluster that tests share, started once."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.settings import missing


@pytest.fixture(scope="session")
def _can_start() -> None:
    """Skip where no cluster can run; in CI that is a failure, for a skip would go unseen."""
    problem = missing()
    if problem and os.environ.get("CI"):
        pytest.fail(problem, pytrace=False)
    if problem:
        pytest.skip(problem)


@pytest.fixture
def cluster_folder(_can_start: None) -> Iterator[Path]:
    """A folder for one more cluster; pytest's own are too deep for the path of a Unix socket."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def cluster(_can_start: None) -> Iterator[Cluster]:
    """Two idle nodes with two GPUs each, with accounting; a failed start leaves its logs."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    with Cluster(folder) as started:
        yield started
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def small(_can_start: None) -> Iterator[Cluster]:
    """Without accounting, and an array may have four tasks."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    with Cluster(folder, accounting=False, max_array_size=4) as started:
        yield started
    shutil.rmtree(folder)
