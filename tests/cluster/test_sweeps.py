"""Sweeps through a real Slurm, and what happens when something happens to their jobs."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from sweeper import store
from sweeper.store import SweepFolder
from sweeper.values import PointResult
from tests.cluster.cluster import Cluster, wait_until
from tests.cluster.sweeps import (
    PATIENT_S,
    SLOW_ENGINE,
    argv,
    collect,
    end,
    folder_of,
    measuring,
    nothing_is_left,
    results,
    run,
    start,
    starts,
    statuses,
)
from tests.e2e.running import ENGINE

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(400)]

SWEEP = ("gamma=2,4", "dataset=code,chat", "dataset.limit=3")
SLOW = ("gamma=4", "dataset=code,chat", "dataset.limit=8", SLOW_ENGINE)
"""Long enough for something to happen in the middle."""


def started_at(outputs: Path) -> dict[int, str]:
    """When each completed point was measured: equal before and after means kept."""
    return {
        number: f"{r.started_at} {r.wall_s}"
        for number, r in results(folder_of(outputs)).items()
        if r.status == "completed"
    }


def resume_completes(cluster: Cluster, outputs: Path, line: list[str]) -> None:
    """The same command with ``resume=`` keeps what is completed and measures the rest."""
    before = started_at(outputs)
    done = run(cluster, [*line, f"resume={folder_of(outputs).path}"])
    assert done.status == 0, done.out + done.err
    after = started_at(outputs)
    assert len(after) == 4
    assert before.items() <= after.items()
    assert f"resume: {len(before)} of 4 points are kept" in done.out
    nothing_is_left(cluster)


def test_an_array_with_a_gpu_for_each_server(cluster: Cluster, tmp_path: Path) -> None:
    gpu = "hydra.launcher.backend.parameters.gres=gpu:1"
    done = run(cluster, argv(tmp_path, *SWEEP, gpu))
    assert done.status == 0, done.out + done.err
    folder = folder_of(tmp_path)
    jobs = [result.provenance["job"] for result in results(folder).values()]
    assert all(job["visible_devices"] in ("0", "1") for job in jobs)
    assert len({(job["node"], job["visible_devices"]) for job in jobs}) >= 2
    # methods × γ + 1, counted in the servers' own logs
    assert starts(folder) == 3
    assert "job " in done.out and "3 groups, 10 min each" in done.out
    assert "6/6" in done.out
    assert cluster.jobs() == ""
    assert cluster.processes() == {}


def test_a_killed_group_is_lost_and_the_others_are_not(cluster: Cluster, tmp_path: Path) -> None:
    line = argv(tmp_path, *SLOW)
    process = start(cluster, line)
    os.kill(measuring(folder_of(tmp_path), 4, point=1).pid, signal.SIGKILL)
    done = end(process)
    assert done.status == 1, done.out
    folder = folder_of(tmp_path)
    assert statuses(folder) == ["completed"] * 3 + ["lost"]
    reason = results(folder)[3].reason
    assert "ended (FAILED" in reason and "while this point was measured" in reason
    assert "completed" in done.out and "lost" in done.out
    nothing_is_left(cluster)
    resume_completes(cluster, tmp_path, line)


def test_one_cancelled_task_is_preempted(cluster: Cluster, tmp_path: Path) -> None:
    line = argv(tmp_path, *SLOW)
    process = start(cluster, line)
    cluster.run("scancel", measuring(folder_of(tmp_path), 4).job)
    done = end(process)
    assert done.status == 1, done.out
    found = results(folder_of(tmp_path))
    assert [found[n].status for n in range(4)] == ["completed"] * 2 + ["preempted"] * 2
    said = "SIGTERM: cancelled, preempted or timed out; then job "
    assert found[2].reason.startswith(said), found[2].reason
    assert "ended (CANCELLED" in found[2].reason
    assert found[2].requests >= 2
    resume_completes(cluster, tmp_path, line)


@pytest.mark.parametrize("how", ["USR2", "requeue", "node"])
def test_a_job_that_is_put_back_goes_on(cluster: Cluster, tmp_path: Path, how: str) -> None:
    line = argv(tmp_path, *SLOW)
    process = start(cluster, line)
    folder = folder_of(tmp_path)
    beat = measuring(folder, 4, point=1)
    if how == "USR2":
        cluster.run("scancel", "--signal=USR2", beat.job)
    elif how == "requeue":
        cluster.run("scontrol", "requeue", beat.job)
    else:
        cluster.set_node(beat.node, "DOWN")
    first = results(folder)[2]
    wait_until(lambda: f"{beat.job} PENDING" in cluster.jobs(), "the job in the queue", PATIENT_S)
    # Slurm delays a job that is put back; we do not wait for that, but slurmd fails one that comes
    # back within the second in which it was ended: "already killed, do not launch batch job".
    time.sleep(2)
    cluster.try_run("scontrol", "update", f"JobId={beat.job}", "StartTime=now")
    done = end(process)
    if how == "node":
        cluster.set_node(beat.node, "RESUME")
    assert done.status == 0, done.out
    again = results(folder)
    assert [again[n].status for n in range(4)] == ["completed"] * 4
    assert again[2] == first  # not measured twice
    assert again[3].provenance["job"]["restarts"] == "1"
    assert len(folder.point(store.read_sweep(folder).plan.points[3]).records()) == 8
    assert starts(folder) >= 3
    nothing_is_left(cluster)


@pytest.mark.long
def test_a_time_limit_of_a_minute(cluster: Cluster, tmp_path: Path) -> None:
    more = ("dataset.limit=40", "hydra.launcher.backend.max_requeues=0")
    limit = "hydra.launcher.backend.parameters.time=1"
    slow = SLOW_ENGINE.replace("'10'", "'30'")
    line = argv(tmp_path, "gamma=4", "dataset=code,chat", slow, limit, *more)
    done = run(cluster, line)
    assert done.status == 1, done.out
    found = results(folder_of(tmp_path))
    assert {r.status for r in found.values()} <= {"completed", "preempted", "lost"}
    assert any(r.status == "preempted" for r in found.values()), done.out
    nothing_is_left(cluster)


def shim(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize("text", ["echo down >&2; exit 1", "sleep 600"], ids=["fails", "hangs"])
def test_accounting_that_fails_or_hangs(cluster: Cluster, tmp_path: Path, text: str) -> None:
    shims = tmp_path / "shims"
    shim(shims, "sacct", text)
    shim(shims, "scontrol", 'case "$*" in *"show job"*) exit 1;; esac; exec /usr/bin/scontrol "$@"')
    process = start(cluster, argv(tmp_path, "gamma=4", "dataset.limit=40", SLOW_ENGINE), shims)
    os.kill(measuring(folder_of(tmp_path), 4).pid, signal.SIGKILL)
    done = end(process)
    assert done.status == 1, done.out
    found = results(folder_of(tmp_path))
    assert found[0].status == "completed"
    assert found[1].status == "lost"
    assert "is gone, Slurm does not say how, while this point was measured" in found[1].reason


def test_a_queue_that_does_not_answer_does_not_matter(cluster: Cluster, tmp_path: Path) -> None:
    shims = tmp_path / "shims"
    shim(shims, "squeue", "exit 1")
    done = run(cluster, argv(tmp_path, "gamma=4", "dataset.limit=3"), shims=shims)
    assert done.status == 0, done.out
    assert statuses(folder_of(tmp_path)) == ["completed"] * 2
    nothing_is_left(cluster)


def test_a_killed_submitter_is_collected(cluster: Cluster, tmp_path: Path) -> None:
    process = start(cluster, argv(tmp_path, *SLOW))
    folder = folder_of(tmp_path)
    measuring(folder, 0)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    done = collect(cluster, folder)
    assert done.status == 0, done.out + done.err
    assert statuses(folder) == ["completed"] * 4
    tables = [folder.points_csv.read_bytes(), (folder.report / "report.md").read_bytes()]
    again = collect(cluster, folder)
    assert again.status == 0
    assert tables == [folder.points_csv.read_bytes(), (folder.report / "report.md").read_bytes()]
    nothing_is_left(cluster)


def test_ctrl_c_cancels_what_runs_and_what_waits(cluster: Cluster, tmp_path: Path) -> None:
    one = "hydra.launcher.backend.parameters.array_parallelism=1"
    line = argv(tmp_path, *SLOW, one)
    process = start(cluster, line)
    folder = folder_of(tmp_path)
    job = measuring(folder, 0, point=1).job
    process.send_signal(signal.SIGINT)
    done = end(process)
    assert done.status == 130, done.out
    assert f"cancelled jobs {job.split('_')[0]}; waiting for their end" in done.out
    assert cluster.jobs() == ""
    found = results(folder)
    assert [found[n].status for n in range(4)] == ["completed"] + ["preempted"] * 3
    assert "never began to measure" in found[3].reason
    resume_completes(cluster, tmp_path, line)


def test_detached_and_changed_while_it_waited(cluster: Cluster, tmp_path: Path) -> None:
    """Prompts edited after the submission refuse their points, an edited program all."""
    prompts = tmp_path / "mine.jsonl"
    prompts.write_text('{"id": "1", "prompt": "hello"}\n{"id": "2", "prompt": "world"}\n')
    held = "hydra.launcher.backend.parameters.additional_parameters={hold: true}"
    data = ("dataset=jsonl", f"dataset.file={prompts}", "dataset.name=mine", "gamma=4")
    done = run(cluster, argv(tmp_path, *data, held, "detach=true"))
    assert done.status == 0, done.out + done.err
    folder = folder_of(tmp_path)
    assert f"later: python -m sweeper.collect {folder.path}" in done.out
    job = done.out.partition("submitted job ")[2].partition(":")[0]
    resumed = run(cluster, [*argv(tmp_path, *data), f"resume={folder.path}"])
    assert resumed.status == 2
    assert "still in Slurm's queue" in resumed.err
    prompts.write_text('{"id": "1", "prompt": "other"}\n')
    cluster.run("scontrol", "release", job)
    reasons = {r.reason for r in _collected(cluster, folder)}
    assert reasons == {f"{prompts} has changed since the sweep was planned; plan it again"}


def test_an_edited_copy_of_the_program_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    held = "hydra.launcher.backend.parameters.additional_parameters={hold: true}"
    done = run(cluster, argv(tmp_path, "gamma=4", "dataset.limit=2", held, "detach=true"))
    folder = folder_of(tmp_path)
    job = done.out.partition("submitted job ")[2].partition(":")[0]
    with (folder.code / "sweeper" / "__init__.py").open("a") as file:
        file.write("# edited\n")
    cluster.run("scontrol", "release", job)
    for result in _collected(cluster, folder):
        assert result.reason.startswith(f"the program in {folder.code} is not the one that was sub")


def _collected(cluster: Cluster, folder: SweepFolder) -> list[PointResult]:
    done = collect(cluster, folder)
    assert done.status == 1, done.out + done.err
    nothing_is_left(cluster)
    found = list(results(folder).values())
    assert [r.status for r in found] == ["failed", "failed"], done.out
    return found


def test_a_bad_node_is_left_out(cluster: Cluster, tmp_path: Path) -> None:
    """One group, first sent to n1 whose disk is full, is measured on n2."""
    script = tmp_path / "server.sh"
    script.write_text(
        'if [ "$SLURMD_NODENAME" = n1 ]; then\n'
        '  echo "OSError: [Errno 28] No space left on device"; exit 1\nfi\n'
        f'exec {sys.executable} {ENGINE} "$@"\n'
    )
    own = f"server.command=[sh,{script}]"
    done = run(cluster, argv(tmp_path, "gamma=4", "dataset.limit=2", own))
    assert done.status == 0, done.out + done.err
    folder = folder_of(tmp_path)
    assert {r.provenance["job"]["node"] for r in results(folder).values()} == {"n2"}
    tried = [path.read_text() for path in folder.path.glob("groups/*/attempts.jsonl")]
    moved = [json.loads(line) for text in tried for line in text.splitlines()[1:]]
    assert moved
    for attempt in moved:
        assert attempt["excluded"] == "n1"
        assert attempt["why"] == "its disk is full (OSError: [Errno 28] No space left on device)"
    nothing_is_left(cluster)


def test_two_jobs_on_one_node_do_not_meet(cluster: Cluster, tmp_path: Path) -> None:
    on_n1 = "hydra.launcher.backend.parameters.nodelist=n1"
    process = start(cluster, argv(tmp_path, "gamma=4", "dataset.limit=40", SLOW_ENGINE, on_n1))
    folder = folder_of(tmp_path)
    measuring(folder, 0)
    measuring(folder, 4)
    own = [_variables(path) for path in sorted(folder.path.glob("servers/*/server.json"))]
    assert len(own) == 2
    for name in ("VLLM_PORT", "TMPDIR", "VLLM_CACHE_ROOT", "TRITON_CACHE_DIR", "SLURM_JOB_ID"):
        assert own[0][name] != own[1][name]
    assert abs(int(own[0]["VLLM_PORT"]) - int(own[1]["VLLM_PORT"])) >= 100
    assert all(len(one["TMPDIR"]) < 40 for one in own)
    assert {one["SLURMD_NODENAME"] for one in own} == {"n1"}
    done = end(process)
    assert done.status == 0, done.out
    assert not any(Path(one["TMPDIR"]).exists() for one in own)


def _variables(info: Path) -> dict[str, str]:
    text = Path(f"/proc/{json.loads(info.read_text())['pid']}/environ").read_text()
    return dict(line.split("=", 1) for line in text.split("\0") if "=" in line)


def test_submitting_from_inside_a_job(cluster: Cluster, tmp_path: Path) -> None:
    line = " ".join(f"'{one}'" for one in argv(tmp_path, "gamma=4", "dataset.limit=2"))
    script = tmp_path / "outer.sh"
    script.write_text(f"#!/bin/sh\nexport COLUMNS=200\n{line}\n")
    script.chmod(0o755)
    options = ("--cpus-per-task=1", "--mem=100", "--gres=gpu:1", "-t", "5")
    cluster.run("srun", *options, str(script), timeout_s=200)
    assert statuses(folder_of(tmp_path)) == ["completed"] * 2
    nothing_is_left(cluster)


def test_small_arrays_share_one_cap(cluster_folder: Path, tmp_path: Path) -> None:
    """Six groups where an array may have four tasks, without accounting."""
    with Cluster(cluster_folder, accounting=False, max_array_size=4) as small:
        two = "hydra.launcher.backend.parameters.array_parallelism=2"
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


def test_what_slurm_refuses_is_the_users_mistake(cluster: Cluster, tmp_path: Path) -> None:
    done = run(cluster, argv(tmp_path, "hydra.launcher.backend.parameters.partition=nosuch"))
    assert done.status == 2
    assert "Slurm refused the job: " in done.err
    assert "invalid partition specified: nosuch" in done.err
    done = run(cluster, argv(tmp_path, "+hydra.launcher.backend.parameters.partitoin=main"))
    assert done.status == 2
    assert "hydra.launcher.backend.parameters: unknown: partitoin; known: account, " in done.err
