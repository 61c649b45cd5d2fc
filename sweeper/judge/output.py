"""Is the output still right? What a point's answers are beside those of its baseline.

Greedy answers are compared token by token, sampled ones by the distribution they come from, and
both by how many of them solve their task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import pdtrc

from sweeper.judge.bootstrap import Figure, undefined
from sweeper.judge.distribution import Sampled
from sweeper.judge.noise import Noise, gap
from sweeper.judge.quality import QualityFigures
from sweeper.judge.speedup import Pair, same_output, share_of
from sweeper.values import RequestRecord

OutputState = Literal["right", "numerical", "wrong", "not measured"]
DivergenceKind = Literal["numerical", "wrong", "not scored"]
SHOWN = 3
"""Divergences that are shown as text."""
KINDS: tuple[DivergenceKind, ...] = ("wrong", "numerical", "not scored")
ALPHA = 0.001
"""Chance of calling an output wrong that is right, of the test by number."""
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
    ``compared`` is the number of prompts whose greedy answers stood beside the baseline's;
    ``divergences`` has every prompt whose answer differs, the worst first. ``noise`` is the largest
    gap, in nats, that the baseline's own noise explains. ``p_value`` is that of the distribution
    test. ``quality`` is the share of answers that solve their task, ``quality_change`` the
    difference of that share to the baseline's, ``quality_p`` of the exact paired test.
    """

    state: OutputState
    sentence: str
    identical_share: Figure
    compared: int = 0
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


def no_output_check(reason: str, quality: QualityFigures) -> OutputCheck:
    """No answers were compared, and why."""
    none = undefined(reason)
    return OutputCheck(
        state="not measured",
        sentence=f"not measured: {reason}",
        identical_share=none,
        noise=none,
        p_value=none,
        quality=quality.share,
        quality_change=quality.change,
        quality_p=quality.p_value,
    )


def output_check(
    pairs: Sequence[Pair],
    *,
    greedy: bool,
    seed: int,
    floor: Noise,
    quality: QualityFigures,
    sampled: Sampled,
) -> OutputCheck:
    """The check of one point; ``pairs`` are the baseline's answers and the point's."""
    if not greedy:
        return _of_samples(sampled, quality)
    equal = [same_output(base, other) for base, other in pairs]
    differing = [one for one, alike in zip(pairs, equal, strict=True) if not alike]
    same = share_of(pairs, equal, seed=seed)
    if same.value is None:
        return no_output_check(same.reason, quality)
    found = _divergences(differing, floor)
    state, sentence = _greedy(found, pairs, floor)
    return OutputCheck(
        state=state,
        sentence=sentence,
        identical_share=same,
        compared=len({other.prompt_id for _, other in pairs}),
        divergences=found,
        noise=undefined(floor.problem) if floor.problem else Figure(value=floor.explains),
        p_value=undefined("greedy answers are compared token by token"),
        quality=quality.share,
        quality_change=quality.change,
        quality_p=quality.p_value,
    )


def _of_samples(sampled: Sampled, quality: QualityFigures) -> OutputCheck:
    return OutputCheck(
        state=sampled.state,
        sentence=sampled.sentence,
        identical_share=undefined("sampled output: strings differ even when distributions agree"),
        noise=undefined("sampled output is compared by its distribution"),
        p_value=sampled.p_value,
        quality=quality.share,
        quality_change=quality.change,
        quality_p=quality.p_value,
    )


def _greedy(
    found: Sequence[Divergence], pairs: Sequence[Pair], floor: Noise
) -> tuple[OutputState, str]:
    prompts = len({c.prompt_id for _, c in pairs})
    if not found:
        return "right", f"all {prompts} greedy answers are the baseline's, token for token"
    said = f"{len(found)} of {prompts} greedy answers differ from the baseline's"
    judged = [d for d in found if d.kind != "not scored"]
    if not judged:
        return "not measured", f"not measured: {said}, and {floor.problem or 'none was scored'}"
    noise = f"the baseline's own noise reaches {floor.explains:.2g} nats"
    wrong = [d for d in judged if d.kind == "wrong"]
    if wrong:
        return "wrong", f"{said}, {len(wrong)} of them {_worst(wrong)}; {noise}"
    expected, p = _excess(judged, pairs, floor)
    largest = max(abs(d.gap or 0.0) for d in judged)
    rest = len(found) - len(judged)
    sentence = (
        f"{said}, each at a near tie (gaps up to {largest:.2g} nats); {noise} and would change "
        f"about {expected:.1f} answers (p={p:.2g})" + (f"; {rest} not scored" if rest else "")
    )
    if p < ALPHA:
        return "wrong", f"{sentence}: too many for rounding alone"
    return "numerical", sentence


def _worst(wrong: Sequence[Divergence]) -> str:
    gaps = [d for d in wrong if d.gap is not None]
    if not gaps:
        return "end where the baseline's goes on"
    more = "more than " if gaps[0].at_least else ""
    return f"with a token up to {more}{gaps[0].gap:.2g} nats less likely than the baseline's"


def _excess(
    judged: Sequence[Divergence], pairs: Sequence[Pair], floor: Noise
) -> tuple[float, float]:
    """How many answers rounding would change, and the chance that it changes as many as differ.

    An answer is at risk until it differs. The risks all answers have met add up to the mean of a
    Poisson distribution, which the number of those that differ then has.
    """
    left = {d.prompt_id: d.position for d in judged}
    expected = met = 0.0
    for prompt in {c.prompt_id for _, c in pairs} & floor.turns.keys():
        turns, at = floor.turns[prompt], left.get(prompt)
        if len(turns):
            expected += 1.0 - float(np.exp(-turns[-1]))
            met += float(turns[-1 if at is None else min(at, len(turns) - 1)])
    return expected, float(pdtrc(len(judged) - 1, met))


def _divergences(differing: Sequence[Pair], floor: Noise) -> tuple[Divergence, ...]:
    """The first differing answer of every prompt that has one, the largest gap first."""
    first: dict[str, Pair] = {}
    for base, other in differing:
        first.setdefault(other.prompt_id, (base, other))
    found = (_divergence(base, other, floor) for base, other in first.values())
    return tuple(sorted(found, key=lambda d: (KINDS.index(d.kind), -(d.gap or 0.0))))


def _divergence(base: RequestRecord, other: RequestRecord, floor: Noise) -> Divergence:
    at = _position(base.token_ids, other.token_ids)
    kind, size, at_least = _kind(base, other, at, floor)
    shared = _start_of_word(base.text, _first_difference(base.text, other.text))
    return Divergence(
        prompt_id=other.prompt_id,
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
    scored = floor.answers.get(other.prompt_id)
    if scored is None or at is None or base.token_ids != scored.token_ids:
        return "not scored", None, False
    ours, theirs = _token(base, at), _token(other, at)
    if ours is None or theirs is None:
        return "wrong", None, False
    size, at_least = gap(scored.near[at], ours, theirs)
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
    if at is None or record.token_ids is None or at >= len(record.token_ids):
        return None
    return record.token_ids[at]
