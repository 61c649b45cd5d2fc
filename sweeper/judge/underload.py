"""The speed-up under a load in which requests overlap and are streamed.

There a request's time is mostly that of its neighbours, and its rate says little. What a user of
the server sees is the time per output token, and what the operator sees is the output of the whole
server: the first is paired by prompt and is the table's speed-up, the second stands beside it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sweeper.judge.bootstrap import RESAMPLES, Figure, resample, undefined
from sweeper.judge.speedup import Pair
from sweeper.measure.throughput import throughput
from sweeper.measure.times import tpot_ms
from sweeper.values import Load, Point, RequestRecord

BY_TPOT = "TPOT"
BY_OUTPUT_RATE = "output rate"

_NAMES = ("base_ms", "base_tokens", "ms", "tokens")


def speedup_by(point: Point) -> str:
    """What the speed-up of a point divides: several answers to a request have no TPOT."""
    load = point.load
    timed = load.overlapping and load.stream and point.sampling.n == 1
    return BY_TPOT if timed else BY_OUTPUT_RATE


def tpot_ratio(pairs: Sequence[Pair], *, seed: int, resamples: int = RESAMPLES) -> Figure:
    """The baseline's TPOT over the candidate's, pooled: decode times and tokens after the first
    are summed over the pairs, then divided. Pairs in which an answer has one token have no TPOT."""
    timed = [(b, c) for b, c in pairs if tpot_ms(b) is not None and tpot_ms(c) is not None]
    common = len({c.prompt_id for _, c in timed})
    if common < 2:
        return undefined(f"{common} prompts with a TPOT in common with the baseline, 2 are needed")
    rows = (
        (c.prompt_id, dict(zip(_NAMES, (*_decode(b), *_decode(c)), strict=True))) for b, c in timed
    )
    boot = resample(rows, names=_NAMES, seed=seed, resamples=resamples)
    return boot.figure(lambda s: (s["base_ms"] / s["base_tokens"]) / (s["ms"] / s["tokens"]))


def _decode(record: RequestRecord) -> tuple[float, int]:
    """Milliseconds from the first token to the last, and tokens after the first."""
    tokens = (record.completion_tokens or 0) - 1
    return (tpot_ms(record) or 0.0) * tokens, tokens


def throughput_ratio(
    baseline: Sequence[RequestRecord], candidate: Sequence[RequestRecord], load: Load
) -> Figure:
    """The candidate's output tokens per second of its measuring window over the baseline's."""
    base, ours = throughput(baseline, load), throughput(candidate, load)
    if not base.output_tokens_per_s or ours.output_tokens_per_s is None:
        return undefined(base.reason or ours.reason or "the baseline put out nothing")
    ratio = ours.output_tokens_per_s / base.output_tokens_per_s
    return Figure(value=ratio, reason="two windows have no interval")
