"""Request time and output rate of sequential requests that are not streamed; no TTFT, no TPOT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sweeper.judge.bootstrap import Figure, resample, undefined
from sweeper.values import RequestRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Mean seconds a request, and completion tokens per second of request time."""

    request_time_s: Figure
    output_tokens_per_s: Figure


def timing(records: Sequence[RequestRecord], *, seed: int) -> Timing:
    """Figures of the successful requests among ``records``; tokens are those of ``usage``."""
    good = [r for r in records if not r.error]
    if not good:
        return unmeasured_timing("no request succeeded")
    rows = (
        (r.prompt_id, {"n": 1, "s": r.request_time_s, "tokens": r.completion_tokens or 0})
        for r in good
    )
    boot = resample(rows, names=("n", "s", "tokens"), seed=seed)
    return Timing(
        request_time_s=boot.figure(lambda s: s["s"] / s["n"]),
        output_tokens_per_s=boot.figure(lambda s: s["tokens"] / s["s"], ""),
    )


def unmeasured_timing(reason: str) -> Timing:
    """The timing of a point without usable requests."""
    return Timing(request_time_s=undefined(reason), output_tokens_per_s=undefined(reason))
