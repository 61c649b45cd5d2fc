"""One group in a process of its own: what a Slurm job or a worker of this machine runs.

``python -m sweeper.jobs.task FILE`` runs the task that a JSON file describes.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from sweeper import store
from sweeper.errors import ServerError, StoreError
from sweeper.jobs import queue
from sweeper.jobs.attempt import Attempt, add_attempt, attempts
from sweeper.jobs.faults import node_fault
from sweeper.jobs.heartbeat import Heartbeat
from sweeper.jobs.place import own_place
from sweeper.jobs.snapshot import check_code
from sweeper.jobs.warned import Warned
from sweeper.measure.group import again, run_group, unfinished
from sweeper.measure.measurement import unmeasured
from sweeper.store import GroupFolder, SweepFolder
from sweeper.values import Group, PlannedPoint, PointResult, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A group as it was submitted; ``code`` is the digest of the program then.

    ``limit_s`` is the time limit of one run of the job and ``warning_s`` how long before it Slurm
    warns. ``exclude`` are nodes the user excluded. ``temporary`` is a short folder of the node.
    """

    sweep_dir: str
    sweep: str
    group: Group
    code: str
    limit_s: float | None = None
    warning_s: float = 0.0
    max_requeues: int = 0
    exclude: str = ""
    temporary: str = "/tmp"

    @property
    def folder(self) -> SweepFolder:
        return SweepFolder(Path(self.sweep_dir))

    @property
    def home(self) -> GroupFolder:
        return self.folder.group(self.group.key)


def run_task(task: Task) -> None:
    """Measure what is left of the group; exits with 1 when a point is not completed.

    Nothing is returned: results are files, and the process that submitted us may be gone.
    """
    if os.environ.get("SLURM_PROCID", "0") != "0" and "SWEEPER_JOB" not in os.environ:
        return  # a second task of the same job would start a second server
    job = job_id()
    if job not in [one.job for one in attempts(task.home)]:
        add_attempt(task.home, Attempt(job=job, submitted_at=time.time(), limit_s=task.limit_s))
    began = time.monotonic()
    left = again(task.group, task.folder, task.sweep)
    overlapping = {p.number for p in left.points if p.point.load.overlapping}
    with Warned() as warned, Heartbeat(task.home, job, overlapping) as emit:
        try:
            _measure(task, left, emit)
        except KeyboardInterrupt:
            if not warned.by:
                raise
        if warned.by and unfinished(left, task.folder, task.sweep).points:
            _after_warning(task, left, warned, began)
    if unfinished(task.group, task.folder, task.sweep).points or not _all_completed(task):
        sys.exit(1)


def _measure(task: Task, left: Group, emit: Heartbeat) -> None:
    try:
        check_code(task.code)
        with own_place(task.temporary):
            run_group(left, Path(task.sweep_dir), task.sweep, emit)
    except StoreError as problem:
        _end_points(task, left, "failed", str(problem))
        return
    except OSError as problem:
        _end_points(task, left, "failed", f"this node cannot be used: {problem}")
    _elsewhere(task, _results(task, left))


def job_id() -> str:
    """Ours: what a launcher of this machine calls us, Slurm's id as submitit writes it, else the
    process."""
    if name := os.environ.get("SWEEPER_JOB"):
        return name
    array, index = (os.environ.get(f"SLURM_ARRAY_{part}_ID") for part in ("JOB", "TASK"))
    if array and index:
        return f"{array}_{index}"
    return os.environ.get("SLURM_JOB_ID") or f"pid {os.getpid()}"


def _all_completed(task: Task) -> bool:
    return all(r.status == "completed" for r in _results(task, task.group))


def _results(task: Task, group: Group) -> list[PointResult]:
    found = (task.folder.point(p).read_result() for p in group.points)
    return [result for result in found if result is not None]


def _after_warning(task: Task, left: Group, warned: Warned, began: float) -> None:
    """Everything the warning cut short becomes ``preempted``; then back into the queue."""
    elapsed = time.monotonic() - began
    late = task.limit_s is not None and elapsed > task.limit_s - task.warning_s - 90
    cause = "the time limit is near, or the job is being preempted" if late else "preemption"
    why = f"{warned.by}: {cause if warned.by == 'SIGUSR2' else 'cancelled, preempted or timed out'}"
    progress = sum(r.status == "completed" for r in _results(task, left))
    if warned.by != "SIGUSR2":
        then = ""
    elif int(os.environ.get("SLURM_RESTART_COUNT", "0")) >= task.max_requeues:
        then = f"; not put back into the queue after {task.max_requeues} times"
    elif late and not progress:
        then = "; not put back into the queue: within this time limit no point was completed"
    else:
        then = "; put back into the queue"
    _end_points(task, left, "preempted", why + then, after=warned.at)
    if then == "; put back into the queue":
        try:
            queue.requeue(job_id())
            warned.wait(60)  # Slurm ends us; our own exit must not be what it sees first
        except ServerError as problem:
            _end_points(task, left, "preempted", f"{why}; cannot be put back: {problem}")


def _end_points(
    task: Task, group: Group, status: Status, reason: str, after: float | None = None
) -> None:
    """Give every point of ``group`` that is not done this end.

    ``after``: also those that failed later than that time, seconds since the epoch; what fails
    after the warning fails because of it.
    """
    undone = {p.number for p in unfinished(group, task.folder, task.sweep).points}
    for planned in group.points:
        home = task.folder.point(planned)
        result = home.read_result()
        spoilt = (
            after is not None
            and result is not None
            and result.status in ("failed", "invalid")
            and home.result.stat().st_mtime >= after
        )
        if planned.number in undone or spoilt:
            _write(task, planned, result, status, reason)


def _write(
    task: Task, planned: PlannedPoint, there: PointResult | None, status: Status, reason: str
) -> None:
    ours = there if there is not None and there.sweep == task.sweep else None
    made = ours or unmeasured(planned, task.sweep, reason, "")
    records = made.requests or task.folder.point(planned).count()[0]
    made = replace(made, status=status, reason=reason, requests=records)
    store.write_json(task.folder.point(planned).result, store.to_json(made))


def _elsewhere(task: Task, results: list[PointResult]) -> None:
    """A server that did not start because of this node: once more, on another one.

    The job submits itself again without this node. Its points have no result until then.
    """
    failed = [r for r in results if r.status == "failed" and not r.requests]
    fault = _fault(task, failed)
    node = os.environ.get("SLURMD_NODENAME", "")
    if not fault or not node or len(failed) < len(results):
        return
    tried = attempts(task.home)
    if tried and tried[-1].excluded:
        _reword(task, failed, f"a second node, {node}, has a fault too: {fault}")
        return
    try:
        job = _submit_again(task, node)
    except (ServerError, OSError) as problem:
        _reword(task, failed, f"node {node}: {fault}; no other could be asked for: {problem}")
        return
    limit = task.limit_s
    add_attempt(
        task.home,
        Attempt(job=job, submitted_at=time.time(), limit_s=limit, excluded=node, why=fault),
    )
    for result in failed:
        planned = next(p for p in task.group.points if p.number == result.number)
        task.folder.set_aside(task.folder.point(planned))


def _fault(task: Task, failed: list[PointResult]) -> str:
    texts = [result.reason for result in failed]
    for result in failed[:1]:
        log = task.folder.path / "servers" / result.server_folder / "server.log"
        if result.server_folder and log.is_file():
            texts.append(log.read_bytes()[-65536:].decode("utf-8", "replace"))
    return node_fault("\n".join(texts))


def _reword(task: Task, failed: list[PointResult], reason: str) -> None:
    for result in failed:
        planned = next(p for p in task.group.points if p.number == result.number)
        _write(task, planned, result, "failed", f"{reason}\n{result.reason}")


def _submit_again(task: Task, node: str) -> str:
    """The same script and pickle as a new job; an array of one when we are a task of an array."""
    job = job_id()
    array, _, index = job.partition("_")
    scripts = task.folder.submitit
    options = [f"--exclude={','.join(filter(None, (task.exclude, node)))}", "--dependency="]
    if index:
        options.append(f"--array={index}")
    new = queue.submit_script(str(scripts / f"{array}_submission.sh"), *options)
    name = f"{new}_{index}" if index else new
    pickled = (scripts / f"{job}_submitted.pkl").read_bytes()
    (scripts / f".{name}.tmp").write_bytes(pickled)
    (scripts / f".{name}.tmp").replace(scripts / f"{name}_submitted.pkl")
    with contextlib.suppress(OSError):  # so that it could be done once more by hand
        (scripts / f"{new}_submission.sh").symlink_to(f"{array}_submission.sh")
    return name


def main() -> None:
    run_task(store.from_json(Task, store.read_json(Path(sys.argv[1]))))


if __name__ == "__main__":
    main()
