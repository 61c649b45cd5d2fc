"""Acceptance of one point in parts: by the category of the prompt, by the length so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sweeper.judge.bootstrap import Figure, resample, undefined
from sweeper.measure.windows import by_length
from sweeper.values import RequestRecord

NO_CATEGORY = "(none)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """``requests`` of one category, or the steps of all requests within one range of lengths.

    ``requests`` is ``None`` of a range: a request grows through several.
    """

    name: str
    requests: int | None
    drafted: int
    acceptance_rate: Figure
    mean_acceptance_length: Figure


def categories(records: Sequence[RequestRecord], *, seed: int) -> tuple[Part, ...]:
    """One slice a category, in order of appearance; none where no prompt has one."""
    found: dict[str, list[RequestRecord]] = {}
    for record in (r for r in records if not r.error):
        found.setdefault(record.category or NO_CATEGORY, []).append(record)
    if set(found) <= {NO_CATEGORY}:
        return ()
    return tuple(_category(name, each, seed) for name, each in found.items())


def _category(name: str, records: Sequence[RequestRecord], seed: int) -> Part:
    counted = [(r.prompt_id, r.spec) for r in records if r.spec is not None]
    rows = (
        (prompt, {"S": s.verify_steps, "D": s.drafted, "A": s.accepted}) for prompt, s in counted
    )
    boot = resample(rows, names=("S", "D", "A"), seed=seed)
    drafted = int(boot.total["D"])
    none = undefined("no drafts" if counted else "no per-request metrics")
    return Part(
        name=name,
        requests=len(records),
        drafted=drafted,
        acceptance_rate=boot.figure(lambda s: s["A"] / s["D"]) if drafted else none,
        mean_acceptance_length=boot.figure(lambda s: 1 + s["A"] / s["S"]) if drafted else none,
    )


def lengths(records: Sequence[RequestRecord]) -> tuple[Part, ...]:
    """One slice a range of tokens of prompt and answer so far; only those with drafts."""
    return tuple(
        Part(
            name=f"{w.start:g} to {w.end:g} tokens",
            requests=None,
            drafted=w.drafted,
            acceptance_rate=Figure(value=w.accepted / w.drafted),
            mean_acceptance_length=Figure(value=1 + w.accepted / w.verify_steps),
        )
        for w in by_length(records)
        if w.drafted and w.verify_steps
    )
