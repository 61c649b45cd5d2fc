"""A real two-node Slurm cluster with pretend GPUs in a folder of its own; needs root, no systemd.

    with Cluster(folder) as cluster:
        cluster.run("sbatch", "--wait", "--gres=gpu:1", "--wrap", "env")

By hand: ``python tests/cluster/cluster.py start DIR`` prints the variable to export, ``stop DIR``
ends it. Nothing outside the folder is read or written: keys, sockets, ports, database and state are
its own, so it runs beside an installed Slurm. Tried with Slurm 22.05 as Debian 12 ships it.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # it runs as a script, too

from tests.cluster import processes
from tests.cluster import settings as texts
from tests.cluster.settings import NODES, Settings

PATIENT_S = 120.0
"""The machine may be loaded."""
SAVED_S = 10.0
"""slurmctld saves its state at most five seconds after a change; as many more, for the load."""
SOCKET_PATH_LIMIT = 90  # bytes of a folder's path; a Unix socket's path ends at 107


def wait_until(true: Callable[[], bool], what: str, timeout_s: float = PATIENT_S) -> None:
    """Poll ten times a second; raise ``TimeoutError`` naming ``what`` did not come."""
    deadline = time.monotonic() + timeout_s
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not after {timeout_s:g} s")
        time.sleep(0.1)


class Cluster:
    """Starts on entry and leaves no process on exit; ``overrides`` are lines of ``slurm.conf``."""

    def __init__(
        self,
        folder: Path | str,
        accounting: bool = True,
        max_array_size: int = 1001,
        **overrides: Any,
    ) -> None:
        self.folder = Path(folder).resolve()
        if len(str(self.folder)) > SOCKET_PATH_LIMIT:
            raise ValueError(f"{self.folder}: longer than {SOCKET_PATH_LIMIT} characters")
        self.settings = Settings(
            folder=str(self.folder),
            accounting=accounting,
            max_array_size=max_array_size,
            ports=texts.free_ports(len(NODES) + 3),
            overrides=tuple((key, str(value)) for key, value in overrides.items()),
        )
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}

    @classmethod
    def running_in(cls, folder: Path | str) -> Cluster:
        """The cluster that another process started in ``folder``."""
        path = Path(folder).resolve() / "cluster.json"
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no cluster was started there")
        found = cls(folder)
        kept = json.loads(path.read_text())
        kept |= {"ports": tuple(kept["ports"])}
        kept |= {"overrides": tuple((key, value) for key, value in kept["overrides"])}
        found.settings = Settings(**kept)
        return found

    @property
    def env(self) -> dict[str, str]:
        """The variables that make ``sbatch`` and its family talk to this cluster."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def __enter__(self) -> Cluster:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Write the configuration, start every daemon in order, wait until both nodes are idle."""
        if (self.folder / "cluster.json").exists():
            raise FileExistsError(f"{self.folder}: a cluster was started there; use a new folder")
        self.write()
        try:
            for name in texts.commands(self.settings):
                self.start_daemon(name)
            wait_until(lambda: self.node_states() == dict.fromkeys(NODES, "idle"), "idle nodes")
        except BaseException:
            self.stop()
            raise

    def write(self) -> None:
        folder = self.folder
        for name in ("state", *(f"spool-{node}" for node in NODES)):
            (folder / name).mkdir(parents=True)
        folder.chmod(0o755)
        for gpu in range(texts.GPUS):  # Slurm counts only device files; these are /dev/null
            os.mknod(folder / f"gpu{gpu}", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        (folder / "munge.key").touch(0o600)
        (folder / "munge.key").write_bytes(secrets.token_bytes(128))
        (folder / "slurm.conf").write_text(texts.slurm_conf(self.settings))
        (folder / "gres.conf").write_text(texts.gres_conf(self.settings))
        (folder / "slurmdbd.conf").touch(0o600)
        (folder / "slurmdbd.conf").write_text(texts.slurmdbd_conf(self.settings))
        (folder / "database.sql").write_text(texts.database_sql())
        (folder / "cluster.json").write_text(json.dumps(self.settings.json))

    def start_daemon(self, name: str) -> None:
        """Start ``munged``, ``mariadbd``, ``slurmdbd``, ``slurmctld``, ``slurmd-n1`` or ``-n2``."""
        if name == "mariadbd" and not (self.folder / "mariadb").exists():
            self.run("mariadb-install-db", "--no-defaults", "--user=root", "--skip-test-db",
                     f"--datadir={self.folder / 'mariadb'}")  # fmt: skip
        with (self.folder / f"{name}.out").open("ab") as out:
            self.daemons[name] = subprocess.Popen(
                texts.commands(self.settings)[name],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=self.environment(),
                start_new_session=True,
            )
        wait_until(lambda: self.answers(name), f"{name} (see {self.folder}/{name}.out)")
        if name == "slurmdbd":
            self.try_run("sacctmgr", "-i", "add", "cluster", "pretend")

    def environment(self) -> dict[str, str]:
        path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
        outer = {key: value for key, value in os.environ.items() if not key.startswith("SLURM_")}
        return outer | self.env | {"PATH": path}

    def answers(self, name: str) -> bool:
        """Whether a daemon does its work; raises when it has ended."""
        code, printed = self.daemons[name].poll(), self.folder / f"{name}.out"
        if code is not None:
            end = printed.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{name} ended with status {code}:\n{end}")
        if name == "mariadbd":
            return "ready for connections" in printed.read_text(errors="replace")
        checks = {
            "munged": ("munge", "-n", "-S", str(self.folder / "munge.socket")),
            "slurmdbd": ("sacctmgr", "-n", "show", "cluster"),
            "slurmctld": ("scontrol", "show", "config"),
        }
        return name not in checks or self.try_run(*checks[name]).returncode == 0

    def try_run(self, *command: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run a command that talks to this cluster, in its folder, whatever its exit status."""
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )

    def run(self, *command: str, timeout_s: float = 60.0) -> str:
        """The standard output of such a command; raises when it fails."""
        done = self.try_run(*command, timeout_s=timeout_s)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: status {done.returncode}: {done.stderr}")
        return done.stdout

    def node_states(self) -> dict[str, str]:
        """State of each node as ``sinfo`` names it, such as ``idle``, ``mixed`` or ``down*``."""
        lines = self.try_run("sinfo", "-hN", "-o", "%N %T").stdout.splitlines()
        return dict(map(str.split, lines))

    def set_node(self, node: str, state: str, reason: str = "test") -> None:
        """``DOWN``, ``DRAIN`` or ``RESUME`` a node; its jobs end or stay as Slurm decides."""
        self.run("scontrol", "update", f"NodeName={node}", f"State={state}", f"Reason={reason}")

    def kill(self, name: str) -> None:
        """``kill -9`` one daemon; :meth:`start_daemon` brings it back with its state.

        slurmctld saves a change up to five seconds later: a younger job is lost with it, gone from
        ``squeue`` and RUNNING for ever in ``sacct``.
        """
        self.daemons[name].kill()
        self.daemons[name].wait()

    def processes(self) -> dict[int, str]:
        """Pid and command line of what jobs started and has not ended, wherever it went."""
        return processes.jobs(self.folder)

    def jobs(self) -> str:
        """``squeue`` of everything that is not over: one ``id state`` a line."""
        return self.run("squeue", "-h", "-r", "-o", "%i %T").strip()

    def stop(self) -> None:
        """Cancel every job, end every daemon, kill what a job left behind; no process stays."""
        with suppress(subprocess.TimeoutExpired, TimeoutError):
            if self.try_run("scancel", "--user=root", timeout_s=10).returncode == 0:
                wait_until(lambda: not processes.jobs(self.folder), "end of the jobs", 10)
        for name in reversed(texts.commands(self.settings)):
            self.end(name.partition("-")[0])
        for pid in {**processes.daemons(self.folder), **processes.jobs(self.folder)}:
            send(pid, signal.SIGKILL)
        for daemon in self.daemons.values():
            daemon.wait()
        wait_until(lambda: not processes.daemons(self.folder), "end of the cluster's daemons")

    def end(self, program: str) -> None:
        """SIGTERM to every such daemon of this cluster, and ten seconds to obey."""

        def left() -> list[int]:
            return [p for p, name in processes.daemons(self.folder).items() if name == program]

        for pid in left():
            send(pid, signal.SIGTERM)
        with suppress(TimeoutError):
            wait_until(lambda: not left(), f"end of {program}", 10)


def send(pid: int, what: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, what)


def main() -> None:
    parser = argparse.ArgumentParser(description="A two-node Slurm cluster with pretend GPUs.")
    parser.add_argument("action", choices=["start", "stop"])
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--no-accounting", action="store_true", help="no slurmdbd, no sacct")
    parser.add_argument("--max-array-size", type=int, default=1001)
    args = parser.parse_args()
    if problem := texts.missing():
        parser.exit(2, f"{problem}\n")
    if args.action == "stop":
        Cluster.running_in(args.folder).stop()
        return
    cluster = Cluster(args.folder, not args.no_accounting, args.max_array_size)
    cluster.start()
    for name, value in cluster.env.items():
        print(f"export {name}={value}")


if __name__ == "__main__":
    main()
