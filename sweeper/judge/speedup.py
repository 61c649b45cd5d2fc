"""A point against its baseline, paired request by request.

A pair is the same prompt, turn and repeat answered by both; requests that failed in either arm
drop out of both, so an arm cannot look faster by refusing the slow ones. Prompts, not requests,
are resampled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sweeper.judge.bootstrap import RESAMPLES, Figure, resample, undefined
from sweeper.values import RequestRecord

Pair = tuple[RequestRecord, RequestRecord]
"""The baseline's request and the candidate's."""

_TIMES = ("base_s", "base_tokens", "s", "tokens")


def pair(baseline: Sequence[RequestRecord], candidate: Sequence[RequestRecord]) -> tuple[Pair, ...]:
    """Requests that succeeded in both arms, in the candidate's order."""
    base = {(r.prompt_id, r.turn, r.repeat): r for r in baseline if not r.error}
    found = ((base.get((r.prompt_id, r.turn, r.repeat)), r) for r in candidate if not r.error)
    return tuple((b, r) for b, r in found if b is not None)


def output_rate_ratio(pairs: Sequence[Pair], *, seed: int, resamples: int = RESAMPLES) -> Figure:
    """Candidate's tokens per second over the baseline's: the table's speed-up."""

    def ratio(s: dict[str, float]) -> float:
        return (s["tokens"] / s["s"]) / (s["base_tokens"] / s["base_s"])

    return _ratio(pairs, ratio, seed, resamples)


def request_time_ratio(pairs: Sequence[Pair], *, seed: int, resamples: int = RESAMPLES) -> Figure:
    """The baseline's summed request time over the candidate's; above 1 is faster."""
    return _ratio(pairs, lambda s: s["base_s"] / s["s"], seed, resamples)


def identical_share(pairs: Sequence[Pair], *, greedy: bool, seed: int) -> Figure:
    """Share of the pairs with the same output: token ids, or text where an arm has no ids.

    Only for greedy sampling. A drafting server draws other random numbers than a plain one, so
    at a temperature even equal distributions give different strings.
    """
    if not greedy:
        return undefined("sampled output: strings differ even when distributions agree")
    if not pairs:
        return undefined("no prompt in common with the baseline")
    rows = ((c.prompt_id, {"n": 1, "same": float(same_output(b, c))}) for b, c in pairs)
    return resample(rows, names=("n", "same"), seed=seed).figure(lambda s: s["same"] / s["n"])


def rendered_differently(pairs: Sequence[Pair]) -> int:
    """How many prompts of the pairs reached the two servers as different text.

    Of several turns that is the first: later ones hold the model's own answers.
    """
    digests = ((b.prompt_id, b.prompt_digest, c.prompt_digest) for b, c in pairs if not c.turn)
    return len({prompt for prompt, x, y in digests if x and y and x != y})


def same_history(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """The pairs whose prompts are equal: a later turn holds earlier answers, which may differ.

    Where a server does not say what it rendered, the earlier answers themselves are compared.
    """
    differ = {_at(c, c.turn) for b, c in pairs if not same_output(b, c)}
    return tuple((b, c) for b, c in pairs if not c.turn or _same_prompt(b, c, differ))


def _same_prompt(
    base: RequestRecord, one: RequestRecord, differ: set[tuple[str, int, int]]
) -> bool:
    if base.prompt_digest and one.prompt_digest:
        return base.prompt_digest == one.prompt_digest
    return not any(_at(one, turn) in differ for turn in range(one.turn))


def _at(record: RequestRecord, turn: int) -> tuple[str, int, int]:
    return record.prompt_id, record.repeat, turn


def same_output(one: RequestRecord, other: RequestRecord) -> bool:
    """Token for token where both servers gave ids, else by text."""
    if one.token_ids is None or other.token_ids is None:
        return one.text == other.text
    return one.token_ids == other.token_ids


def _ratio(
    pairs: Sequence[Pair], formula: Callable[..., float], seed: int, resamples: int
) -> Figure:
    common = len({c.prompt_id for _, c in pairs})
    if common < 2:
        return undefined(f"{common} prompts in common with the baseline, 2 are needed")
    rows = ((c.prompt_id, _times(b, c)) for b, c in pairs)
    return resample(rows, names=_TIMES, seed=seed, resamples=resamples).figure(formula)


def _times(base: RequestRecord, candidate: RequestRecord) -> dict[str, float]:
    return {
        "base_s": base.request_time_s,
        "base_tokens": base.completion_tokens or 0,
        "s": candidate.request_time_s,
        "tokens": candidate.completion_tokens or 0,
    }
