"""A sweep on the test cluster as a user starts it, against the stand-in engine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from sweeper import store
from sweeper.jobs.heartbeat import Beat, read_beat
from sweeper.store import SweepFolder
from sweeper.values import Group, PointResult
from tests.cluster.cluster import Cluster, wait_until
from tests.e2e.running import BEFORE_A_POINT, ENGINE, ROOT, Done, command, environment

FAST = ("queue_s=1.0", "poll_s=0.2", "grace_s=5.0")
SLOW_ENGINE = f"server.command=[{sys.executable},{ENGINE},--fake-step-ms,'10']"
SLOW = ("gamma=4", "dataset=code,chat", "dataset.limit=8", SLOW_ENGINE)
"""Two points of eight requests on each server; see :func:`silent`."""


def silent(gamma: int, point: int = 0) -> dict[str, object]:
    """Faults with which something happens in the middle of a point, however late it comes: the
    server with this γ answers no more after three of the requests of its ``point``-th point.
    Started anew for the second alone, it answers them all."""
    return {"when_gamma": gamma, "hang_after_requests": third_of(point)}


def third_of(point: int) -> int:
    """All that a server was asked up to the third request of its ``point``-th point: every point
    after the first has no proof of the start before it."""
    return BEFORE_A_POINT + point * (8 + BEFORE_A_POINT - 1) + 3


def argv(outputs: Path, *overrides: str) -> list[str]:
    fast = [f"hydra.launcher.backend.{one}" for one in FAST]
    options = ("hydra/launcher=slurm", "server.start_timeout_s=60.0", "method=ngram")
    return command(*options, *fast, *overrides, outputs=outputs)


def variables(
    cluster: Cluster, faults: Mapping[str, object] | None = None, shims: Path | None = None
) -> dict[str, str]:
    """What sweeper is started with; programs in ``shims`` come before Slurm's own."""
    path = f"{shims}:{os.environ['PATH']}" if shims else os.environ["PATH"]
    return environment(faults) | cluster.env | {"PATH": path, "COLUMNS": "200"}


def run(
    cluster: Cluster,
    line: Sequence[str],
    faults: Mapping[str, object] | None = None,
    shims: Path | None = None,
    timeout_s: float = 300.0,
) -> Done:
    done = subprocess.run(
        line, capture_output=True, text=True, timeout=timeout_s, cwd=ROOT, check=False,
        env=variables(cluster, faults, shims),
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


def start(
    cluster: Cluster,
    line: Sequence[str],
    shims: Path | None = None,
    faults: Mapping[str, object] | None = None,
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT,
        env=variables(cluster, faults, shims), start_new_session=True,
    )  # fmt: skip


def first_lines(process: subprocess.Popen[str], until: str) -> str:
    """What it prints up to the line that has ``until`` in it, or to its end."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if until in line:
            break
    return "".join(lines)


def end(process: subprocess.Popen[str]) -> Done:
    """Wait for its end, kill it when that does not come."""
    try:
        out, _ = process.communicate(timeout=240)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return Done(process.returncode, out, "")


def collect(cluster: Cluster, folder: SweepFolder) -> Done:
    fast = [f"--{one.replace('_', '-')}" for one in FAST]
    return run(cluster, [sys.executable, "-m", "sweeper.collect", str(folder.path), *fast])


def folder_of(outputs: Path) -> SweepFolder:
    """The one sweep of a test, as soon as it is there."""
    wait_until(lambda: bool(list(outputs.glob("out/*/*/sweep.json"))), "sweep.json")
    (found,) = outputs.glob("out/*/*/sweep.json")
    return SweepFolder(found.parent)


def results(folder: SweepFolder) -> dict[int, PointResult]:
    sweep = store.read_sweep(folder)
    return store.read_results(folder, sweep.plan, sweep.id)


def statuses(folder: SweepFolder) -> list[str]:
    return [result.status for _, result in sorted(results(folder).items())]


def measuring(folder: SweepFolder, gamma: int, requests: int = 2, point: int = 0) -> Beat:
    """Wait until the server with this γ measures its ``point``-th point; what it says then."""
    (group,) = [g for g in store.read_sweep(folder).plan.groups if g.points[0].point.gamma == gamma]
    number = group.points[point].number
    seen: list[Beat] = []

    def there() -> bool:
        beat = read_beat(folder.group(group.key))
        if beat and beat.point == number and _lines(folder, group, point) >= requests:
            seen.append(beat)
        return bool(seen)

    wait_until(there, f"requests of γ={gamma}")
    return seen[0]


def _lines(folder: SweepFolder, group: Group, point: int) -> int:
    return folder.point(group.points[point]).count()[0]


def starts(folder: SweepFolder) -> int:
    """Server starts, counted where they happened."""
    logs = folder.path.glob("servers/*/server.log")
    return sum(log.read_text().count("non-default args") for log in logs)


def nothing_is_left(cluster: Cluster) -> None:
    wait_until(lambda: cluster.jobs() == "", "an empty queue")
    wait_until(lambda: cluster.processes() == {}, "the end of all processes")


def started_at(outputs: Path) -> dict[int, str]:
    """When each completed point was measured: equal before and after means kept."""
    return {
        number: f"{r.started_at} {r.wall_s}"
        for number, r in results(folder_of(outputs)).items()
        if r.status == "completed"
    }


def resume_completes(cluster: Cluster, outputs: Path, line: Sequence[str], points: int = 4) -> None:
    """The same command with ``resume=`` keeps what is completed and measures the rest."""
    before = started_at(outputs)
    done = run(cluster, [*line, f"resume={folder_of(outputs).path}"])
    assert done.status == 0, done.out + done.err
    after = started_at(outputs)
    assert len(after) == points
    assert before.items() <= after.items()
    assert f"resume: {len(before)} of {points} points are kept" in done.out
    nothing_is_left(cluster)


def shim(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)
