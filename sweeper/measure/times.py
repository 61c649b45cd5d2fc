"""Times of one request.

For a streamed answer of n tokens (n from ``usage``, never from chunks):

- TTFT: sending to the first byte of the first event with tokens.
- E2E: sending to the first byte of the last event with tokens; not streamed, to the last byte.
- TPOT: (E2E - TTFT) / (n - 1); answers of one token have none and are counted.
- chunk gap: between two events with tokens. One event may bring several tokens, so a gap is not
  a time per token, and gaps must not be compared between methods.

Several answers to one request share its stream, so nothing after its first token is the time of
one of them: such a request has no TPOT and no chunk gaps.
"""

from __future__ import annotations

from dataclasses import replace

from sweeper.values import RequestRecord

SHARED_STREAM = "several answers share a stream"


def ttft_ms(record: RequestRecord) -> float | None:
    """``None`` where the answer was not streamed."""
    return record.chunk_ns[0] / 1e6 if record.chunk_ns else None


def e2e_ms(record: RequestRecord) -> float:
    total = sum(record.chunk_ns) if record.chunk_ns else record.done_ns - record.sent_ns
    return total / 1e6


def tpot_ms(record: RequestRecord) -> float | None:
    """``None`` for answers of one token, several answers, and what was not streamed."""
    tokens = record.completion_tokens or 0
    if not record.chunk_ns or tokens < 2 or record.answers > 1:
        return None
    return sum(record.chunk_ns[1:]) / 1e6 / (tokens - 1)


def chunk_gaps_ns(record: RequestRecord) -> tuple[int, ...]:
    """Empty where the answer was not streamed, and of several answers."""
    if record.answers > 1:
        return ()
    return (record.chunk_ns or ())[1:]


def later(record: RequestRecord, shift_ns: int) -> RequestRecord:
    """The record of a later repeat, counted from the start of the point's first."""
    if not shift_ns:
        return record
    return replace(
        record,
        sent_ns=record.sent_ns + shift_ns,
        done_ns=record.done_ns + shift_ns,
        first_ns=None if record.first_ns is None else record.first_ns + shift_ns,
        due_ns=None if record.due_ns is None else record.due_ns + shift_ns,
    )


def late_ms(record: RequestRecord) -> float | None:
    """How much later than planned it was sent; ``None`` where the load plans no times."""
    return None if record.due_ns is None else (record.sent_ns - record.due_ns) / 1e6
