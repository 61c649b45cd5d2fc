"""Groups run on this machine: here one after another, or in worker processes side by side."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from launchers.devices import asked, login_node, visible
from sweeper import store
from sweeper.errors import UserError
from sweeper.jobs.attempt import Attempt, add_attempt
from sweeper.jobs.queue import Queued
from sweeper.jobs.snapshot import copy_code
from sweeper.jobs.task import Task
from sweeper.jobs.watch import Patience, watch
from sweeper.measure.group import GroupRun
from sweeper.plan.parallel import gpus
from sweeper.serve.installed import installed
from sweeper.serve.process import REAP_S, ServerProcess, start
from sweeper.store import SweepFolder
from sweeper.values import Event, Group

_WRITE_S = 25.0
"""For a worker to write what it has, once its server has ended."""


@dataclass(slots=True, kw_only=True)
class LocalLauncher:
    """``devices``: ``auto`` or a list of GPUs. ``workers``: groups at a time, ``None`` for as many
    as the GPUs allow, and for one where there is none: two at once would measure neither."""

    devices: Any = "auto"
    workers: int | None = None
    allow_login_node: bool = False
    detach: bool = False

    @property
    def where(self) -> str:
        """For people."""
        gpu = self._devices()
        return f"on {socket.gethostname()}" + (f", GPUs {','.join(gpu)}" if gpu else "")

    def check(self, groups: Sequence[Group]) -> None:
        """Before anything is created.

        :raises UserError: what cannot run here, and why.
        """
        found = self._devices()
        if self.detach:
            raise UserError("detach=true: only jobs go on by themselves; use hydra/launcher=slurm")
        if self.workers is not None and (not isinstance(self.workers, int) or self.workers < 1):
            raise UserError(
                f"hydra.launcher.backend.workers: {self.workers!r}: at least 1, or null"
            )
        own = [group for group in groups if group.server.kind != "external"]
        if own and not self.allow_login_node and login_node(os.environ, shutil.which):
            _no_gpu_servers(own, found)
        for group in own:
            if found and gpus(group) > len(found):
                raise UserError(
                    f"{group.points[0].point.label}: needs {gpus(group)} GPUs, here are "
                    f"{len(found)}: {','.join(found)}"
                )

    def map(self, run: GroupRun, groups: Sequence[Group]) -> bool:
        """``run`` every group; ``True``: all have ended."""
        found = self._devices()
        listed = self.devices not in (None, "auto")
        alone = self.workers == 1 or (self.workers is None and len(found) < 2)
        if (alone and not listed) or any(g.server.kind == "external" for g in groups):
            for group in groups:
                run(group)
            return True
        _side_by_side(run, groups, found, self.workers or len(found) or 1)
        return True

    def _devices(self) -> tuple[str, ...]:
        return asked(self.devices, visible(os.environ))


def _no_gpu_servers(groups: Sequence[Group], devices: Sequence[str]) -> None:
    """A login node may have no GPU and yet a vLLM that needs one; both are for jobs."""
    here = socket.gethostname()
    if devices:
        what = f"{here} has a GPU and belongs to Slurm, but this is not inside a job"
    elif any(_built_for_gpus(group) for group in groups):
        what = f"{here} belongs to Slurm, and vLLM here is built for GPUs, but this is not a job"
    else:
        return
    raise UserError(
        f"{what}: submit with hydra/launcher=slurm, start sweeper inside an allocation, or permit "
        "it with hydra.launcher.backend.allow_login_node=true"
    )


def _built_for_gpus(group: Group) -> bool:
    found = installed(group.server.command)
    return found is not None and found.vllm is not None and not found.cpu


def _side_by_side(
    run: GroupRun, groups: Sequence[Group], devices: Sequence[str], at_once: int
) -> None:
    folder = SweepFolder(run.sweep_dir)
    code = copy_code(folder.code)
    workers = Workers(free=list(devices), at_once=at_once, folder=folder, uses=bool(devices))
    for group in groups:
        home = folder.group(group.key)
        task = Task(sweep_dir=str(run.sweep_dir), sweep=run.sweep, group=group, code=code)
        store.write_json(home.task, store.to_json(task))
        add_attempt(home, Attempt(job=_name(group), submitted_at=time.time()))
        workers.waiting.append(group)
    patience = Patience(poll_s=0.2, queue_s=0.5, grace_s=1.0)
    try:
        watch(folder, run.sweep, groups, workers, run.emit, patience)
    except BaseException:
        run.emit(Event(kind="warning", text="stopping the workers"))
        workers.stop()
        watch(folder, run.sweep, groups, workers, run.emit, patience)
        raise
    finally:
        workers.stop()


def _name(group: Group) -> str:
    return f"worker {group.key[:8]}"


@dataclass(slots=True, kw_only=True)
class Workers:
    """The queue of this machine; asked for its states, it starts what fits and reaps what ended."""

    free: list[str]
    at_once: int
    folder: SweepFolder
    uses: bool
    waiting: list[Group] = field(default_factory=list)
    running: dict[str, tuple[ServerProcess, Group, list[str]]] = field(default_factory=dict)
    exits: dict[str, int] = field(default_factory=dict)

    def states(self) -> Mapping[str, Queued]:
        for name, (process, _, devices) in list(self.running.items()):
            if process.poll() is not None:
                self._reap(name, process, devices)
        for group in list(self.waiting):
            need = gpus(group) if self.uses else 0
            if len(self.running) < self.at_once and need <= len(self.free):
                self.waiting.remove(group)
                self._start(group, need)
        host = socket.gethostname()
        return {_name(g): Queued(state="PENDING") for g in self.waiting} | {
            name: Queued(state="RUNNING", node=host) for name in self.running
        }

    def ending(self, job: str) -> str:
        return f"exit status {self.exits[job]}" if job in self.exits else "cancelled"

    def stop(self) -> None:
        """TERM to all at once, then wait for each: they write what they have and stop."""
        self.waiting.clear()
        for process, _, _ in self.running.values():
            process.begin_to_stop()
        for name, (process, _, devices) in list(self.running.items()):
            self._reap(name, process, devices)

    def _start(self, group: Group, need: int) -> None:
        home = self.folder.group(group.key)
        devices = [self.free.pop(0) for _ in range(need)]
        path = os.pathsep.join(filter(None, (str(self.folder.code), os.environ.get("PYTHONPATH"))))
        env = dict(os.environ) | {"PYTHONSAFEPATH": "1", "PYTHONPATH": path}
        env |= {"SWEEPER_JOB": _name(group)}
        if self.uses:
            env["CUDA_VISIBLE_DEVICES"] = ",".join(devices)
        argv = (sys.executable, "-m", "sweeper.jobs.task", str(home.task))
        grace_s = group.server.stop_timeout_s + REAP_S + _WRITE_S
        self.running[_name(group)] = (start(argv, env, home.log, grace_s), group, devices)

    def _reap(self, name: str, process: ServerProcess, devices: list[str]) -> None:
        end = process.stop()
        self.exits[name] = -1 if end["left"] else int(end["exit"] or 0)
        self.free += devices
        del self.running[name]
