"""The test cluster behaves as Slurm does and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cluster import processes
from tests.cluster.cluster import SAVED_S, Cluster, wait_until

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(400)]

SCRIPT = Path(__file__).with_name("cluster.py")
IDLE = {"n1": "idle", "n2": "idle"}


def submit(cluster: Cluster, *options: str, wrap: str) -> str:
    return cluster.run("sbatch", "--parsable", *options, f"--wrap={wrap}").strip()


def state_of(cluster: Cluster, job: str) -> str:
    """The job's state in accounting, empty until it arrives there."""
    return cluster.run("sacct", "-nXP", "-j", job, "-o", "State").strip()


def test_an_array_with_a_gpu_each(cluster: Cluster) -> None:
    """Each ends when all four have begun, so all four run at once."""
    wrap = "echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES $SLURM_JOB_GPUS; "
    wrap += "touch begun-$SLURM_ARRAY_TASK_ID; "
    wrap += "while [ $(ls begun-* | wc -l) -lt 4 ]; do sleep 0.1; done"
    job = submit(cluster, "--array=0-3", "--gres=gpu:1", "-o", "gpu-%a.txt", wrap=wrap)
    wait_until(lambda: cluster.jobs() == "", "end of the array")
    seen = {(cluster.folder / f"gpu-{task}.txt").read_text().strip() for task in range(4)}
    assert seen == {"n1 0 0", "n1 1 1", "n2 0 0", "n2 1 1"}
    done = "\n".join(["COMPLETED"] * 4)
    wait_until(lambda: state_of(cluster, job) == done, "the array in accounting")
    assert cluster.processes() == {}


def test_a_node_can_be_taken_away_under_a_job(cluster: Cluster) -> None:
    job = submit(cluster, "-w", "n1", "--no-requeue", wrap="sleep 100")
    wait_until(lambda: f"{job} RUNNING" in cluster.jobs(), "a running job")
    # Running is what slurmctld says; the node starts the process a moment later.
    wait_until(lambda: len(cluster.processes()) > 0, "the job's processes")
    cluster.set_node("n1", "DOWN")
    wait_until(lambda: state_of(cluster, job) == "NODE_FAIL", "NODE_FAIL in accounting")
    cluster.set_node("n1", "RESUME")
    wait_until(lambda: cluster.node_states() == IDLE, "idle nodes")
    wait_until(lambda: cluster.processes() == {}, "end of the job's processes")


@pytest.mark.parametrize("daemon", ["slurmd-n1", "slurmctld"])
def test_a_job_outlives_a_killed_daemon(cluster: Cluster, daemon: str) -> None:
    go = cluster.folder / f"go-{daemon}"
    job = submit(cluster, "-w", "n1", wrap=f"while [ ! -e {go} ]; do sleep 0.2; done")
    wait_until(lambda: f"{job} RUNNING" in cluster.jobs(), "a running job")
    wait_until(lambda: len(cluster.processes()) > 0, "the job's processes")
    time.sleep(SAVED_S)
    cluster.kill(daemon)
    assert len(cluster.processes()) > 0
    cluster.start_daemon(daemon)
    go.touch()
    wait_until(lambda: state_of(cluster, job) == "COMPLETED", "COMPLETED in accounting")
    wait_until(lambda: cluster.node_states() == IDLE, "idle nodes")


def test_a_second_cluster_beside_the_first_leaves_no_process(
    cluster: Cluster, cluster_folder: Path
) -> None:
    with Cluster(cluster_folder, accounting=False, max_array_size=4) as second:
        refused = second.try_run("sbatch", "--array=0-4", "--wrap=true")
        assert refused.returncode == 1
        assert "Invalid job array specification" in refused.stderr
        assert second.try_run("sacct").returncode == 1
        submit(second, "--array=0-3%1", "--gres=gpu:2", wrap="setsid sleep 300 & sleep 300")
        wait_until(lambda: len(second.processes()) >= 3, "the job's processes")
        assert cluster.jobs() == "", "jobs of the second cluster are not the first one's"
        left = {*processes.daemons(cluster_folder), *second.processes()}
    assert processes.daemons(cluster_folder) == {}
    assert processes.jobs(cluster_folder) == {}
    assert not left & {*processes.pids()}
    assert cluster.node_states() == IDLE


def test_a_start_that_fails_says_why_and_leaves_no_process(cluster_folder: Path) -> None:
    with pytest.raises(RuntimeError, match="Invalid SlurmctldPort none\n"):
        Cluster(cluster_folder, accounting=False, SlurmctldPort="none").start()
    assert processes.daemons(cluster_folder) == {}


def test_by_hand(_can_start: None, cluster_folder: Path) -> None:
    def command(action: str, *options: str) -> str:
        argv = [sys.executable, str(SCRIPT), action, str(cluster_folder), *options]
        return subprocess.run(argv, check=True, capture_output=True, text=True, cwd="/").stdout

    printed = command("start", "--no-accounting")
    assert printed == f"export SLURM_CONF={cluster_folder}/slurm.conf\n"
    try:
        env = os.environ | {"SLURM_CONF": str(cluster_folder / "slurm.conf")}
        nodes = subprocess.run(["sinfo", "-h"], env=env, capture_output=True, text=True, check=True)
        assert nodes.stdout.split() == ["main*", "up", "1:00:00", "2", "idle", "n[1-2]"]
    finally:
        command("stop")
    assert processes.daemons(cluster_folder) == {}
