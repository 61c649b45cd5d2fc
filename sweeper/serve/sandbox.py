"""Code that a model wrote, run under bubblewrap: alone, poor, blind and for a short time.

No network, no environment, nothing of the file system but the system's programs (read-only) and a
private /tmp of a few megabytes; its own processes only; limits for processor time, memory, number
of processes, file sizes and the clock. Started by root it becomes nobody first, because no limit
on processes holds for root.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

from sweeper.errors import ServerError

NOBODY = 65534
_LOOK_S = 0.05
_GONE_S = 5.0
_ANSWER_BYTES = 4096
_SYSTEM = ("/usr", "/etc/ld.so.cache", "/etc/alternatives")
_MERGED = ("bin", "sbin", "lib", "lib32", "lib64")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")

RUNNER = r"""
import json, os, resource, sys
task = json.load(sys.stdin)
for name, value in task["limits"].items():
    resource.setrlimit(getattr(resource, name), (value, value))
say = os.fdopen(os.dup(1), "w")
null = os.open(os.devnull, os.O_RDWR)
for fd in (0, 1, 2):
    os.dup2(null, fd)
os.chdir("/tmp")
scope = {"__name__": "__main__"}
try:
    for part in task["parts"]:
        exec(compile(part, "<answer>", "exec"), scope)
    found = ""
except BaseException as problem:
    found = (type(problem).__name__ + ": " + " ".join(str(problem).split()))[:300].rstrip()
say.write(json.dumps({"token": task["token"], "problem": found}))
say.flush()
os._exit(0)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one run; ``memory_mb`` is both a process's address space and what all hold together."""

    seconds: float = 10.0
    memory_mb: int = 512
    processes: int = 16
    files_mb: int = 16

    @property
    def as_rlimits(self) -> dict[str, int]:
        """By the names of Python's ``resource``; set inside, where they count this run alone."""
        mega = 1024 * 1024
        return {
            "RLIMIT_CPU": round(self.seconds) + 2,  # of one process; the clock ends it first
            "RLIMIT_AS": self.memory_mb * mega,
            "RLIMIT_NPROC": self.processes,
            "RLIMIT_FSIZE": self.files_mb * mega,
            "RLIMIT_NOFILE": 64,
            "RLIMIT_CORE": 0,
        }


LIMITS = Limits()


def run_code(parts: Sequence[str], limits: Limits = LIMITS) -> str:
    """Run Python sources one after another in one scope; empty when all ran to their ends.

    Otherwise what stopped them, such as ``AssertionError: …`` or ``no end within 10 s``.

    :raises ServerError: there is no sandbox on this machine; nothing was run.
    """
    return _confined(_python(), parts, limits)


@cache
def _python() -> str:
    """A Python that runs in the sandbox.

    :raises ServerError: with the reason why none does.
    """
    if shutil.which("bwrap") is None:
        raise ServerError("no sandbox: bwrap is not installed (Debian: apt-get install bubblewrap)")
    own = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    reasons = []
    for python in dict.fromkeys((str(own), "/usr/bin/python3")):
        try:
            problem = _confined(python, ["pass"], LIMITS)
        except OSError as refused:
            problem = str(refused)
        if not problem:
            return python
        reasons.append(f"{python}: {problem}")
    raise ServerError(f"no sandbox: bwrap does not run here ({'; '.join(reasons)})")


def _confined(python: str, parts: Sequence[str], limits: Limits) -> str:
    token = secrets.token_hex(8)
    task = {"parts": list(parts), "limits": limits.as_rlimits, "token": token}
    root = os.geteuid() == 0
    with tempfile.TemporaryFile("w+", encoding="utf-8") as given:
        json.dump(task, given)
        given.seek(0)
        child = subprocess.Popen(
            [*_walls(python, limits), python, "-I", "-S", "-X", "utf8", "-c", RUNNER],
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={},
            cwd="/",
            start_new_session=True,
            user=NOBODY if root else None,
            group=NOBODY if root else None,
            extra_groups=() if root else None,
        )
    with child, _ended(child):
        stopped = _watch(child, limits)
        if stopped:
            return stopped
        assert child.stdout is not None and child.stderr is not None
        said = child.stdout.read(_ANSWER_BYTES).decode("utf-8", "replace")
        outside = child.stderr.read(_ANSWER_BYTES).decode("utf-8", "replace")
    with contextlib.suppress(ValueError, TypeError, KeyError):
        answer = json.loads(said)
        if answer["token"] == token:
            return str(answer["problem"])
    last = (outside.strip().splitlines() or [f"ended with status {child.returncode}"])[-1]
    return f"no answer: {last}"


def _walls(python: str, limits: Limits) -> list[str]:
    """bwrap's own arguments."""
    words = ["bwrap", "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session"]
    words += ["--disable-userns", "--clearenv", "--hostname", "sandbox", "--cap-drop", "ALL"]
    prefix = str(Path(python).parent.parent)
    for path in (*_SYSTEM, *([] if prefix.startswith("/usr") else [prefix])):
        words += ["--ro-bind-try", path, path]
    for name in _MERGED:
        folder = Path("/", name)
        if folder.is_symlink():
            words += ["--symlink", str(folder.readlink()), str(folder)]
        elif folder.is_dir():
            words += ["--ro-bind", str(folder), str(folder)]
    for device in _DEVICES:
        words += ["--dev-bind-try", device, device]
    words += ["--proc", "/proc", "--size", str(limits.files_mb * 1024 * 1024), "--tmpfs", "/tmp"]
    return [*words, "--remount-ro", "/", "--chdir", "/", "--"]


@contextlib.contextmanager
def _ended(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Nothing of it is left: with its first process every process of a sandbox ends.

    That one first: bwrap outside of it ends after it has seen all of them gone. Killed itself, it
    would leave them to end on their own, a moment later.
    """
    try:
        yield
    finally:
        with contextlib.suppress(psutil.Error):
            for first in psutil.Process(child.pid).children():
                first.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_GONE_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _watch(child: subprocess.Popen[bytes], limits: Limits) -> str:
    """Wait for the end; why it was not waited for any longer, empty when it came by itself."""
    deadline = time.monotonic() + limits.seconds
    while child.poll() is None:
        if time.monotonic() > deadline:
            return f"no end within {limits.seconds:g} s"
        if _held(child.pid) > limits.memory_mb * 1024 * 1024:
            return f"more than {limits.memory_mb} MB"
        time.sleep(_LOOK_S)
    return ""


def _held(pid: int) -> int:
    """Bytes of memory of a process and all below it; 0 when it has just ended."""
    total = 0
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                total += process.memory_info().rss
    return total
