"""One process under its guard: start, look, stop. How every server and local worker is started."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sweeper.errors import ServerError
from sweeper.values import Json

_GUARD = Path(__file__).with_name("guard.py")
REAP_S = 70.0
"""Beyond the grace time: what the guard needs for KILL and proof, and a little more."""


@dataclass(slots=True)
class ServerProcess:
    """A running guard and what it has said so far."""

    guard: subprocess.Popen[bytes]
    log: Path
    grace_s: float
    pid: int | None = None
    end: dict[str, Json] | None = None
    _heard: bytes = field(default=b"", repr=False)

    def poll(self) -> int | None:
        """The server's exit status, ``None`` while it runs."""
        self._listen()
        if self.end is None and self.guard.poll() is not None:
            self._listen()
            if self.end is None:  # the guard itself was killed
                self._kill_group()
                self.end = {"exit": -signal.SIGKILL, "asked": False, "killed": [], "left": []}
        return None if self.end is None else int(self.end["exit"] or 0)

    def begin_to_stop(self, *, was_ready: bool = True) -> None:
        """Ask for the orderly end and do not wait for it; asking again changes nothing.

        A server that never was ready has nothing to end in order, and vLLM does not hear TERM while
        it starts: it gets two seconds instead of the grace time.
        """
        if self.guard.stdin and not self.guard.stdin.closed:
            with contextlib.suppress(OSError):
                if was_ready:
                    self.guard.stdin.write(b"stop")
                self.guard.stdin.close()

    def stop(self, *, was_ready: bool = True) -> dict[str, Json]:
        """TERM, wait, KILL everything; returns the guard's report.

        Its ``left`` names the processes that could not be removed.
        """
        self.begin_to_stop(was_ready=was_ready)
        deadline = time.monotonic() + self.grace_s + REAP_S
        while self.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        self.guard.kill()
        self.guard.wait()
        if self.guard.stdout:
            self.guard.stdout.close()
        end = self.end or {"exit": None, "left": ["guard did not answer"]}
        if self.end is None:
            self._kill_group()
        return end

    def tail(self, lines: int = 15) -> str:
        """The last lines of the server's log."""
        if not self.log.exists():
            return "(no log)"
        text = self.log.read_bytes()[-65536:].decode("utf-8", "replace")
        return "\n".join(text.rstrip().splitlines()[-lines:])

    def _listen(self) -> None:
        assert self.guard.stdout is not None
        if self.guard.stdout.closed:
            return
        with contextlib.suppress(BlockingIOError):
            self._heard += os.read(self.guard.stdout.fileno(), 65536)
        *lines, self._heard = self._heard.split(b"\n")
        for line in lines:
            facts = json.loads(line)
            self.pid = facts.get("pid", self.pid)
            if "exit" in facts:
                self.end = facts

    def _kill_group(self) -> None:
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)


def start(argv: Sequence[str], env: Mapping[str, str], log: Path, grace_s: float) -> ServerProcess:
    """Start ``argv`` under a guard, output appended to ``log``.

    :raises ServerError: when the command cannot be executed at all.
    """
    with log.open("ab") as output:
        guard = subprocess.Popen(
            [sys.executable, "-I", str(_GUARD), str(grace_s), "--", *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            env=dict(env),
            start_new_session=True,
        )
    assert guard.stdout is not None
    os.set_blocking(guard.stdout.fileno(), False)
    process = ServerProcess(guard=guard, log=log, grace_s=grace_s)
    deadline = time.monotonic() + 30
    while process.pid is None:
        if guard.poll() is not None or time.monotonic() > deadline:
            process.poll()
            guard.kill()
            raise ServerError(f"cannot run {argv[0]}:\n{process.tail(3)}")
        time.sleep(0.01)
        process.poll()
    return process


def ask(
    argv: Sequence[str], timeout_s: float, env: Mapping[str, str] | None = None, text: str = ""
) -> str:
    """Standard output of a short command that reads ``text``; its last error line on failure.

    :raises ServerError: when it fails or takes longer than ``timeout_s``.
    """
    try:
        child = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
            start_new_session=True,
        )
    except OSError as problem:
        raise ServerError(f"{argv[0]}: {problem}") from None
    with child:
        try:
            out, err = child.communicate(text, timeout_s)
        except subprocess.TimeoutExpired:
            _kill_session(child)
            raise ServerError(f"{argv[0]}: no answer after {timeout_s:g} s") from None
        except BaseException:
            _kill_session(child)
            raise
    if child.returncode:
        last = (err.strip().splitlines() or [f"exit status {child.returncode}"])[-1]
        raise ServerError(f"{argv[0]}: {last}")
    return out


def _kill_session(child: subprocess.Popen[str]) -> None:
    """Its children too: one that holds our pipes would keep us waiting."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nothing is bound to right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_listening(port: int) -> bool:
    """Does anything accept connections on this port of 127.0.0.1?"""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0
