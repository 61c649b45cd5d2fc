"""Faults under a sweep: completed points stay, the rest says why, and resume completes it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pandas as pd
import pytest

from sweeper.store import SweepFolder
from tests.cluster.cluster import SAVED_S, Cluster
from tests.cluster.sweeps import (
    SLOW,
    SLOW_ENGINE,
    argv,
    collect,
    end,
    folder_of,
    measuring,
    nothing_is_left,
    results,
    resume_completes,
    run,
    shim,
    silent,
    start,
    started_at,
    statuses,
    third_of,
)

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(400)]

PARAMETERS = "hydra.launcher.backend.parameters"
TWO_SLOW = ("gamma=4", "dataset.limit=8", SLOW_ENGINE)


def in_the_table(folder: SweepFolder, before: dict[int, str], *others: str) -> None:
    """What completed ``before`` is in the table so; the rest has one of ``others`` and a reason."""
    table = pd.read_csv(folder.points_csv).set_index("point")
    found = results(folder)
    assert sorted(table.index) == sorted(found)
    assert before.items() <= started_at(folder.path.parents[2]).items()
    for number, result in found.items():
        status, reason = (str(table.at[number, name]) for name in ("status", "reason"))
        assert status == result.status
        if result.status != "completed":
            assert number not in before
            assert status in others
            assert result.reason and result.reason.splitlines()[0] in reason


def test_a_killed_group_is_lost_and_the_others_are_not(cluster: Cluster, tmp_path: Path) -> None:
    line = argv(tmp_path, *SLOW)
    process = start(cluster, line, faults=silent(4, point=1))
    os.kill(measuring(folder_of(tmp_path), 4, point=1).pid, signal.SIGKILL)
    done = end(process)
    assert done.status == 1, done.out
    folder = folder_of(tmp_path)
    assert statuses(folder) == ["completed"] * 3 + ["lost"]
    reason = results(folder)[3].reason
    assert "ended (FAILED" in reason and "while this point was measured" in reason
    assert "completed" in done.out and "lost" in done.out
    in_the_table(folder, started_at(tmp_path), "lost")
    nothing_is_left(cluster)
    resume_completes(cluster, tmp_path, line)


def test_one_cancelled_task_is_preempted(cluster: Cluster, tmp_path: Path) -> None:
    line = argv(tmp_path, *SLOW)
    process = start(cluster, line, faults=silent(4))
    cluster.run("scancel", measuring(folder_of(tmp_path), 4).job)
    done = end(process)
    assert done.status == 1, done.out
    folder = folder_of(tmp_path)
    assert statuses(folder) == ["completed"] * 2 + ["preempted"] * 2
    found = results(folder)
    said = "SIGTERM: cancelled, preempted or timed out; then job "
    assert found[2].reason.startswith(said), found[2].reason
    assert "ended (CANCELLED" in found[2].reason
    assert found[2].requests >= 2
    in_the_table(folder, started_at(tmp_path), "preempted")
    resume_completes(cluster, tmp_path, line)


@pytest.mark.long
def test_a_node_that_goes_down_for_good(cluster: Cluster, tmp_path: Path) -> None:
    """Without requeue its points stay open until the sweep is resumed."""
    once = f"{PARAMETERS}.additional_parameters={{no_requeue: true}}"
    line = argv(tmp_path, *SLOW, once)
    process = start(cluster, line, faults=silent(4, point=1))
    node = measuring(folder_of(tmp_path), 4, point=1).node
    before = started_at(tmp_path)
    cluster.set_node(node, "DOWN")
    done = end(process)
    cluster.set_node(node, "RESUME")
    assert done.status == 1, done.out
    folder = folder_of(tmp_path)
    assert results(folder)[2].status == "completed"
    assert results(folder)[3].status in ("lost", "preempted")
    in_the_table(folder, before, "lost", "preempted")
    nothing_is_left(cluster)
    resume_completes(cluster, tmp_path, line)


def test_a_killed_controller_ends_nothing(cluster: Cluster, tmp_path: Path) -> None:
    """slurmctld is gone for a while: the groups measure on, the watching process waits."""
    first, second = tmp_path / "first", tmp_path / "second"
    holds = [(third_of(0), str(first)), (third_of(1), str(second))]
    slow = {"when_gamma": 4, "held_after_requests": holds}
    process = start(cluster, argv(tmp_path, *SLOW), faults=slow)
    folder = folder_of(tmp_path)
    measuring(folder, 4)
    time.sleep(SAVED_S)
    cluster.kill("slurmctld")
    try:
        first.touch()
        measuring(folder, 4, point=1)
        time.sleep(5)
        assert process.poll() is None
    finally:
        cluster.start_daemon("slurmctld")
        second.touch()
    done = end(process)
    assert done.status == 0, done.out
    assert statuses(folder) == ["completed"] * 4
    nothing_is_left(cluster)


@pytest.mark.long
def test_a_time_limit_of_a_minute(cluster: Cluster, tmp_path: Path) -> None:
    more = ("dataset.limit=40", "hydra.launcher.backend.max_requeues=0")
    slow = SLOW_ENGINE.replace("'10'", "'20'")
    line = argv(tmp_path, "gamma=4", "dataset=code,chat", slow, *more)
    done = run(cluster, [*line, f"{PARAMETERS}.time=1"])
    assert done.status == 1, done.out
    folder = folder_of(tmp_path)
    assert "preempted" in statuses(folder)
    in_the_table(folder, started_at(tmp_path), "preempted", "lost")
    nothing_is_left(cluster)
    resume_completes(cluster, tmp_path, line)


@pytest.mark.parametrize(
    "text",
    [pytest.param("echo down >&2; exit 1", marks=pytest.mark.long), "sleep 600"],
    ids=["fails", "hangs"],
)
def test_accounting_that_fails_or_hangs(cluster: Cluster, tmp_path: Path, text: str) -> None:
    shims = tmp_path / "shims"
    shim(shims, "sacct", text)
    shim(shims, "scontrol", 'case "$*" in *"show job"*) exit 1;; esac; exec /usr/bin/scontrol "$@"')
    line = argv(tmp_path, *TWO_SLOW)
    process = start(cluster, line, shims, silent(4))
    os.kill(measuring(folder_of(tmp_path), 4).pid, signal.SIGKILL)
    done = end(process)
    assert done.status == 1, done.out
    folder = folder_of(tmp_path)
    assert statuses(folder) == ["completed", "lost"]
    reason = results(folder)[1].reason
    assert "is gone, Slurm does not say how, while this point was measured" in reason
    in_the_table(folder, started_at(tmp_path), "lost")
    resume_completes(cluster, tmp_path, line, points=2)


def test_a_queue_that_does_not_answer_does_not_matter(cluster: Cluster, tmp_path: Path) -> None:
    shims = tmp_path / "shims"
    shim(shims, "squeue", "exit 1")
    done = run(cluster, argv(tmp_path, "gamma=4", "dataset.limit=3"), shims=shims)
    assert done.status == 0, done.out
    assert statuses(folder_of(tmp_path)) == ["completed"] * 2
    nothing_is_left(cluster)


def test_a_killed_submitter_is_collected(cluster: Cluster, tmp_path: Path) -> None:
    process = start(cluster, argv(tmp_path, *TWO_SLOW))
    folder = folder_of(tmp_path)
    measuring(folder, 0)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    done = collect(cluster, folder)
    assert done.status == 0, done.out + done.err
    assert statuses(folder) == ["completed"] * 2
    tables = [folder.points_csv.read_bytes(), (folder.report / "report.md").read_bytes()]
    again = collect(cluster, folder)
    assert again.status == 0
    assert tables == [folder.points_csv.read_bytes(), (folder.report / "report.md").read_bytes()]
    nothing_is_left(cluster)


@pytest.mark.long
def test_submitter_and_group_killed_without_accounting(small: Cluster, tmp_path: Path) -> None:
    line = argv(tmp_path, *SLOW)
    process = start(small, line, faults=silent(4, point=1))
    folder = folder_of(tmp_path)
    beat = measuring(folder, 4, point=1)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    os.kill(beat.pid, signal.SIGKILL)
    done = collect(small, folder)
    assert done.status == 1, done.out + done.err
    assert statuses(folder) == ["completed"] * 3 + ["lost"]
    assert f"point 3 ngram γ=4 chat: lost: job {beat.job} ended (FAILED" in done.out
    in_the_table(folder, started_at(tmp_path), "lost")
    nothing_is_left(small)
    resume_completes(small, tmp_path, line)


def test_small_arrays_share_one_cap(small: Cluster, tmp_path: Path) -> None:
    """Six groups where an array may have four tasks."""
    two = f"{PARAMETERS}.array_parallelism=2"
    done = run(small, argv(tmp_path, "gamma=1,2,3,4,5", "dataset.limit=2", two))
    assert done.status == 0, done.out + done.err
    assert statuses(folder_of(tmp_path)) == ["completed"] * 6
    submitted = [line for line in done.out.splitlines() if "submitted job " in line]
    assert [line.partition(": ")[2].partition(",")[0] for line in submitted] == [
        "4 groups", "2 groups",
    ]  # fmt: skip
    arrays = [p.read_text() for p in folder_of(tmp_path).submitit.glob("*_submission.sh")]
    assert sum("--array=0-3%1" in text for text in arrays) == 1
    assert sum("--array=0-1%1" in text for text in arrays) == 1
    nothing_is_left(small)


def test_a_refused_second_array(small: Cluster, tmp_path: Path) -> None:
    """What Slurm took is measured and listed; what it did not says so, and can be resumed."""
    shims = tmp_path / "shims"
    full = "sbatch: error: QOSMaxSubmitJobPerUserLimit"
    count = f'echo x >> {tmp_path}/calls; [ "$(wc -l < {tmp_path}/calls)" = 1 ]'
    shim(shims, "sbatch", f'{count} && exec /usr/bin/sbatch "$@"; echo "{full}" >&2; exit 1')
    line = argv(tmp_path, "gamma=1,2,3,4,5", "dataset.limit=2")
    done = run(small, line, shims=shims)
    assert done.status == 1, done.out + done.err
    folder = folder_of(tmp_path)
    assert statuses(folder) == ["completed"] * 4 + ["failed"] * 2
    assert [line.rpartition(": ")[2] for line in done.out.splitlines() if "submitted job" in line]
    for number in (4, 5):
        reason = results(folder)[number].reason
        assert reason.startswith("not submitted: ") and reason.endswith(full), reason
    in_the_table(folder, started_at(tmp_path), "failed")
    nothing_is_left(small)
    resume_completes(small, tmp_path, line, points=6)
