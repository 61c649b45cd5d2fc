"""The speed-up under a load in which requests overlap and are streamed.

There a request's time is mostly that of its neighbours, and its rate says little. What a user of
the server sees is the time per output token, and what the operator sees is the output of the whole
server: the first is paired by prompt and is the table's speed-up, the second stands beside it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sweeper.judge.bootstrap import Figure, undefined
from sweeper.measure.throughput import throughput
from sweeper.values import Load, Point, RequestRecord

BY_TPOT = "TPOT"
BY_OUTPUT_RATE = "output rate"

WORK = {BY_TPOT: ("emitted", "decode_s"), BY_OUTPUT_RATE: ("tokens", "s")}
"""What is done in what time: the columns of :data:`sweeper.judge.speedup.COLUMNS` whose ratio is
the speed-up."""


def speedup_by(point: Point) -> str:
    """What the speed-up of a point divides: several answers to a request have no TPOT."""
    load = point.load
    timed = load.overlapping and load.stream and point.sampling.n == 1
    return BY_TPOT if timed else BY_OUTPUT_RATE


def throughput_ratio(
    baseline: Sequence[RequestRecord], candidate: Sequence[RequestRecord], load: Load
) -> Figure:
    """The candidate's output tokens per second of its measuring window over the baseline's."""
    base, ours = throughput(baseline, load), throughput(candidate, load)
    if not base.output_tokens_per_s or ours.output_tokens_per_s is None:
        return undefined(base.reason or ours.reason or "the baseline put out nothing")
    ratio = ours.output_tokens_per_s / base.output_tokens_per_s
    return Figure(value=ratio, reason="two windows have no interval")
