"""A group's latencies and rates under its load, where requests overlap."""

from __future__ import annotations

from collections.abc import Iterator

from sweeper.judge.bootstrap import Figure
from sweeper.judge.compare import Comparison
from sweeper.report.labels import NOT_MEASURED, Group, labels

_PERCENTILES = (50, 95, 99)
LOAD_HEADER = (
    "under load",
    "TTFT P50 / P95 / P99 (ms)",
    "TPOT P50 / P95 / P99 (ms)",
    "E2E P50 / P95 / P99 (ms)",
    "output (tokens/s)",
    "all tokens/s",
    "goodput (requests/s)",
    "within SLO",
    "success",
    "one-token answers",
)


def load_rows(group: Group) -> list[tuple[str, ...]]:
    """Header and rows of the points that were measured, also of those of which too few requests
    succeeded; nothing where requests did not overlap."""
    rows = list(_rows(group)) if group[0].point.load.overlapping else []
    return [LOAD_HEADER, *rows] if rows else []


def _rows(group: Group) -> Iterator[tuple[str, ...]]:
    names = labels(group)
    for one in (one for one in group if one.completed or one.success_rate is not None):
        yield (
            names[one.number] if one.completed else f"{names[one.number]} ({one.status})",
            *(_percentiles(one, kind) for kind in ("ttft", "tpot", "e2e")),
            _say(one.output_tokens_per_s, 1),
            _say(one.rates["total_tokens_per_s"], 1),
            _say(one.goodput, 2),
            _say(one.rates["slo_share"], 2),
            NOT_MEASURED if one.success_rate is None else f"{one.success_rate:.2f}",
            NOT_MEASURED if one.one_token is None else str(one.one_token),
        )


def _percentiles(one: Comparison, kind: str) -> str:
    found = [one.latencies[f"{kind}_ms_p{p}"] for p in _PERCENTILES]
    if any(figure.value is None for figure in found):
        return NOT_MEASURED
    return " / ".join(_say(figure, 1) for figure in found)


def _say(figure: Figure, digits: int) -> str:
    return NOT_MEASURED if figure.value is None else f"{figure.value:.{digits}f}"
