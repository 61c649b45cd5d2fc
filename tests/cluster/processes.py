"""Which running processes belong to a test cluster, read from /proc; zombies do not count."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

DAEMONS = {"munged", "mariadbd", "slurmdbd", "slurmctld", "slurmd", "slurmstepd"}


def daemons(folder: Path) -> dict[int, str]:
    """Pid and program of the daemons that were started with ``folder`` or hold a file in it."""
    found = {pid: program(pid) for pid in pids()}
    return {
        pid: name
        for pid, name in found.items()
        if name in DAEMONS and (str(folder) in read(pid, "cmdline") or holds(pid, folder))
    }


def jobs(folder: Path) -> dict[int, str]:
    """Pid and command line of what the cluster's jobs started, wherever it went since."""
    conf = f"SLURM_CONF={folder / 'slurm.conf'}"
    found = {}
    for pid in pids():
        variables = read(pid, "environ").split("\0")
        if conf in variables and any(v.startswith("SLURM_JOB_ID=") for v in variables):
            found[pid] = read(pid, "cmdline").replace("\0", " ").strip()
    return found


def pids() -> Iterator[int]:
    """Every living process but this one."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            state = read(int(entry.name), "stat").rpartition(") ")[2][:1]
            if state not in ("", "Z", "X"):
                yield int(entry.name)


def program(pid: int) -> str:
    """The executable's name; Debian calls its files ``slurmd-wlm`` and so on."""
    try:
        return Path(f"/proc/{pid}/exe").readlink().name.split()[0].removesuffix("-wlm")
    except OSError:
        return ""


def holds(pid: int, folder: Path) -> bool:
    """Whether a process has a file of ``folder`` open; slurmstepd has its log and socket there."""
    try:
        targets = [entry.readlink() for entry in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return False
    return any(folder in target.parents for target in targets)


def read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""
