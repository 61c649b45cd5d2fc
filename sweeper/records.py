"""Lines of ``requests.jsonl`` as values, their token ids read or left as they are."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from sweeper.values import RequestRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread(RequestRecord):
    """A record whose token ids are still as its line has them; :func:`ids_of` reads them.

    There is one for every token of an answer, and of two answers that are equal nobody needs to
    know them.
    """

    token_ids: msgspec.Raw  # type: ignore[assignment]


_NO_IDS = msgspec.Raw(b"null")
RECORDS = msgspec.json.Decoder(RequestRecord)
UNREAD = msgspec.json.Decoder(Unread)
_IDS = msgspec.json.Decoder(tuple[int, ...] | None)


def ids_of(record: RequestRecord) -> tuple[int, ...] | None:
    """The token ids of an answer, read or not; ``None`` where there are none."""
    if not isinstance(record, Unread):
        return record.token_ids
    try:
        return _IDS.decode(record.token_ids)
    except msgspec.MsgspecError:  # something else stands there
        return None


def same_ids(one: RequestRecord, other: RequestRecord) -> bool | None:
    """Whether two answers have the same token ids; ``None`` where one has none."""
    if (
        isinstance(one, Unread)
        and isinstance(other, Unread)
        and one.token_ids == other.token_ids != _NO_IDS
    ):
        return True
    mine, theirs = ids_of(one), ids_of(other)
    return None if mine is None or theirs is None else mine == theirs
