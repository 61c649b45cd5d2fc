"""Groups side by side on this machine, each with GPUs of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sweeper import store
from tests.e2e.running import (
    BEFORE_A_POINT,
    ENGINE,
    ROOT,
    command,
    engines,
    environment,
    interrupted,
    only_sweep,
    read,
    run,
)

pytestmark = pytest.mark.timeout(300)

TWO = "hydra.launcher.backend.devices=[4,GPU-7]"
ALLOWED = "hydra.launcher.backend.allow_login_node=true"  # this machine may be one of Slurm


def test_each_server_has_its_own_devices(tmp_path: Path) -> None:
    """And they run side by side: no server is ready before two of them are up at once."""
    line = command("method=ngram", "gamma=2,4", "dataset.limit=2", TWO, ALLOWED, outputs=tmp_path)
    together = {"folder": str(tmp_path / "up"), "engines": 2}
    done = run(line, faults={"ready_together": together}, timeout=240)
    assert done.status == 0, done.out + done.err
    assert "GPUs 4,GPU-7" in done.out
    folder = only_sweep(tmp_path)
    _, results = read(folder)
    devices = [r.provenance["job"]["visible_devices"] for r in results.values()]
    assert set(devices) == {"4", "GPU-7"}
    assert len(list(folder.path.glob("servers/*/server.json"))) == 3
    assert engines(tmp_path) == []


def test_a_login_node_starts_no_gpu_server(tmp_path: Path) -> None:
    slurm = tmp_path / "bin"
    slurm.mkdir()
    (slurm / "sbatch").write_text("#!/bin/sh\n")
    (slurm / "sbatch").chmod(0o755)
    env = environment() | {"PATH": f"{slurm}:{os.environ['PATH']}"}
    env.pop("SLURM_JOB_ID", None)
    line = command("method=none", TWO, outputs=tmp_path)
    done = subprocess.run(
        line, env=env, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2
    assert done.stderr.strip() == (
        f"sweeper: {socket.gethostname()} has a GPU and belongs to Slurm, but this is not inside a "
        "job: submit with hydra/launcher=slurm, start sweeper inside an allocation, or permit it "
        "with hydra.launcher.backend.allow_login_node=true"
    )


def test_a_login_node_without_a_gpu_starts_no_vllm_built_for_them(tmp_path: Path) -> None:
    found = {"vllm": "0.32.0", "importable": True, "triton_cpu": False, "marks": {}}
    for name, text in (("sbatch", ""), ("python3", f"cat > /dev/null; echo '{json.dumps(found)}'")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    env = environment() | {"PATH": path, "CUDA_VISIBLE_DEVICES": ""}
    env.pop("SLURM_JOB_ID", None)
    own = f"server.command=[{tmp_path}/python3,{ENGINE}]"
    done = subprocess.run(
        command("method=none", own, outputs=tmp_path),
        env=env, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stdout
    assert done.stderr.strip() == (
        f"sweeper: {socket.gethostname()} belongs to Slurm, and vLLM here is built for GPUs, but "
        "this is not a job: submit with hydra/launcher=slurm, start sweeper inside an allocation, "
        "or permit it with hydra.launcher.backend.allow_login_node=true"
    )


def test_a_server_that_needs_more_than_there_are(tmp_path: Path) -> None:
    size = "+server.args.tensor_parallel_size=4"
    line = command("method=none", TWO, ALLOWED, size, outputs=tmp_path)
    done = run(line)
    assert done.status == 2
    assert "none: needs 4 GPUs, here are 2: 4,GPU-7" in done.err


def test_ctrl_c_ends_the_workers_and_resume_goes_on(tmp_path: Path) -> None:
    """Both are in the middle of a point: their servers fall silent after three of its requests."""
    line = command("method=ngram", "gamma=4", "dataset.limit=5",
                   "hydra.launcher.backend.workers=2", outputs=tmp_path)  # fmt: skip
    silent = {"hang_after_requests": BEFORE_A_POINT + 3}
    stopped = interrupted(line, lambda: sorted(requests(tmp_path)) == [3, 3], silent)
    assert stopped.status == 130, stopped.out
    folder = only_sweep(tmp_path)
    _, results = read(folder)
    assert {r.status for r in results.values()} == {"preempted"}, stopped.out
    assert engines(tmp_path) == []
    done = run([*line, f"resume={folder.path}"], timeout=240)
    assert done.status == 0, done.out + done.err
    assert "resume: 0 of 2 points are kept" in done.out


def test_resume_keeps_completed_points_and_refuses_another_setting(tmp_path: Path) -> None:
    line = command("method=ngram", "gamma=2,4", "dataset.limit=2", outputs=tmp_path)
    faults = {"when_gamma": 4, "exit_at_start": {"code": 1, "message": "no"}}
    assert run(line, faults=faults).status == 1
    folder = only_sweep(tmp_path)
    _, before = read(folder)
    assert [before[n].status for n in range(3)] == ["completed", "completed", "failed"]

    more = [*line, f"resume={folder.path}"]
    other = run([*more, "sampling.max_tokens=8"])
    assert other.status == 2
    assert f"resume: this is not the sweep in {folder.path}:" in other.err
    assert "point 0 (none).sampling.max_tokens: was 96, is 8" in other.err

    # torn by a kill: neither the line nor the file counts
    torn = folder.point(store.read_sweep(folder).plan.points[1])
    torn.result.write_text(torn.result.read_text()[:40])
    with torn.requests.open("a") as file:
        file.write('{"prompt_id": "x", ')
    done = run(more)
    assert done.status == 0, done.out + done.err
    assert "resume: 1 of 3 points are kept" in done.out
    _, after = read(folder)
    assert after[0] == before[0]
    assert [after[n].status for n in range(3)] == ["completed"] * 3
    assert len(torn.records()) == 2

    rerun = run([*more, "sampling.max_tokens=8", "resume_changed=rerun"])
    assert rerun.status == 0, rerun.out + rerun.err
    assert "resume: 0 of 3 points are kept" in rerun.out


def test_resume_of_nothing_is_a_mistake(tmp_path: Path) -> None:
    done = run([*command("method=none", outputs=tmp_path), f"resume={tmp_path}/nothing"])
    assert done.status == 2
    assert f"resume: {tmp_path}/nothing: no sweep.json there; give a sweep's folder" in done.err
    assert not (tmp_path / "nothing").exists()


def test_detach_is_for_jobs(tmp_path: Path) -> None:
    done = run(command("method=none", "detach=true", outputs=tmp_path))
    assert done.status == 2
    assert "detach=true: only jobs go on by themselves; use hydra/launcher=slurm" in done.err


def requests(outputs: Path) -> list[int]:
    """So many are recorded of each point that was begun."""
    found = outputs.glob("out/*/*/points/*/requests.jsonl")
    return [len(path.read_text().splitlines()) for path in found]


def test_a_job_imports_nothing_of_the_submitting_side(tmp_path: Path) -> None:
    """A node needs no tracker, no plots and no Hydra; starting is quicker without, too."""
    names = ("mlflow", "hydra", "omegaconf", "pandas", "matplotlib", "pydantic", "vllm")
    code = f"import sys, sweeper.jobs.task; print([n for n in {names} if n in sys.modules])"
    done = run([sys.executable, "-c", code], cwd=tmp_path)
    assert done.out == "[]\n"
