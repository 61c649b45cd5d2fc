"""What stands in the table: a number, its interval, and why there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sweeper.judge.bootstrap import Figure
from sweeper.judge.compare import Comparison
from sweeper.judge.shown import fixed
from sweeper.report.columns import figures
from sweeper.report.labels import NOT_MEASURED, OF_BASELINES, some_failed, starred, success
from sweeper.values import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """``order`` is what the column sorts by, ``None`` last; ``reason`` qualifies or replaces."""

    text: str
    interval: str = ""
    reason: str = ""
    order: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """``hint`` is the definition, for people who point at the heading; ``always``: shown even
    where nothing was measured; ``told``: whether some points have anything to say in it, by
    default where one has a figure."""

    name: str
    hint: str
    cell: Callable[[Comparison], Cell]
    always: bool = False
    told: Callable[[Sequence[Comparison]], bool] | None = None


def shown(comparisons: Sequence[Comparison]) -> tuple[Column, ...]:
    """The columns that have a figure for some point, and those a reader expects."""
    return tuple(column for column in COLUMNS if _told(column, comparisons))


def _told(column: Column, comparisons: Sequence[Comparison]) -> bool:
    if column.told is not None:
        return column.told(comparisons)
    return column.always or any(column.cell(c).order is not None for c in comparisons)


def number(figure: Figure, digits: int, *, percent: bool = False, mark: str = "") -> Cell:
    """A figure as people read it."""
    if figure.value is None:
        dash = figure.reason in OF_BASELINES
        return Cell(text="–" if dash else NOT_MEASURED, reason=figure.reason)
    text = _say(figure.value, digits, percent) + mark
    if figure.low is None or figure.high is None:
        return Cell(text=text, reason=figure.reason, order=figure.value)
    scale = 100 if percent else 1
    low, high = (fixed(scale * end, digits) for end in (figure.low, figure.high))
    return Cell(text=text, interval=f"{low} to {high}", order=figure.value, reason=figure.reason)


def _say(value: float, digits: int, percent: bool) -> str:
    return f"{fixed(100 * value, digits)} %" if percent else fixed(value, digits)


def ratio(one: Comparison) -> Cell:
    """A speed-up, never without its interval."""
    if one.point.is_baseline:
        return Cell(text="baseline", order=1.0)
    figure = one.speedup
    if figure.value is not None and figure.low is None:
        return Cell(text=NOT_MEASURED, reason=figure.reason)
    return number(figure, 2)


def latency(name: str) -> Callable[[Comparison], Cell]:
    """The cell of one of :data:`sweeper.judge.timing.LATENCIES`."""
    return lambda one: number(one.latencies[name], 1)


def _length(one: Comparison) -> Cell:
    return number(one.acceptance.mean_acceptance_length, 2, mark="*" if starred(one) else "")


def _agreement(one: Comparison) -> Cell:
    found = figures(one)
    mean, largest = found["logprob_difference"], found["logprob_largest"]
    if one.rollout is None or mean.value is None or largest.value is None:
        return number(mean, 3)
    said = "agree" if one.rollout.logprobs_agree else "DISAGREE"
    interval = f"mean {mean.value:.3f}, max {largest.value:.3f}"
    return Cell(text=said, interval=interval, reason=mean.reason, order=mean.value)


def _success(one: Comparison) -> Cell:
    reason = "" if one.success_rate is not None else one.reason or "no request was sent"
    return Cell(text=success(one), reason=reason, order=one.success_rate)


COLUMNS = (
    Column(
        name="speed-up",
        hint="Output rate over the baseline's, paired by prompt",
        cell=ratio,
        always=True,
    ),
    Column(
        name="tokens/step",
        hint="Tokens per decode step, over all steps, with a draft or without",
        cell=lambda c: number(c.acceptance.tokens_per_decode_step, 2),
        always=True,
    ),
    Column(
        name="coverage",
        hint="Share of the decode steps that had a draft",
        cell=lambda c: number(c.acceptance.draft_coverage, 0, percent=True),
    ),
    Column(
        name="A/D",
        hint="Accepted over drafted tokens; falls as γ grows",
        cell=lambda c: number(c.acceptance.acceptance_rate, 3),
        always=True,
    ),
    Column(
        name="1+A/S",
        hint="Mean acceptance length: tokens of a step that had a draft",
        cell=_length,
        always=True,
    ),
    Column(
        name="request time s",
        hint="Mean seconds from sending to the last byte",
        cell=lambda c: number(c.request_time_s, 2),
        always=True,
    ),
    Column(
        name="output tokens/s",
        hint="Of one request where they are sequential, else of the server",
        cell=lambda c: number(c.output_tokens_per_s, 1),
        always=True,
    ),
    Column(
        name="TTFT P99 ms", hint="Time to first token; streaming loads", cell=latency("ttft_ms_p99")
    ),
    Column(
        name="TPOT P50 ms",
        hint="Time per output token after the first; streaming loads",
        cell=latency("tpot_ms_p50"),
    ),
    Column(
        name="TPOT P99 ms",
        hint="Time per output token after the first; streaming loads",
        cell=latency("tpot_ms_p99"),
        always=True,
    ),
    Column(
        name="goodput/s",
        hint="Requests a second that kept the SLO",
        cell=lambda c: number(c.goodput, 2),
    ),
    Column(
        name="same output",
        hint="Share of the answers equal to the baseline's; greedy only",
        cell=lambda c: number(c.identical_share, 0, percent=True),
        always=True,
    ),
    Column(
        name="waiting for the last",
        hint="Share of a rollout batch's time in which only its last tenth of sequences ran",
        cell=lambda c: number(figures(c)["straggler_share"], 0, percent=True),
    ),
    Column(
        name="logprobs",
        hint="Whether returned logprobs are a re-score's: mean and largest |Δ|, nats a token",
        cell=_agreement,
    ),
    Column(
        name="success",
        hint="Share of the requests that were answered",
        cell=_success,
        told=some_failed,
    ),
)
"""After the ones that say which point it is, and before quality and status."""
