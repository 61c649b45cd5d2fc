"""Runs one server as its only child and leaves nothing of it behind, whatever happens to us.

A program of its own (``python -I guard.py GRACE_S -- COMMAND…``), standard library only. The
launching process holds the other end of our standard input: when it writes there, closes that end,
or dies by any signal, we stop the server: TERM, wait (the grace time only if something was
written), KILL every descendant, reap, report. As a child subreaper we inherit orphans of the
server, so "every descendant" is complete even when some moved to a session of their own. On
standard output one JSON line tells the server's pid and one its end.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
SHORT_S = 2.0
"""For a server that nobody will ask again; vLLM ignores TERM while it starts, for half a minute."""
KILL_S = 60.0
"""A killed process ends when the disk has answered it, and its memory is given back."""


def prctl(option: int, value: int) -> None:
    """Linux only; elsewhere we do without."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def say(**facts: object) -> None:
    """One status line; a launcher that is gone does not hear it, and that is fine."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(facts).encode() + b"\n")


def descendants() -> dict[int, str]:
    """Pid and name of every living process below us, zombies left out."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                text = (entry / "stat").read_text()
                name, rest = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") :]
                state, parent = rest.split()[1:3]
                parents[int(entry.name)] = int(parent)
                if state != "Z":
                    names[int(entry.name)] = name
    ours = {os.getpid()}
    while grown := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= grown
    return {pid: names[pid] for pid in ours - {os.getpid()} if pid in names}


def kill_all(deadline: float) -> tuple[dict[int, str], dict[int, str]]:
    """KILL what is left, reap it; returns what there was and what would not go by the deadline."""
    first = descendants()
    left = first
    while left and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.02)
        left = descendants()
    return first, left


def main() -> None:
    grace_s, argv = float(sys.argv[1]), sys.argv[3:]
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    told_to_stop = False

    def stop(*_: object) -> None:
        nonlocal told_to_stop
        told_to_stop = True

    signal.signal(signal.SIGTERM, stop)
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(ignored, signal.SIG_IGN)
    server = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=2,
        stderr=2,
        start_new_session=True,
        restore_signals=True,
        preexec_fn=_in_child,
    )
    say(pid=server.pid)
    while server.poll() is None and not told_to_stop:
        if select.select([0], [], [], 0.05)[0]:
            told_to_stop = True
            grace_s = grace_s if os.read(0, 1024) else min(grace_s, SHORT_S)
    asked = server.poll() is None
    if asked:
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(grace_s)
    forced = server.poll() is None
    killed, left = kill_all(time.monotonic() + KILL_S)
    say(
        exit=server.poll(),
        asked=asked,
        forced=forced,
        killed=[f"{pid} {name}" for pid, name in killed.items()],
        left=[f"{pid} {name}" for pid, name in left.items()],
    )


def _in_child() -> None:
    """Our own violent death takes the server along; ignored signals are its own to decide.

    But not USR2: Slurm sends its warning to every process of a job, and the server must live until
    the client has written what it has.
    """
    for signum in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(signum, signal.SIG_DFL)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    main()
