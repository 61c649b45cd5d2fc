"""Where greedy answers leave those of the baseline, and whether rounding explains it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sweeper.judge.noise import Noise, gap
from sweeper.judge.speedup import Pair
from sweeper.records import ids_of
from sweeper.values import RequestRecord

DivergenceKind = Literal["numerical", "wrong", "not scored"]
KINDS: tuple[DivergenceKind, ...] = ("wrong", "numerical", "not scored")
SHOWN_BEFORE, SHOWN_AFTER = 80, 80
"""Characters of an answer before and after a divergence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """The first token at which an answer leaves the baseline's.

    ``position`` counts answer tokens from 0, ``None`` where the servers gave no ids. ``gap`` is
    the baseline's own log-probability of its token minus that of the other, in nats, both after
    the tokens the answers share; ``at_least`` says that the other is not among the scored tokens
    and the gap is larger than ``gap``. A token of ``None``: that answer has ended. The texts are
    what was said before and after, cut short.
    """

    prompt_id: str
    turn: int
    repeat: int
    position: int | None
    gap: float | None
    at_least: bool
    kind: DivergenceKind
    baseline_token: int | None
    token: int | None
    before: str
    baseline_text: str
    text: str


def divergences(differing: Sequence[Pair], floor: Noise) -> tuple[Divergence, ...]:
    """Of every answer that differs, the wrong ones and the largest gaps first."""
    found = (_divergence(base, other, floor) for base, other in differing)
    return tuple(sorted(found, key=lambda d: (KINDS.index(d.kind), -(d.gap or 0.0))))


def worst_of_each(found: Sequence[Divergence]) -> tuple[Divergence, ...]:
    """The first of ``found`` of every prompt, in the same order."""
    first: dict[str, Divergence] = {}
    for one in found:
        first.setdefault(one.prompt_id, one)
    return tuple(first.values())


def is_scored(base: RequestRecord, floor: Noise) -> bool:
    """Whether this very answer of the baseline was scored; only first turns are."""
    scored = floor.answers.get(base.prompt_id)
    return scored is not None and not base.turn and ids_of(base) == scored.token_ids


def _divergence(base: RequestRecord, other: RequestRecord, floor: Noise) -> Divergence:
    at = _position(ids_of(base), ids_of(other))
    kind, size, at_least = _kind(base, other, at, floor)
    shared = _start_of_word(base.text, _first_difference(base.text, other.text))
    return Divergence(
        prompt_id=other.prompt_id,
        turn=other.turn,
        repeat=other.repeat,
        position=at,
        gap=size,
        at_least=at_least,
        kind=kind,
        baseline_token=_token(base, at),
        token=_token(other, at),
        before=base.text[max(0, shared - SHOWN_BEFORE) : shared],
        baseline_text=base.text[shared : shared + SHOWN_AFTER],
        text=other.text[shared : shared + SHOWN_AFTER],
    )


def _kind(
    base: RequestRecord, other: RequestRecord, at: int | None, floor: Noise
) -> tuple[DivergenceKind, float | None, bool]:
    """An answer that stops without a token that ends it is wrong: rounding chooses tokens."""
    if at is None or not is_scored(base, floor):
        return "not scored", None, False
    ours, theirs = _token(base, at), _token(other, at)
    if ours is None or theirs is None:
        return "wrong", None, False
    size, at_least = gap(floor.answers[base.prompt_id].near[at], ours, theirs)
    if size > floor.explains:
        return "wrong", size, at_least
    return ("not scored" if at_least else "numerical"), size, at_least


def _position(one: Sequence[int] | None, other: Sequence[int] | None) -> int | None:
    if one is None or other is None:
        return None
    return _first_difference(one, other)


def _first_difference(one: Sequence[object], other: Sequence[object]) -> int:
    differing = (n for n, (x, y) in enumerate(zip(one, other, strict=False)) if x != y)
    return next(differing, min(len(one), len(other)))


def _start_of_word(text: str, end: int) -> int:
    """Where the word around ``end`` begins, so that nobody has to read half of it."""
    return end - len(text[:end].split(" ")[-1].split("\n")[-1])


def _token(record: RequestRecord, at: int | None) -> int | None:
    ids = ids_of(record)
    return None if at is None or ids is None or at >= len(ids) else ids[at]
