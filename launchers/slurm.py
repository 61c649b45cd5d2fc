"""Groups run as Slurm jobs through submitit: an array task a group."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from launchers.requests import Chunk, asks_for_gpus, chunks, given, minutes
from sweeper import store
from sweeper.errors import ServerError, UserError
from sweeper.jobs import queue
from sweeper.jobs.attempt import Attempt, add_attempt, attempts
from sweeper.jobs.snapshot import copy_code
from sweeper.jobs.task import Task, run_task
from sweeper.jobs.watch import Patience, watch
from sweeper.measure.group import GroupRun
from sweeper.measure.measurement import unmeasured
from sweeper.plan.parallel import gpus
from sweeper.program import INTERRUPTED
from sweeper.serve.installed import installed
from sweeper.store import SweepFolder
from sweeper.values import Event, Group


@dataclass(slots=True, kw_only=True)
class SlurmLauncher:
    """``conf/hydra/launcher/slurm.yaml`` says what each field is for."""

    parameters: dict[str, Any] = field(default_factory=dict)
    python: str | None = None
    detach: bool = False
    max_requeues: int = 3
    warning_s: float = 120.0
    margin: float = 2.0
    temporary: str = "/tmp"
    poll_s: float = 2.0
    queue_s: float = 10.0
    grace_s: float = 60.0

    @property
    def where(self) -> str:
        """For people."""
        partition = self.parameters.get("partition")
        return "as Slurm jobs" + (f" in partition {partition}" if partition else "")

    def check(self, groups: Sequence[Group]) -> None:
        """Before anything is created.

        :raises UserError: what cannot be submitted, and why.
        """
        missing = [name for name in ("sbatch", "srun", "squeue") if not shutil.which(name)]
        if missing:
            raise UserError(
                f"hydra/launcher=slurm: {', '.join(missing)} not found; run on a machine that "
                "submits to Slurm, or with hydra/launcher=local"
            )
        self._given()
        for group in groups:
            if group.server.kind == "external":
                raise UserError(
                    "server=external: a running server is measured from here, not from a job; "
                    "use hydra/launcher=local"
                )

    def map(self, run: GroupRun, groups: Sequence[Group]) -> bool:
        """Submit every group and watch; ``False`` when they go on without us.

        Ctrl-C cancels what was submitted, by id, and waits for its end; a second one leaves at
        once, with exit status 130 and without a report.

        :raises UserError: when Slurm takes none of them.
        """
        folder = SweepFolder(run.sweep_dir)
        submitted: list[Group] = []
        try:
            self._submit(run, folder, groups, submitted)
            if self.detach:
                return False
            self._watch(run, folder, submitted)
        except KeyboardInterrupt:
            try:
                _cancel(folder, submitted, run)
                self._watch(run, folder, submitted)
            except KeyboardInterrupt:
                text = f"left; what the jobs still write: python -m sweeper.collect {folder.path}"
                run.emit(Event(kind="warning", text=text))
                raise SystemExit(INTERRUPTED) from None
            raise
        return True

    def _watch(self, run: GroupRun, folder: SweepFolder, groups: Sequence[Group]) -> None:
        patience = Patience(poll_s=self.poll_s, queue_s=self.queue_s, grace_s=self.grace_s)
        watch(folder, run.sweep, groups, queue.SlurmQueue(), run.emit, patience)

    def _submit(
        self, run: GroupRun, folder: SweepFolder, groups: Sequence[Group], taken: list[Group]
    ) -> None:
        """Adds to ``taken`` the groups that Slurm took; points of others get their end here."""
        code = copy_code(folder.code)
        cap = int(self._given().get("array_parallelism", 256))
        planned = chunks(self._alike(groups), queue.max_array_size(), cap)
        ids: list[str] = []
        refused = ""
        for chunk in planned:
            after = ids[chunk.after] if chunk.after is not None else ""
            if not refused:
                try:
                    ids.append(self._submit_chunk(run, folder, chunk, code, after))
                    taken += chunk.groups
                    continue
                except _refusals() as problem:
                    refused = " ".join(str(problem).split())[-400:]
            if not taken:
                raise UserError(f"Slurm refused the job: {refused}")
            _not_submitted(run, folder, chunk, refused)

    def _submit_chunk(
        self, run: GroupRun, folder: SweepFolder, chunk: Chunk, code: str, after: str
    ) -> str:
        import submitit  # the launcher's yaml must load where submitit is not installed

        first = chunk.groups[0]
        parameters = self._parameters(first, run, chunk, after)
        tasks = [self._task(run, group, code, parameters) for group in chunk.groups]
        with queue.outside_of_jobs():
            executor = submitit.SlurmExecutor(folder.submitit, python=self._python(folder))
            executor.update_parameters(**parameters)
            jobs = executor.map_array(run_task, tasks)
        limit_s = parameters["time"] * 60.0
        for group, job in zip(chunk.groups, jobs, strict=True):
            add_attempt(
                folder.group(group.key),
                Attempt(job=job.job_id, submitted_at=time.time(), limit_s=limit_s),
            )
        job_id = str(jobs[0].job_id).partition("_")[0]
        text = f"submitted job {job_id}: {len(jobs)} groups, {parameters['time']} min each"
        run.emit(Event(kind="warning", text=text))
        return job_id

    def _task(self, run: GroupRun, group: Group, code: str, parameters: Mapping[str, Any]) -> Task:
        return Task(
            sweep_dir=str(run.sweep_dir),
            sweep=run.sweep,
            group=group,
            code=code,
            limit_s=parameters["time"] * 60.0,
            warning_s=float(parameters["signal_delay_s"]),
            max_requeues=self.max_requeues,
            exclude=str(parameters.get("exclude") or ""),
            temporary=self.temporary,
        )

    def _python(self, folder: SweepFolder) -> str:
        """The copy of the program, before any other: not the one in the current folder."""
        path = f"PYTHONPATH={shlex.quote(str(folder.code))}${{PYTHONPATH:+:$PYTHONPATH}}"
        return f"env PYTHONSAFEPATH=1 {path} {shlex.quote(self.python or sys.executable)}"

    def _given(self) -> dict[str, Any]:
        """The user's parameters under Slurm's names, those left open dropped.

        :raises UserError: for unknown ones, with all that are known.
        """
        import submitit

        return given(self.parameters, submitit.SlurmExecutor._valid_parameters() - {"signal"})

    def _gpus(self, group: Group) -> int:
        """0 where the user said how many, or where vLLM is built for the CPU."""
        if asks_for_gpus(self._given()):
            return 0
        here = installed(group.server.command)
        return 0 if here and here.cpu else gpus(group)

    def _alike(self, groups: Sequence[Group]) -> list[list[Group]]:
        """Groups that need the same resources, together; the longest time limit holds for all."""
        found: dict[int, list[Group]] = {}
        for group in groups:
            found.setdefault(self._gpus(group), []).append(group)
        return list(found.values())

    def _parameters(self, first: Group, run: GroupRun, chunk: Chunk, after: str) -> dict[str, Any]:
        named = {k: v for k, v in self._given().items() if v != "auto"}
        limit = named.get("time") or max(
            minutes(group, run.seconds, self.margin) for group in chunk.groups
        )
        number = self._gpus(first)
        more = {"requeue": True, **(named.pop("additional_parameters", None) or {})}
        if more.pop("no_requeue", more.pop("no-requeue", False)):
            del more["requeue"]
            more["no-requeue"] = True
        waits = [str(named.pop("dependency", "") or ""), f"afterany:{after}" if after else ""]
        dependency = {"dependency": ",".join(filter(None, waits))} if any(waits) else {}
        asked = {"gpus_per_node": number} if number else {}
        if cpus := named.get("cpus_per_task"):  # srun does not take it from its job since 22.05
            named["srun_args"] = [f"--cpus-per-task={cpus}", *(named.get("srun_args") or ())]
        delay = named.pop("signal_delay_s", None) or min(self.warning_s, limit * 60 / 4)
        return {
            "job_name": _job_name(run),
            **asked,
            **{k: v for k, v in named.items() if v not in (0, "") or k != "gpus_per_node"},
            **dependency,
            "time": limit,
            "signal_delay_s": int(delay),
            "array_parallelism": chunk.parallelism,
            "additional_parameters": more,
        }


def _refusals() -> tuple[type[Exception], ...]:
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    return (FailedJobError, FailedSubmissionError, OSError)


def _not_submitted(run: GroupRun, folder: SweepFolder, chunk: Chunk, why: str) -> None:
    for group in chunk.groups:
        for planned in group.points:
            result = unmeasured(planned, run.sweep, f"not submitted: {why}", "")
            store.write_json(folder.point(planned).result, store.to_json(result))
            run.emit(Event(kind="point_ended", point=planned.number, text=result.reason))


def _job_name(run: GroupRun) -> str:
    return f"sweeper-{run.sweep}"


def _cancel(folder: SweepFolder, groups: Sequence[Group], run: GroupRun) -> None:
    """Also what Slurm had just taken when Ctrl-C came, and that is not in our files yet."""
    tried = [attempts(folder.group(group.key)) for group in groups]
    jobs = {one[-1].job.partition("_")[0] for one in tried if one}
    try:
        jobs |= queue.named(_job_name(run))
        queue.cancel(jobs)
        named = f"cancelled jobs {', '.join(sorted(jobs))}" if jobs else "no job was submitted"
        text = f"{named}; waiting for their end, Ctrl-C again to leave now"
    except ServerError as problem:
        text = f"not cancelled: {problem}; later: scancel --name={_job_name(run)}"
    run.emit(Event(kind="warning", text=text))
