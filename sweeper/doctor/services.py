"""What a sweep talks to: Slurm and MLflow."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib.metadata import version

from sweeper.doctor.check import Check, State
from sweeper.errors import PublishError, ServerError
from sweeper.jobs.cluster import accounting, partitions
from sweeper.jobs.queue import max_array_size
from sweeper.report.mlflow import reach


def slurm_checks() -> Iterator[Check]:
    missing = [name for name in ("sbatch", "srun", "squeue", "sinfo") if not shutil.which(name)]
    if missing:
        found = f"not here ({', '.join(missing)} not found): hydra/launcher=slurm cannot be used"
        yield Check(name="Slurm", state="note", found=found)
        return
    try:
        listed = partitions()
    except ServerError as problem:
        yield Check(
            name="Slurm",
            state="warning",
            found=f"does not answer: {problem}",
            fix="sweeps on this machine run all the same; for jobs, look at what sinfo says",
        )
        return
    for one in listed:
        found = f"{one.nodes} nodes, jobs up to {one.limit}, gres {one.gres or 'none'}"
        state: State = "ok" if one.up else "warning"
        fix = "" if one.up else "choose another: hydra.launcher.backend.parameters.partition=…"
        yield Check(
            name=f"partition {one.name}",
            state=state,
            found=found if one.up else f"down; {found}",
            fix=fix,
        )
    yield Check(name="Slurm arrays", state="ok", found=f"up to {max_array_size()} tasks")
    yield _accounting()


def _accounting() -> Check:
    try:
        accounting()
    except ServerError as problem:
        return Check(
            name="Slurm accounts",
            state="note",
            found=f"none ({problem}): why a job ended is known only while Slurm remembers it",
        )
    return Check(name="Slurm accounts", state="ok", found="sacct answers")


def mlflow_checks(tracking_uri: str) -> Iterator[Check]:
    here = f"client {version('mlflow')}"
    try:
        found = reach(tracking_uri)
    except PublishError as problem:
        yield Check(
            name="MLflow",
            state="failure",
            found=f"{here}; {problem}",
            fix="start it, or tracker.tracking_uri=… of another, or tracker=none; results are "
            "kept as files and python -m sweeper.publish DIR sends them later",
        )
        return
    yield Check(name="MLflow", state="ok", found=f"{here}; {found}")
