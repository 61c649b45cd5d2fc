"""Dynamic speculation: how many tokens are drafted at which batch size.

A schedule is ``[[first, last, K], …]`` with inclusive batch sizes. vLLM checks it in the engine,
minutes after the start; the rules here are those of its ``v1/spec_decode/dynamic/utils.py``.
"""

from __future__ import annotations

import json
from itertools import pairwise

from sweeper.values import Json

_SHAPE = "a list of [first, last, K] with whole numbers, such as [[1,4,4],[5,16,2],[17,256,0]]"


def schedule_mistakes(schedule: Json, where: str) -> list[str]:
    """What vLLM would refuse; empty for a schedule that works."""
    if not isinstance(schedule, list) or not schedule:
        return [f"{where}: {json.dumps(schedule)}: {_SHAPE}"]
    misshapen = [entry for entry in schedule if not _is_entry(entry)]
    if misshapen:
        return [f"{where}: {json.dumps(entry)}: {_SHAPE}" for entry in misshapen]
    entries = sorted(schedule)
    mistakes = [text for entry in entries for text in _entry_mistakes(entry, where)]
    if mistakes:
        return mistakes
    mistakes = [
        f"{where}: {json.dumps(a)} and {json.dumps(b)} overlap; a batch size has one K"
        for a, b in pairwise(entries)
        if b[0] <= a[1]
    ]
    if entries[0][0] != 1:
        mistakes.append(
            f"{where}: starts at batch size {entries[0][0]}; the first range must start at 1"
        )
    if not any(k for _, _, k in entries):
        mistakes.append(f"{where}: K is 0 everywhere, so nothing is ever drafted; use method=none")
    return mistakes


def canonical(schedule: list[list[int]], gamma: int | None) -> list[list[int]]:
    """``[[first, K], …]``: from which batch size on how many tokens are drafted.

    Gaps and the tail keep the K before them, K is cut to γ, ranges of equal K are one: two
    schedules that do the same are equal.
    """
    steps: list[list[int]] = []
    for first, _, k in sorted(schedule):
        cut = k if gamma is None else min(k, gamma)
        if not steps or steps[-1][1] != cut:
            steps.append([first, cut])
    return steps


def schedule_warnings(
    schedule: list[list[int]], gamma: int, batch: int | None, where: str
) -> list[str]:
    """What works and is probably not what was meant.

    batch is the most requests the load keeps under way, None where it has no bound.
    """
    warnings = []
    above = sorted({k for _, _, k in schedule if k > gamma})
    if above:
        warnings.append(f"{where}: K={above[-1]} is cut to γ={gamma}; raise gamma")
    unreached = [] if batch is None else [e for e in sorted(schedule) if e[0] > batch]
    if unreached:
        warnings.append(
            f"{where}: this load has at most {batch} requests under way, so "
            f"{json.dumps(unreached[0])} and later ranges are never used"
        )
    return warnings


def _is_entry(entry: Json) -> bool:
    return (
        isinstance(entry, list)
        and len(entry) == 3
        and all(isinstance(n, int) and not isinstance(n, bool) for n in entry)
    )


def _entry_mistakes(entry: list[int], where: str) -> list[str]:
    first, last, k = entry
    shown = f"{where}: {json.dumps(entry)}"
    if first < 1 or last < 1:
        return [f"{shown}: batch sizes are at least 1"]
    if first > last:
        return [f"{shown}: the range ends before it starts"]
    return [f"{shown}: K is at least 0 (0 drafts nothing)"] if k < 0 else []
