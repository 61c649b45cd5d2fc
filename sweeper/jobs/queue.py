"""Slurm's commands, none of them trusted or waited for longer than some seconds."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sweeper.errors import ServerError
from sweeper.serve.process import ask

PATIENCE_S = 15.0
KEPT = frozenset({"SLURM_CONF", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT"})
"""Variables of Slurm that say where it is; all others belong to a job we may be in."""
_OF_A_JOB = re.compile(r"^(SLURM_|SLURMD_|SRUN_|SUBMITIT_|PMI|PMIX_|OMPI_|GPU_DEVICE_ORDINAL$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """One line of the queue; ``state`` such as PENDING, RUNNING or COMPLETING."""

    state: str
    node: str = ""
    reason: str = ""


def outside(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables to call Slurm with, and to submit with: without those of a job around us."""
    kept = {k: v for k, v in environ.items() if k in KEPT or not _OF_A_JOB.match(k)}
    if "SLURM_JOB_ID" in environ:  # these hold for that job alone
        for name in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "TMPDIR"):
            kept.pop(name, None)
    return kept


@contextlib.contextmanager
def outside_of_jobs() -> Iterator[None]:
    """For submitit, which calls sbatch with our variables: those of a job around us mislead it."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(outside(before))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def queue() -> dict[str, Queued]:
    """Every job of ours that is not over, by id; array tasks as ``12_3``.

    :raises ServerError: when Slurm does not answer.
    """
    text = _slurm("squeue", "-h", "-r", "-u", getpass.getuser(), "-o", "%i|%T|%N|%r")
    found = {}
    for line in text.splitlines():
        job, _, rest = line.partition("|")
        state, node, reason = (*rest.split("|", 2), "", "")[:3]
        found[job.strip()] = Queued(state=state, node=node, reason=reason)
    return found


def named(name: str) -> set[str]:
    """Ids of our jobs of that name that are not over; of an array, that of all of it.

    :raises ServerError: when Slurm does not answer.
    """
    text = _slurm("squeue", "-h", "-u", getpass.getuser(), f"--name={name}", "-o", "%F")
    return set(text.split())


def ending(job: str) -> str:
    """How a job ended, as far as Slurm still knows: ``TIMEOUT``, ``FAILED, exit 9:0`` or empty."""
    for look in (_of_scontrol, _of_sacct):
        try:
            if found := look(job):
                return found
        except ServerError:
            continue
    return ""


def cancel(jobs: Iterable[str]) -> None:
    """Cancel by id, pending and running.

    :raises ServerError: when Slurm does not take it.
    """
    ids = sorted(set(jobs))
    if ids:
        _slurm("scancel", *ids)


def requeue(job: str) -> None:
    """Put a job back into the queue; it is ended for it.

    ``job`` must be ``12_3`` for a task of an array: the id that Slurm gives the last of them is
    that of the array, and by it all tasks would be put back.

    :raises ServerError: when Slurm does not take it.
    """
    _slurm("scontrol", "requeue", job)


def submit_script(script: str, *options: str) -> str:
    """``sbatch`` a script that is there; the id of the new job.

    :raises ServerError: when Slurm does not take it.
    """
    return _slurm("sbatch", "--parsable", *options, script).strip().partition(";")[0]


def max_array_size(default: int = 1001) -> int:
    """``MaxArraySize``: the number of tasks an array with indices from 0 may have."""
    try:
        found = re.search(r"^MaxArraySize\s*=\s*(\d+)", _slurm("scontrol", "show", "config"), re.M)
    except ServerError:
        found = None
    return max(1, int(found[1])) if found else default


class SlurmQueue:
    """Slurm as :mod:`sweeper.jobs.watch` asks it."""

    def states(self) -> Mapping[str, Queued] | None:
        """The queue, ``None`` while Slurm does not answer."""
        try:
            return queue()
        except ServerError:
            return None

    def ending(self, job: str) -> str:
        """:func:`ending`."""
        return ending(job)


def _of_scontrol(job: str) -> str:
    text = _slurm("scontrol", "-o", "show", "job", job)
    facts = dict(re.findall(r"\b(JobState|ExitCode|Reason)=(\S+)", text))
    return _ended(facts.get("JobState", ""), facts.get("ExitCode", ""))


def _of_sacct(job: str) -> str:
    text = _slurm("sacct", "-nXP", "-j", job, "-o", "State,ExitCode")
    state, _, code = (text.splitlines() or [""])[-1].partition("|")
    return _ended(state, code)


def _ended(state: str, code: str) -> str:
    """Empty for a state that is none of an end: accounting keeps RUNNING of a lost job for ever."""
    if state in ("", "PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "REQUEUED", "SUSPENDED"):
        return ""
    return state if code in ("", "0:0") else f"{state}, exit {code}"


def _slurm(*argv: str) -> str:
    return ask(argv, PATIENCE_S, outside(os.environ))
