"""Every job a group was given to, in its folder; read by whoever watches, now or later."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from sweeper.store import GroupFolder, from_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """``job`` is Slurm's id, ``12`` or ``12_3``, or ``worker <key8>`` of this machine.

    ``limit_s`` is its time limit, ``None`` without one; ``submitted_at`` seconds since the epoch.
    ``excluded`` are the nodes it may not run on because of a fault there, ``why`` that fault.
    """

    job: str
    submitted_at: float
    limit_s: float | None = None
    excluded: str = ""
    why: str = ""


def add_attempt(home: GroupFolder, attempt: Attempt) -> None:
    """Append one line."""
    home.path.mkdir(parents=True, exist_ok=True)
    with home.attempts.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(attempt)) + "\n")


def attempts(home: GroupFolder) -> tuple[Attempt, ...]:
    """All complete lines, oldest first."""
    if not home.attempts.exists():
        return ()
    found = []
    for line in home.attempts.read_text(encoding="utf-8").splitlines():
        try:
            found.append(from_json(Attempt, json.loads(line)))
        except (ValueError, TypeError):
            continue  # half-written
    return tuple(found)
