"""How many tokens of its draft a step accepted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sweeper.judge.bootstrap import Figure
from sweeper.judge.compare import Comparison
from sweeper.report.page.drawing import (
    Drawing,
    Styles,
    Undrawn,
    longest_drafts,
    not_measured,
    series,
)
from sweeper.report.page.svg import INK, axes, legend

TITLE = "Tokens accepted in a step"
ALL = 0.8
"""Width of the bars of one number together."""


def histogram(points: Sequence[Comparison], styles: Styles) -> Drawing | Undrawn:
    """Of each method the point with the longest drafts, as its survival."""
    longest = longest_drafts(points)
    shown = [c for c in longest if any(f.value is not None for f in c.acceptance.exactly)]
    if not shown:
        why = (f.reason for c in points for f in (*c.acceptance.exactly, *c.acceptance.survival))
        return not_measured(TITLE, [*why] or (c.acceptance.state for c in points))
    figure, ax = axes()
    for n, one in enumerate(shown):
        _bars(ax, one, (n - (len(shown) - 1) / 2) * ALL / len(shown), ALL / len(shown), styles)
    ax.set(xlabel="K, accepted tokens of a draft", ylabel="share of the steps", ylim=(0, 1.02))
    ax.locator_params(axis="x", integer=True)
    legend(figure, ax)
    return Drawing(
        name="accepted",
        title=TITLE,
        caption="Share of the steps with a draft that accepted exactly so many of its tokens, with "
        "95 % intervals where requests report them; of each method the longest γ.",
        figure=figure,
    )


def _bars(ax: Any, one: Comparison, shift: float, width: float, styles: Styles) -> None:
    found = [(k, f) for k, f in enumerate(one.acceptance.exactly) if f.value is not None]
    x, y = [k + shift for k, _ in found], [f.value or 0.0 for _, f in found]
    bars = ax.bar(x, y, width, color=styles[series(one)][0], label=one.point.label, zorder=2)
    for bar in bars:
        bar.set_url(f"#point-{one.number}")
    ends = [_reach(f) for _, f in found]
    ax.errorbar(x, y, yerr=list(zip(*ends, strict=True)), fmt="none", ecolor=INK, capsize=2)


def _reach(figure: Figure) -> tuple[float, float]:
    value = figure.value or 0.0
    if figure.low is None or figure.high is None:
        return 0.0, 0.0
    return max(0.0, value - figure.low), max(0.0, figure.high - value)
