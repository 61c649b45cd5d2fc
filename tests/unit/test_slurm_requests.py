"""What is asked of Slurm, computed without any."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from launchers.devices import asked, login_node, visible
from launchers.requests import Chunk, asks_for_gpus, chunks, limit_minutes, minutes
from launchers.slurm import SlurmLauncher
from sweeper.errors import UserError
from sweeper.jobs.faults import node_fault
from sweeper.jobs.queue import outside
from sweeper.measure.group import GroupRun
from sweeper.plan.parallel import gpus
from sweeper.values import Group, PlannedPoint
from tests.unit.sweeps import point


def group(number: int, *args: str, **changes: object) -> Group:
    made = point("ngram", number, **changes)
    server = replace(made.server, args=args)
    planned = PlannedPoint(number=number, key=f"k{number}", point=made, jobs=(), baseline=None)
    return Group(key=f"g{number}", server=server, points=(planned,))


GROUPS = [group(n) for n in range(1, 7)]


def shape(limit: int, cap: int, *sizes: int) -> list[tuple[int, int, int | None]]:
    alike, rest = [], list(GROUPS)
    for size in sizes:
        alike.append([rest.pop(0) for _ in range(size)])
    return [(len(c.groups), c.parallelism, c.after) for c in chunks(alike, limit, cap)]


@pytest.mark.parametrize(
    ("limit", "cap", "sizes", "expected"),
    [
        (1001, 256, (6,), [(6, 6, None)]),
        (4, 256, (6,), [(4, 4, None), (2, 2, None)]),
        (4, 3, (6,), [(4, 2, None), (2, 1, None)]),
        (2, 2, (6,), [(2, 1, None), (2, 1, None), (2, 1, 0)]),
        (2, 1, (6,), [(2, 1, None), (2, 1, 0), (2, 1, 1)]),
        (1, 256, (3,), [(1, 1, None)] * 3),
        (1001, 1, (2, 4), [(2, 1, None), (4, 1, 0)]),
    ],
)
def test_arrays_stay_below_the_limit_and_share_one_cap(
    limit: int, cap: int, sizes: tuple[int, ...], expected: list[tuple[int, int, int | None]]
) -> None:
    assert shape(limit, cap, *sizes) == expected


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ((), 1),
        (("--tensor-parallel-size", "4"), 4),
        (("--tensor-parallel-size", "4", "--pipeline-parallel-size", "2"), 8),
        (("-tp", "2", "-dp", "3"), 6),
        (("--max-num-seqs", "8"), 1),
    ],
)
def test_gpus_follow_from_the_parallel_sizes(args: tuple[str, ...], expected: int) -> None:
    assert gpus(group(1, *args)) == expected


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, False),
        ({"gpus_per_node": "auto"}, False),
        ({"gpus_per_node": 0}, True),
        ({"gres": "gpu:a100:1"}, True),
        ({"additional_parameters": {"gpus": 2}}, True),
        ({"additional_parameters": {"gpus_per_socket": 2}}, True),
        ({"additional_parameters": {"reservation": "mine"}}, False),
    ],
)
def test_what_the_user_says_of_gpus_holds(parameters: dict[str, object], expected: bool) -> None:
    assert asks_for_gpus(parameters) is expected


@pytest.mark.parametrize(
    ("time", "expected"),
    [(60, 60), ("90", 90), ("01:30:00", 90), ("30:30", 31), ("1-12", 2160), ("1-00:30:00", 1470)],
)
def test_time_limits_as_sbatch_writes_them(time: object, expected: int) -> None:
    assert limit_minutes(time) == expected


def test_a_time_limit_of_something_else() -> None:
    with pytest.raises(UserError) as caught:
        limit_minutes("2h")
    assert str(caught.value) == (
        "parameters.time: '2h': minutes, or as in sbatch: days-hours:min:sec"
    )


def test_time_follows_from_the_estimate() -> None:
    # 600 s start, 30 s stop, and what the plan expects of the points, with a margin
    one = group(1)
    assert minutes(one, {1: 90.0}, 1.0) == 12
    assert minutes(one, {1: 90.0, 2: 1e6}, 2.0) == 14
    quick = replace(one, server=replace(one.server, start_timeout_s=60.0))
    assert minutes(quick, {1: 90.0}, 2.0) == 10


def test_the_users_time_holds_and_is_read_before_anything_is_submitted() -> None:
    assert SlurmLauncher(parameters={"time": "01:30:00"})._given()["time"] == 90
    assert SlurmLauncher(parameters={"timeout_min": 7})._given()["time"] == 7
    with pytest.raises(UserError) as caught:
        SlurmLauncher(parameters={"time": "2h"})._given()
    assert str(caught.value).startswith("parameters.time: '2h': minutes, or as in sbatch")


def test_unknown_parameters_are_refused_with_all_that_are_known() -> None:
    launcher = SlurmLauncher(parameters={"partitoin": "main", "time": 5, "name": "x"})
    with pytest.raises(UserError) as caught:
        launcher._given()
    text = str(caught.value)
    assert text.startswith("hydra.launcher.backend.parameters: unknown: partitoin; known: account,")
    assert text.endswith("any other option of sbatch goes into additional_parameters")
    for name in ("partition", "qos", "gres", "srun_args", "setup", "constraint", "mem_gb"):
        assert f" {name}," in text or f" {name};" in text


def test_the_cpus_of_a_job_are_those_of_its_server() -> None:
    """From Slurm 22.05 on srun has to be told; what the user gives srun comes later and wins."""
    given = {"cpus_per_task": 8, "gpus_per_node": 0, "time": 5, "srun_args": ["--cpu-bind=none"]}
    one = Chunk(groups=(group(1),), parallelism=1)
    run = GroupRun(sweep_dir=Path(), sweep="s", emit=lambda event: None)
    asked = SlurmLauncher(parameters=given)._parameters(group(1), run, one, "")
    assert asked["cpus_per_task"] == 8
    assert asked["srun_args"] == ["--cpus-per-task=8", "--cpu-bind=none"]
    assert asked["time"] == 5 and asked["signal_delay_s"] == 75
    assert "gpus_per_node" not in asked


def test_memory_in_gigabytes_is_not_read_as_megabytes() -> None:
    assert SlurmLauncher(parameters={"mem_gb": 64})._given() == {"mem": "65536M"}
    assert SlurmLauncher(parameters={"mem_gb": 0.5})._given() == {"mem": "512M"}
    assert SlurmLauncher(parameters={"mem": "8G", "mem_gb": None})._given() == {"mem": "8G"}


def test_one_server_is_one_task_on_one_node() -> None:
    with pytest.raises(UserError) as caught:
        SlurmLauncher(parameters={"nodes": 2})._given()
    assert str(caught.value) == (
        "hydra.launcher.backend.parameters.nodes: a group is one server on one node: 1; give it "
        "several GPUs with +server.args.tensor_parallel_size=2"
    )


def test_variables_of_a_job_around_us_do_not_leak() -> None:
    inside = {
        "PATH": "/bin", "SLURM_CONF": "/etc/slurm.conf", "SLURM_JOB_ID": "3", "SBATCH_ACCOUNT": "a",
        "SLURM_CPU_BIND": "x", "PMI_RANK": "0", "CUDA_VISIBLE_DEVICES": "1", "TMPDIR": "/tmp/job3",
        "SUBMITIT_EXECUTOR": "slurm", "HF_HOME": "/models",
    }  # fmt: skip
    assert outside(inside) == {
        "PATH": "/bin", "SLURM_CONF": "/etc/slurm.conf", "SBATCH_ACCOUNT": "a",
        "HF_HOME": "/models",
    }  # fmt: skip
    assert outside({"TMPDIR": "/scratch"}) == {"TMPDIR": "/scratch"}


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        ("OSError: [Errno 28] No space left on device", "its disk is full"),
        (
            "ValueError: Free memory on device cuda:0 (1.2/79.1 GiB) on startup is less than "
            "desired GPU memory utilization (0.9, 71.2 GiB)",
            "GPU memory is held by someone else",
        ),
        ("RuntimeError: No CUDA GPUs are available", "no usable GPU"),
        ("RuntimeError: Failed to infer device type", "no usable GPU"),
    ],
)
def test_faults_of_a_node(line: str, meaning: str) -> None:
    found = node_fault(f"INFO starting\n{line}\nINFO end")
    assert found == f"{meaning} ({line})"


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: No available memory for the cache blocks. Try increasing it",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "ValidationError: 1 validation error for SpeculativeConfig",
    ],
)
def test_faults_of_a_setting_are_not_the_nodes(line: str) -> None:
    assert node_fault(line) == ""


def test_devices(tmp_path: object) -> None:
    assert asked("auto", ("0", "1")) == ("0", "1")
    assert asked([2, "GPU-ab"], ("0",)) == ("2", "GPU-ab")
    assert asked(3, ()) == ("3",)
    with pytest.raises(UserError) as caught:
        asked([0, 0], ())
    assert str(caught.value) == (
        "hydra.launcher.backend.devices: [0, 0]: auto, or a list of different GPUs such as [0,1]"
    )


def test_a_login_node_is_one_with_slurm_outside_of_a_job() -> None:
    def slurm(name: str) -> str | None:
        return f"/usr/bin/{name}"

    assert login_node({}, slurm)
    assert not login_node({"SLURM_JOB_ID": "1"}, slurm)
    assert not login_node({}, lambda name: None)


def test_visible_devices() -> None:
    assert visible({"CUDA_VISIBLE_DEVICES": "GPU-1, 3"}) == ("GPU-1", "3")
    assert visible({"CUDA_VISIBLE_DEVICES": ""}) == ()
