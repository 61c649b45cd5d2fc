"""A server that answers, whoever started it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from sweeper.errors import ServerError
from sweeper.serve.endpoint import Endpoint
from sweeper.serve.installed import Installed
from sweeper.serve.process import ServerProcess
from sweeper.serve.startlog import root_cause
from sweeper.store import ServerFolder
from sweeper.values import Json, RolloutApi, ServerSpec


@dataclass(slots=True)
class Session:
    """A server that answers. ``info`` is ``/server_info``, ``None`` where it is not offered;
    ``here`` what its Python has installed, ``None`` where unknown; ``api`` what rollout batches
    are sent to."""

    spec: ServerSpec
    endpoint: Endpoint
    folder: ServerFolder
    process: ServerProcess | None
    start_s: float
    info: Json | None
    version: str | None
    preload: tuple[str, ...] = ()
    here: Installed | None = None
    api: RolloutApi = "completions"
    notes: list[str] = field(default_factory=list)

    def check_alive(self, patience_s: float = 0.0) -> None:
        """Has our server ended by itself? ``patience_s``: how long it may take to end.

        :raises ServerError: with the log's tail when it has.
        """
        deadline = time.monotonic() + patience_s
        while self.process:
            if self.process.poll() is not None:
                raise ServerError(died(self.process, "while it was serving"))
            if time.monotonic() >= deadline:
                return
            time.sleep(0.05)

    def log_text(self) -> str:
        """The server's log so far; empty where the server is not ours."""
        log_file = self.folder.log
        return log_file.read_text(encoding="utf-8", errors="replace") if log_file.exists() else ""


def rollout_api(info: Json | None) -> RolloutApi:
    """``generate`` where TRL's old server says so through our launcher."""
    says = info.get("rollout_api") if isinstance(info, dict) else None
    return "generate" if says == "generate" else "completions"


def died(process: ServerProcess, when: str) -> str:
    """Why a process of ours ended, with the last lines of its log."""
    log_file = process.log
    said = log_file.read_text(encoding="utf-8", errors="replace") if log_file.exists() else ""
    cause = root_cause(said)
    return (
        f"the server exited with status {process.poll()} {when}{': ' if cause else ''}{cause}; "
        f"last lines of {log_file}:\n{process.tail()}"
    )
