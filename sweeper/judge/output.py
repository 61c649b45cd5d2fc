"""Is the output still right? What a point's answers are beside those of its baseline.

Greedy answers are compared token by token, sampled ones by the distribution they come from, and
both by how many of them solve their task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sweeper.judge.bootstrap import Figure, undefined
from sweeper.judge.speedup import Pair, identical_share, same_output
from sweeper.values import RequestRecord

OutputState = Literal["right", "numerical", "wrong", "not measured"]
DivergenceKind = Literal["numerical", "wrong", "not scored"]
SHOWN = 3
"""Divergences that are shown as text."""
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
    position: int | None
    gap: float | None
    at_least: bool
    kind: DivergenceKind
    baseline_token: int | None
    token: int | None
    before: str
    baseline_text: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputCheck:
    """The answer to "is the output still right", and what it rests on.

    ``right``: nothing speaks against it; ``numerical``: greedy answers differ, by no more than the
    baseline differs from itself; ``wrong``: by more than that, or the sampling test says so.
    ``sentence`` says it in words, with numbers or with the reason why it was not measured.
    ``divergences`` has every prompt whose answer differs, the worst first. ``noise`` is the largest
    gap, in nats, that the baseline's own noise explains. ``p_value`` is that of the distribution
    test. ``quality`` is the share of answers that solve their task, ``quality_change`` the
    difference of that share to the baseline's, ``quality_p`` of the exact paired test.
    """

    state: OutputState
    sentence: str
    identical_share: Figure
    divergences: tuple[Divergence, ...] = ()
    noise: Figure
    p_value: Figure
    quality: Figure
    quality_change: Figure
    quality_p: float | None = None

    @property
    def worst(self) -> tuple[Divergence, ...]:
        """The divergences to show as text."""
        return self.divergences[:SHOWN]


def no_output_check(reason: str) -> OutputCheck:
    """Nothing was compared, and why."""
    none = undefined(reason)
    return OutputCheck(
        state="not measured",
        sentence=f"not measured: {reason}",
        identical_share=none,
        noise=none,
        p_value=none,
        quality=none,
        quality_change=none,
    )


def output_check(pairs: Sequence[Pair], *, greedy: bool, seed: int) -> OutputCheck:
    """The check of one point; ``pairs`` are the baseline's answers and the point's."""
    same = identical_share(pairs, greedy=greedy, seed=seed)
    if same.value is None:
        return no_output_check(same.reason)
    found = divergences(pairs)
    state: OutputState = "not measured" if found else "right"
    return OutputCheck(
        state=state,
        sentence=_sentence(len(found), len({c.prompt_id for _, c in pairs})),
        identical_share=same,
        divergences=found,
        noise=undefined("the baseline's answers were not scored"),
        p_value=undefined("greedy answers are compared token by token"),
        quality=undefined("no quality was asked for"),
        quality_change=undefined("no quality was asked for"),
    )


def _sentence(differing: int, prompts: int) -> str:
    if not differing:
        return f"all {prompts} greedy answers are the baseline's, token for token"
    return (
        f"not measured: {differing} of {prompts} greedy answers differ from the baseline's, and "
        "its answers were not scored"
    )


def divergences(pairs: Sequence[Pair]) -> tuple[Divergence, ...]:
    """The first differing answer of every prompt that has one."""
    first: dict[str, Pair] = {}
    for base, other in pairs:
        if not same_output(base, other):
            first.setdefault(other.prompt_id, (base, other))
    return tuple(_divergence(base, other) for base, other in first.values())


def _divergence(base: RequestRecord, other: RequestRecord) -> Divergence:
    at = _position(base.token_ids, other.token_ids)
    shared = _first_difference(base.text, other.text)
    return Divergence(
        prompt_id=other.prompt_id,
        position=at,
        gap=None,
        at_least=False,
        kind="not scored",
        baseline_token=_token(base, at),
        token=_token(other, at),
        before=base.text[max(0, shared - SHOWN_BEFORE) : shared],
        baseline_text=base.text[shared : shared + SHOWN_AFTER],
        text=other.text[shared : shared + SHOWN_AFTER],
    )


def _position(one: Sequence[int] | None, other: Sequence[int] | None) -> int | None:
    if one is None or other is None:
        return None
    return _first_difference(one, other)


def _first_difference(one: Sequence[object], other: Sequence[object]) -> int:
    differing = (n for n, (x, y) in enumerate(zip(one, other, strict=False)) if x != y)
    return next(differing, min(len(one), len(other)))


def _token(record: RequestRecord, at: int | None) -> int | None:
    if at is None or record.token_ids is None or at >= len(record.token_ids):
        return None
    return record.token_ids[at]
