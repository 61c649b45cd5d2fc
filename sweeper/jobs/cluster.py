"""What Slurm offers: its partitions and their limits, and whether it keeps accounts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from sweeper.jobs.queue import PATIENCE_S, outside
from sweeper.serve.process import ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A line of ``sinfo``; ``limit`` is the longest job as ``days-hours:minutes:seconds``."""

    name: str
    up: bool
    limit: str
    nodes: int
    gres: str


def partitions() -> tuple[Partition, ...]:
    """:raises ServerError: when Slurm does not answer."""
    said = ask(["sinfo", "-h", "-o", "%P|%a|%l|%D|%G"], PATIENCE_S, outside(os.environ))
    return tuple(read_partitions(said))


def read_partitions(said: str) -> Iterator[Partition]:
    """Lines of ``sinfo -h -o '%P|%a|%l|%D|%G'``; the default partition ends with a star."""
    for line in said.splitlines():
        name, state, limit, nodes, gres = (part.strip() for part in line.split("|"))
        yield Partition(
            name=name,
            up=state == "up",
            limit=limit,
            nodes=int(nodes),
            gres="" if gres == "(null)" else gres,
        )


def accounting() -> None:
    """Look into the accounts of the last hour.

    :raises ServerError: when there are none.
    """
    ask(["sacct", "-nX", "-S", "now-1hour", "-o", "JobID"], PATIENCE_S, outside(os.environ))
