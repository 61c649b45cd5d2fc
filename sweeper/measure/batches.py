"""What is written of a rollout batch: its line in the log, and a record for each sequence."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TypeVar

from sweeper.drive.client import digest_of
from sweeper.drive.rollout import Answer, Sample
from sweeper.measure.counters import Counters
from sweeper.values import Load, Prompt, RequestRecord, RolloutBatch

TAIL = 0.1
"""The share of a batch's sequences whose end is its tail; the last one at least."""

T = TypeVar("T")
Tokens = tuple[int, ...]


def batch_of(
    load: Load, number: int, prompts: int, answer: Answer, change: Counters | None
) -> RolloutBatch:
    """Its line in the rollout log; ``change`` is what the counters moved by meanwhile."""
    return RolloutBatch(
        policy_version=load.policy_version,
        batch=number,
        prompts=prompts,
        sequences=len(answer.sequences) or None,
        seconds=round(answer.seconds, 6),
        tokens=tokens_in(answer) or None,
        tail_s=tail_s(answer),
        error=answer.error,
        **_counted(change),
    )


def tokens_in(answer: Answer) -> int:
    """Generated tokens of all its sequences."""
    return sum(len(sample.token_ids) for sample in answer.sequences)


def tail_s(answer: Answer) -> float | None:
    """Seconds in which only the last tenth of the sequences (at least one) was still under way.

    Seen at the polls only, so up to one ``poll_s`` too short; ``None`` where no poll saw it.
    """
    few = max(1, math.floor(TAIL * len(answer.sequences)))
    # Before its first step is over a server may not count a batch at all.
    begun = next((n for n, (_, left) in enumerate(answer.under_way) if left > few), None)
    if begun is None or not answer.sequences:
        return None
    tail = (at for at, left in answer.under_way[begun:] if left <= few)
    return round(answer.seconds - next(tail, answer.seconds), 6)


def records_of(
    answer: Answer, some: Sequence[Prompt], listed: Sequence[Tokens], n: int, repeat: int
) -> Iterator[RequestRecord]:
    """One record a sequence; of a failed batch, one a sequence that was asked for."""
    empty = Sample(token_ids=(), logprobs=None, finish_reason=None, text="")
    samples = answer.sequences or (empty,) * (n * len(some))
    owners = zip(each(some, n), each(listed, n), samples, strict=True)
    for number, (prompt, ids, sample) in enumerate(owners):
        yield RequestRecord(
            prompt_id=prompt.id,
            category=prompt.category,
            repeat=repeat * n + number % n,
            turn=0,
            sent_ns=answer.sent_ns,
            first_ns=None,
            done_ns=answer.done_ns,
            prompt_tokens=len(ids),
            cached_tokens=None,
            completion_tokens=len(sample.token_ids) if not answer.error else None,
            finish_reason=sample.finish_reason,
            spec=None,
            decode_steps=None,
            text=sample.text.encode("utf-8", "replace").decode(),
            token_ids=sample.token_ids if not answer.error else None,
            prompt_digest=digest_of(ids),
            error=answer.error,
        )


def each(items: Sequence[T], n: int) -> list[T]:
    """Every item n times in a row, as choices come back."""
    return [item for item in items for _ in range(n)]


def _counted(change: Counters | None) -> dict[str, int | None]:
    """The counters' part of a batch by the names it has there."""
    found = {
        "drafts": change and change.verify_steps,
        "drafted": change and change.drafted,
        "accepted": change and change.accepted,
        "decode_steps": change and change.decode_steps,
    }
    return {name: int(v) if isinstance(v, float) else None for name, v in found.items()}
