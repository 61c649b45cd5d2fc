"""Sweeps through a real Slurm, and what happens when something happens to their jobs."""

from __future__ import annotations

import json
import shutil
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
    SLOW,
    SLOW_ENGINE,
    argv,
    collect,
    end,
    first_lines,
    folder_of,
    measuring,
    nothing_is_left,
    results,
    resume_completes,
    run,
    shim,
    silent,
    start,
    starts,
    statuses,
    third_of,
)
from tests.e2e.running import ENGINE

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(400)]

SWEEP = ("gamma=2,4", "dataset=code,chat", "dataset.limit=3")


def test_an_array_with_a_gpu_for_each_server(cluster: Cluster, tmp_path: Path) -> None:
    """No server is ready before two are up at once, so these have different GPUs."""
    gpu = "hydra.launcher.backend.parameters.gres=gpu:1"
    together = {"ready_together": {"folder": str(tmp_path / "up"), "engines": 2}}
    done = run(cluster, argv(tmp_path, *SWEEP, gpu), faults=together)
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


@pytest.mark.parametrize("how", ["USR2", "requeue", "node"])
def test_a_job_that_is_put_back_goes_on(cluster: Cluster, tmp_path: Path, how: str) -> None:
    line = argv(tmp_path, *SLOW)
    process = start(cluster, line, faults=silent(4, point=1))
    folder = folder_of(tmp_path)
    beat = measuring(folder, 4, point=1)
    if how == "USR2":
        cluster.run("scancel", "--signal=USR2", beat.job)
    elif how == "requeue":
        cluster.run("scontrol", "requeue", beat.job)
    else:
        cluster.set_node(beat.node, "DOWN")
    first = results(folder)[2]
    wait_until(lambda: f"{beat.job} PENDING" in cluster.jobs(), "the job in the queue")
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


def test_ctrl_c_cancels_what_runs_and_what_waits(cluster: Cluster, tmp_path: Path) -> None:
    one = "hydra.launcher.backend.parameters.array_parallelism=1"
    line = argv(tmp_path, *SLOW, one)
    process = start(cluster, line, faults=silent(0, point=1))
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


def test_a_second_ctrl_c_leaves_at_once(cluster: Cluster, tmp_path: Path) -> None:
    """The servers do not stop when they are told to; what they wrote is collected later."""
    stubborn = {"ignore_sigterm": True, "hang_after_requests": third_of(0)}
    line = argv(tmp_path, *SLOW, "server.stop_timeout_s=25")
    process = start(cluster, line, faults=stubborn)
    folder = folder_of(tmp_path)
    measuring(folder, 4)
    process.send_signal(signal.SIGINT)
    said = first_lines(process, "Ctrl-C again to leave now")
    process.send_signal(signal.SIGINT)
    done = end(process)
    assert done.status == 130
    assert f"left; what the jobs still write: python -m sweeper.collect {folder.path}" in done.out
    assert "Traceback" not in said + done.out and "baseline" not in done.out  # and no report
    collected = collect(cluster, folder)
    assert collected.status == 1, collected.out
    assert set(statuses(folder)) <= {"completed", "preempted"} and "preempted" in statuses(folder)
    nothing_is_left(cluster)


def test_ctrl_c_while_slurm_takes_a_job_cancels_it_too(cluster: Cluster, tmp_path: Path) -> None:
    """sbatch has put the job into the queue and has not come back to say its id."""
    shims = tmp_path / "bin"
    shim(shims, "sbatch", f'{shutil.which("sbatch")} "$@" >/dev/null; sleep 60')
    process = start(cluster, argv(tmp_path, "gamma=4", SLOW_ENGINE, "dataset.limit=8"), shims)
    wait_until(lambda: cluster.jobs() != "", "a job in the queue")
    process.send_signal(signal.SIGINT)
    done = end(process)
    assert done.status == 130, done.out
    assert "cancelled jobs " in done.out and "Traceback" not in done.out
    nothing_is_left(cluster)


def test_a_container_gets_the_gpus_its_server_needs(cluster: Cluster, tmp_path: Path) -> None:
    """The command is a list of words, and nothing here knows what is installed in the image."""
    shims, seen = tmp_path / "bin", tmp_path / "seen"
    engine = f'exec {sys.executable} {ENGINE} "$@"'
    shim(shims, "apptainer", f'echo "$@" >> {seen}; shift 6; {engine}')
    module = "python3,-m,vllm.entrypoints.openai.api_server"
    box = f"server.command=[apptainer,exec,--nv,/images/vllm.sif,{module}]"
    two = "+server.args.tensor_parallel_size=2"
    memory = "hydra.launcher.backend.parameters.mem_gb=1"
    line = argv(tmp_path, "gamma=4", "dataset.limit=2", box, two, memory)
    done = run(cluster, line, shims=shims)
    assert done.status == 0, done.out + done.err
    (script,) = folder_of(tmp_path).submitit.glob("*_submission.sh")
    assert "#SBATCH --mem=1024M\n" in script.read_text()
    found = results(folder_of(tmp_path))
    assert [r.provenance["job"]["visible_devices"] for r in found.values()] == ["0,1"] * 2
    for given in seen.read_text().splitlines():
        head = f"exec --nv /images/vllm.sif {module.replace(',', ' ')} --model "
        assert given.startswith(head) and " --tensor-parallel-size 2 " in given
    assert len(seen.read_text().splitlines()) == 2
    nothing_is_left(cluster)


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


def test_what_slurm_refuses_is_the_users_mistake(cluster: Cluster, tmp_path: Path) -> None:
    done = run(cluster, argv(tmp_path, "hydra.launcher.backend.parameters.partition=nosuch"))
    assert done.status == 2
    assert "Slurm refused the job: " in done.err
    assert "invalid partition specified: nosuch" in done.err
    done = run(cluster, argv(tmp_path, "+hydra.launcher.backend.parameters.partitoin=main"))
    assert done.status == 2
    assert "hydra.launcher.backend.parameters: unknown: partitoin; known: account, " in done.err
