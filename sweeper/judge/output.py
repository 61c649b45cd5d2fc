"""Is the output still right? What a point's answers are beside those of its baseline.

Greedy answers are compared token by token, sampled ones by the distribution they come from, and
both by how many of them solve their task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import pdtrc

from sweeper.judge.bootstrap import Figure, undefined
from sweeper.judge.distribution import Sampled
from sweeper.judge.divergence import Divergence, divergences, is_scored, worst_of_each
from sweeper.judge.noise import Noise
from sweeper.judge.quality import QualityFigures
from sweeper.judge.speedup import Pair, same_output, share_of

OutputState = Literal["right", "numerical", "wrong", "not measured"]
SHOWN = 3
"""Divergences that are shown as text."""
ALPHA = 0.001
"""Chance of calling an output wrong that is right, of the test by number."""
MOST_UNSCORED = 0.5
"""Share of the differing answers up to which some may be left unscored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputCheck:
    """The answer to "is the output still right", and what it rests on.

    ``right``: nothing speaks against it; ``numerical``: greedy answers differ, by no more than the
    baseline differs from itself; ``wrong``: by more than that, or the sampling test says so.
    ``sentence`` says it in words, with numbers or with the reason why it was not measured.
    ``compared`` is the number of prompts whose greedy answers stood beside the baseline's;
    ``divergences`` has the worst of every prompt with an answer that differs, the worst first.
    ``noise`` is the largest gap, in nats, that the baseline's own noise explains. ``p_value`` is
    that of the distribution test. ``quality`` is the share of answers that solve their task,
    ``quality_change`` the difference of that share to the baseline's, ``quality_p`` of the exact
    paired test.
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
    found = divergences(differing, floor)
    state, sentence = _greedy(found, pairs, floor)
    return OutputCheck(
        state=state,
        sentence=sentence,
        identical_share=same,
        compared=len({other.prompt_id for _, other in pairs}),
        divergences=worst_of_each(found),
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
    """``found`` has every answer that differs. What is wrong in one is wrong."""
    if not found:
        return "right", f"all {len(pairs)} greedy answers are the baseline's, token for token"
    said = f"{len(found)} of {len(pairs)} greedy answers differ from the baseline's"
    judged = [d for d in found if d.kind != "not scored"]
    if not judged:
        return "not measured", f"not measured: {said}, and {floor.problem or 'none was scored'}"
    noise = f"the baseline's own noise reaches {floor.explains:.2g} nats"
    wrong = [d for d in judged if d.kind == "wrong"]
    if wrong:
        return "wrong", f"{said}, {len(wrong)} of them {_worst(wrong)}; {noise}"
    expected, p = _excess(found, pairs, floor)
    largest = max(abs(d.gap or 0.0) for d in judged)
    rest = len(found) - len(judged)
    sentence = (
        f"{said}, each at a near tie (gaps up to {largest:.2g} nats); {noise} and would change "
        f"about {expected:.1f} answers (p={p:.2g})" + (f"; {rest} not scored" if rest else "")
    )
    if p < ALPHA:
        return "wrong", f"{sentence}: too many for rounding alone"
    if rest > MOST_UNSCORED * len(found):
        missing = _unscored(found, pairs, floor)
        return "not measured", f"not measured: {said}, and {rest} of them were not scored{missing}"
    return "numerical", sentence


def _unscored(found: Sequence[Divergence], pairs: Sequence[Pair], floor: Noise) -> str:
    """What would score the answers that differ, if anything does."""
    unasked = [d for d in found if not d.turn and d.prompt_id not in floor.answers]
    if unasked:
        prompts = len({other.prompt_id for _, other in pairs})
        return f"; check.prompts={prompts} scores an answer to every prompt"
    return ": only first turns are, as the baseline first answered them"


def _worst(wrong: Sequence[Divergence]) -> str:
    gaps = [d for d in wrong if d.gap is not None]
    if not gaps:
        return "end where the baseline's goes on"
    more = "more than " if gaps[0].at_least else ""
    return f"with a token up to {more}{gaps[0].gap:.2g} nats less likely than the baseline's"


def _excess(
    found: Sequence[Divergence], pairs: Sequence[Pair], floor: Noise
) -> tuple[float, float]:
    """How many answers rounding would change, and the chance that it changes as many as differ.

    An answer is at risk until it differs. The risks that the answers of one repeat have met add up
    to the mean of a Poisson distribution, which the number of those that differ then has. Repeats
    may well round alike, so their numbers are not added: the least of their chances counts, times
    how many there are (Bonferroni).
    """
    left = {(d.prompt_id, d.repeat): d for d in found if not d.turn}
    expected, met, differing = 0.0, dict[int, float](), Counter[int]()
    for base, other in pairs:
        if not is_scored(base, floor) or not len(turns := floor.turns[base.prompt_id]):
            continue
        one = left.get((other.prompt_id, other.repeat))
        at = len(turns) - 1 if one is None or one.position is None else one.position
        expected += 1.0 - float(np.exp(-turns[-1]))
        risk = float(turns[min(at, len(turns) - 1)])
        met[other.repeat] = met.get(other.repeat, 0.0) + risk
        differing[other.repeat] += one is not None and one.kind != "not scored"
    chances = [float(pdtrc(differing[n] - 1, met[n])) if differing[n] else 1.0 for n in met]
    return expected, min(1.0, len(chances) * min(chances, default=1.0))
