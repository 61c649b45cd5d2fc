"""What the test cluster needs and its configuration as text; starts and writes nothing."""

from __future__ import annotations

import os
import random
import shutil
import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

PACKAGES = "slurmctld slurmd slurm-client slurmdbd munge mariadb-server-core mariadb-client-core"
"""Debian and Ubuntu packages; nothing is started from them, the cluster runs its own daemons."""

NODES = ("n1", "n2")
GPUS = 2
"""Pretend GPUs on each node."""


def missing() -> str | None:
    """Why no cluster can run here and what to do about it; ``None`` when one can."""
    if os.geteuid() != 0:
        return "the Slurm test cluster must be started as root"
    programs = ["slurmctld", "slurmd", "slurmdbd", "sbatch", "munged", "mariadbd"]
    programs += ["mariadb-install-db", "my_print_defaults"]
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    absent = [name for name in programs if not shutil.which(name, path=path)]
    if not absent:
        return None
    line = f"apt-get install --no-install-recommends {PACKAGES}"
    return f"{', '.join(absent)} not found; install with: {line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a cluster was started with, so that another process can stop it.

    ``ports`` holds slurmctld, slurmd of each node, slurmdbd, MariaDB, in this order. ``overrides``
    replace or add lines of ``slurm.conf``.
    """

    folder: str
    accounting: bool
    max_array_size: int
    ports: tuple[int, ...]
    overrides: tuple[tuple[str, str], ...]

    @property
    def path(self) -> Path:
        return Path(self.folder)

    @property
    def json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def database_port(self) -> int:
        return self.ports[-1]


def free_ports(count: int) -> tuple[int, ...]:
    """Free TCP ports, drawn at random below those that outgoing connections use."""
    found: list[int] = []
    for port in random.sample(range(20000, 32000), 1000):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                found.append(port)
        if len(found) == count:
            return tuple(found)
    raise RuntimeError(f"no {count} free ports between 20000 and 32000")


def slurm_conf(settings: Settings) -> str:
    """``slurm.conf``: two nodes on this host that believe what they are told about themselves."""
    folder, host = settings.path, socket.gethostname().split(".")[0]
    ctld, *slurmd, dbd, _ = settings.ports
    lines = {
        "ClusterName": "pretend",
        "SlurmctldHost": f"{host}(127.0.0.1)",
        "SlurmctldPort": ctld,
        "SlurmUser": "root",
        "SlurmdUser": "root",
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={folder / 'munge.socket'},cred_expire=5",
        "StateSaveLocation": folder / "state",
        "SlurmdSpoolDir": folder / "spool-%n",
        "SlurmctldPidFile": folder / "slurmctld.pid",
        "SlurmdPidFile": folder / "slurmd-%n.pid",
        "SlurmctldLogFile": folder / "slurmctld.log",
        "SlurmdLogFile": folder / "slurmd-%n.log",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "MpiDefault": "none",
        "SwitchType": "switch/none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "SchedulerParameters": "batch_sched_delay=0,sched_min_interval=100000",
        "SlurmdParameters": "config_overrides",
        "ReturnToService": 1,  # a node set DOWN stays so until RESUME; a lost one comes back
        "SlurmdTimeout": 10,
        "KillWait": 5,
        "MaxArraySize": settings.max_array_size,
        "PropagateResourceLimits": "NONE",
        "JobAcctGatherType": "jobacct_gather/linux",
        "JobCompType": "jobcomp/none",
        "GresTypes": "gpu",
        "AccountingStorageType": "accounting_storage/none",
    }
    if settings.accounting:
        lines |= {
            "AccountingStorageType": "accounting_storage/slurmdbd",
            "AccountingStorageHost": "127.0.0.1",
            "AccountingStoragePort": dbd,
            "AccountingStoragePass": folder / "munge.socket",  # where its munged listens
            "AccountingStorageTRES": "gres/gpu",
        }
    lines |= dict(settings.overrides)
    text = "".join(f"{key}={value}\n" for key, value in lines.items())
    for node, port in zip(NODES, slurmd, strict=True):
        text += f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 "
        text += f"RealMemory=10000 Gres=gpu:{GPUS} State=UNKNOWN\n"
    return f"{text}PartitionName=main Nodes={','.join(NODES)} Default=YES MaxTime=60 State=UP\n"


def gres_conf(settings: Settings) -> str:
    """``gres.conf``: null devices stand for GPUs; jobs see ``CUDA_VISIBLE_DEVICES``."""
    return f"Name=gpu Count={GPUS} File={settings.path}/gpu[0-{GPUS - 1}]\n"


def slurmdbd_conf(settings: Settings) -> str:
    folder = settings.path
    return f"""AuthType=auth/munge
AuthInfo=socket={folder / "munge.socket"}
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={settings.ports[-2]}
SlurmUser=root
LogFile={folder / "slurmdbd.log"}
PidFile={folder / "slurmdbd.pid"}
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={settings.database_port}
StorageUser=slurm
StoragePass=pretend
StorageLoc=slurm_acct_db
"""


def database_sql() -> str:
    """What MariaDB runs at its first start; it listens on the loopback interface only."""
    return """CREATE DATABASE IF NOT EXISTS slurm_acct_db;
CREATE USER IF NOT EXISTS 'slurm'@'127.0.0.1' IDENTIFIED BY 'pretend';
GRANT ALL ON slurm_acct_db.* TO 'slurm'@'127.0.0.1';
CREATE USER IF NOT EXISTS 'slurm'@'localhost' IDENTIFIED BY 'pretend';
GRANT ALL ON slurm_acct_db.* TO 'slurm'@'localhost';
"""


def commands(settings: Settings) -> dict[str, list[str]]:
    """Every daemon and its command, in the order of starting; all stay in the foreground."""
    folder = settings.path
    munge = {"socket": "munge.socket", "key-file": "munge.key", "pid-file": "munge.pid"}
    munge |= {"log-file": "munge.log", "seed-file": "munge.seed"}
    flags = [f"--{flag}={folder / name}" for flag, name in munge.items()]
    found = {"munged": ["munged", "--foreground", *flags]}
    if settings.accounting:
        found["mariadbd"] = [
            *("mariadbd", "--no-defaults", "--user=root", f"--datadir={folder / 'mariadb'}"),
            *(f"--socket={folder / 'mariadb.socket'}", "--bind-address=127.0.0.1"),
            *(f"--port={settings.database_port}", f"--init-file={folder / 'database.sql'}"),
            *(f"--pid-file={folder / 'mariadb.pid'}", "--innodb-flush-log-at-trx-commit=0"),
        ]
        found["slurmdbd"] = ["slurmdbd", "-D"]
    found["slurmctld"] = ["slurmctld", "-D", "-f", f"{folder / 'slurm.conf'}"]
    for node in NODES:
        found[f"slurmd-{node}"] = ["slurmd", "-D", "-N", node, "-f", f"{folder / 'slurm.conf'}"]
    return found
