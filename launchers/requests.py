"""What to ask Slurm for: GPUs, time, arrays below the limit that share one cap. No process here."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweeper.errors import UserError
from sweeper.values import Group

_GPU_PARAMETERS = ("gres", "gpus_per_node", "gpus_per_task", "num_gpus")
_GPU_OPTIONS = ("gpus", "gres", "gpus-per-node", "gpus-per-task", "gpus-per-socket")
_RENAMED = {"name": "job_name", "timeout_min": "time", "mem_gb": "mem"}
"""submitit's names for some parameters, beside Slurm's."""
_NOT_OURS = ("nodes", "ntasks_per_node", "tasks_per_node")
SHORTEST_MIN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One array: its groups, how many of them at a time, and the chunk it waits for, by place."""

    groups: tuple[Group, ...]
    parallelism: int
    after: int | None = None


def given(parameters: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """The user's parameters under Slurm's names, those left open dropped, a time in minutes.

    :raises UserError: for unknown ones, with all that are known.
    """
    named = {_RENAMED.get(k, k): v for k, v in parameters.items() if v is not None}
    if "mem_gb" in parameters and parameters["mem_gb"] is not None:
        named["mem"] = f"{math.ceil(float(parameters['mem_gb']) * 1024)}M"
    if unknown := sorted(set(named) - set(known)):
        raise UserError(
            f"hydra.launcher.backend.parameters: unknown: {', '.join(unknown)}; known: "
            f"{', '.join(sorted({*known, *_RENAMED}))}; any other option of sbatch goes into "
            "additional_parameters"
        )
    if wrong := [name for name in _NOT_OURS if named.get(name, 1) != 1]:
        raise UserError(
            f"hydra.launcher.backend.parameters.{wrong[0]}: a group is one server on one node: "
            "1; give it several GPUs with +server.args.tensor_parallel_size=2"
        )
    if named.get("time", "auto") != "auto":
        named["time"] = limit_minutes(named["time"])
    return named


def asks_for_gpus(parameters: Mapping[str, Any]) -> bool:
    """Do the user's parameters say how many GPUs, in any of Slurm's ways, none included?"""
    named = [parameters.get(name) for name in _GPU_PARAMETERS]
    more = parameters.get("additional_parameters") or {}
    named += [more.get(name, more.get(name.replace("-", "_"))) for name in _GPU_OPTIONS]
    return any(value not in (None, "auto") for value in named)


def minutes(group: Group, seconds: Mapping[int, float], margin: float) -> int:
    """A time limit in minutes for the longest starts and stops, and the points as estimated.

    ``seconds`` is the estimate of each point by its number, ``margin`` what it is multiplied by.
    """
    server = group.server
    needed = sum(seconds[planned.number] for planned in group.points)
    total = needed * margin + len(group.starts) * (server.start_timeout_s + server.stop_timeout_s)
    return max(SHORTEST_MIN, math.ceil(total / 60))


def limit_minutes(time: Any) -> int:
    """``60``, ``"90"``, ``"01:30:00"``, ``"30:00"``, ``"1-12"`` or ``"1-12:00:00"`` in minutes.

    :raises UserError: for anything else.
    """
    days, _, rest = str(time).rpartition("-")
    parts = rest.split(":")
    if not all(part.isdigit() for part in parts) or not (days.isdigit() or not days):
        raise UserError(f"parameters.time: {time!r}: minutes, or as in sbatch: days-hours:min:sec")
    numbers = [int(part) for part in parts]
    if days:
        hours, mins, secs = (*numbers, 0, 0, 0)[:3]
    elif len(numbers) == 1:
        hours, mins, secs = 0, numbers[0], 0
    else:
        hours, mins, secs = ([0] * (3 - len(numbers)) + numbers)[:3]
    return max(1, math.ceil(int(days or 0) * 1440 + hours * 60 + mins + secs / 60))


def chunks(alike: Sequence[Sequence[Group]], limit: int, cap: int) -> tuple[Chunk, ...]:
    """Arrays of at most ``limit`` groups, never more than ``cap`` groups at a time in all of them.

    ``alike`` holds groups that need the same resources together. The cap is dealt out to as many
    arrays as it is large; further ones wait for one of those to be over.
    """
    pieces = [
        tuple(groups[start : start + limit])
        for groups in alike
        for start in range(0, len(groups), limit)
    ]
    lanes = max(1, min(cap, len(pieces)))
    shares = [cap // lanes + (lane < cap % lanes) for lane in range(lanes)]
    return tuple(
        Chunk(
            groups=piece,
            parallelism=min(len(piece), max(1, shares[place % lanes])),
            after=place - lanes if place >= lanes else None,
        )
        for place, piece in enumerate(pieces)
    )
