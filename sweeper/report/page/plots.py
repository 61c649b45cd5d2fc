"""What is drawn of one group: speed-up, survival, cost of a step, acceptance over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sweeper.judge.breakeven import tokens_per_step
from sweeper.judge.compare import Comparison
from sweeper.measure.counted import OverTime
from sweeper.report.labels import Group
from sweeper.report.page.divergence import divergence
from sweeper.report.page.drawing import (
    Drawing,
    Styles,
    Undrawn,
    by_method,
    dots,
    drawable,
    fit_height,
    longest_drafts,
    not_measured,
    series,
)
from sweeper.report.page.histogram import histogram
from sweeper.report.page.svg import INK, axes, beside, legend

Windows = Mapping[int, OverTime]
"""Acceptance over time by point number."""
NOBODY_TOLD = (
    "no request tells what was drafted for it, and the server's counters were not followed"
)
OF_COUNTERS = (
    " From counters: the server's, of all requests together, between readings two seconds apart."
)
NO_LENGTHS = (
    "requests do not tell what was drafted for them, and the server's counters do not tell which "
    "request a draft was for"
)


def drawings(group: Group, windows: Windows, styles: Styles) -> Iterator[Drawing | Undrawn]:
    """All plots of a group, with the reason in place of one for which nothing was measured."""
    drafting = [c for c in group if c.completed and not c.point.is_baseline]
    if not drafting:
        why = "not measured: no point beside the baseline was completed"
        yield Undrawn(title="Plots", reason=why)
        return
    yield _speedup(drafting, styles)
    yield _survival(drafting, styles)
    yield histogram(drafting, styles)
    yield _step_cost(drafting, styles)
    yield _over_time(drafting, windows, styles)
    yield from _by_length(drafting, windows)
    yield divergence(drafting, styles)


def _speedup(drafting: Sequence[Comparison], styles: Styles) -> Drawing | Undrawn:
    title = "Speed-up over γ"
    points = [c for c in drafting if c.speedup.low is not None]
    if not points:
        return not_measured(title, (c.speedup.reason for c in drafting))
    figure, ax = axes()
    lines, gammas = by_method(points), sorted({c.point.gamma for c in points})
    apart = 0.03 * (gammas[-1] - gammas[0] or 2)  # so that intervals do not hide each other
    for n, (name, each) in enumerate(lines.items()):
        x = [c.point.gamma + apart * (n - (len(lines) - 1) / 2) for c in each]
        y = [c.speedup.value or 0 for c in each]
        low = [v - (c.speedup.low or v) for v, c in zip(y, each, strict=True)]
        high = [drawable(c.speedup.high or v) - v for v, c in zip(y, each, strict=True)]
        ax.errorbar(x, y, yerr=[low, high], fmt="none", ecolor=styles[name][0], capsize=3)
        dots(ax, each, x, y, styles[name], name)
    ax.axhline(1, color=INK, linewidth=1, linestyle="--")
    ax.set(xlabel="γ, draft tokens per step", ylabel="speed-up over the baseline")
    ax.set_xticks(gammas)
    ax.set_xlim(gammas[0] - 0.7, gammas[-1] + 0.7)
    ends = [c.speedup.high or 0 for c in points]
    cut = fit_height(ax, [c.speedup.value or 0 for c in points], ends)
    legend(figure, ax)
    return Drawing(
        name="speedup",
        title=title,
        caption=f"With 95 % intervals. Below the dashed line speculation is slower than none.{cut}",
        figure=figure,
    )


def _survival(points: Sequence[Comparison], styles: Styles) -> Drawing | Undrawn:
    """Of each method the point with the most positions: those of the others are its beginning."""
    title = "Survival by draft position"
    longest = longest_drafts(points)
    shown = [c for c in longest if any(f.value is not None for f in c.acceptance.survival)]
    if not shown:
        return not_measured(title, (f.reason for c in points for f in c.acceptance.survival))
    figure, ax = axes()
    for one in shown:
        survival = enumerate(one.acceptance.survival, start=1)
        found = [(i, f.value) for i, f in survival if f.value is not None]
        x, y = [float(i) for i, _ in found], [v for _, v in found]
        dots(ax, [one] * len(x), x, y, styles[series(one)], one.point.label)
    ax.set(xlabel="draft position i", ylabel="Pr(at least i accepted)", ylim=(0, 1.02))
    ax.locator_params(axis="x", integer=True)
    legend(figure, ax)
    return Drawing(
        name="survival",
        title=title,
        caption="Share of the steps with a draft that accepted at least so many tokens; of each "
        "method the longest γ.",
        figure=figure,
    )


def _step_cost(points: Sequence[Comparison], styles: Styles) -> Drawing | Undrawn:
    title = "Tokens per step against cost of a step"
    costs = {c.number: c.step_cost.value for c in points if c.step_cost.value is not None}
    tokens = {c.number: tokens_per_step(c).value for c in points}
    shown = [c for c in points if c.number in costs and tokens[c.number] is not None]
    if not shown:
        missing = (f.reason for c in points for f in (c.step_cost, tokens_per_step(c)))
        return not_measured(title, missing)
    figure, ax = axes()
    for name, each in by_method(shown).items():
        x = [costs[c.number] for c in each]
        y = [tokens[c.number] or 0 for c in each]
        dots(ax, each, x, y, styles[name], name)
        for one, across, up in zip(each, x, y, strict=True):
            beside(ax, f"{one.point.gamma}", across, up)
    top = max(*ax.get_xlim(), *ax.get_ylim(), 1.2)
    ax.plot([0, top], [0, top], color=INK, linewidth=1, linestyle="--", label="break-even")
    low = min(0.9, *(costs[c.number] for c in shown))
    ax.set(xlim=(low * 0.97, None), ylim=(0.9, None))
    ax.set(xlabel="cost of a step, baseline = 1", ylabel="tokens per decode step")
    legend(figure, ax)
    return Drawing(
        name="steps",
        title=title,
        caption="A point pays for itself above the dashed line; the number beside it is its γ. "
        "The cost is the time of a decode step over that of a baseline's.",
        figure=figure,
    )


def _over_time(points: Sequence[Comparison], windows: Windows, styles: Styles) -> Drawing | Undrawn:
    title = "Acceptance over time"
    drafted = {n: [w for w in of.windows if w.drafted] for n, of in windows.items()}
    shown = [c for c in points if drafted.get(c.number)]
    if not shown:
        return not_measured(title, [NOBODY_TOLD])
    figure, ax = axes()
    drawn = [max(e, key=lambda c: c.speedup.value or 0) for e in by_method(shown).values()]
    counted = any(windows[one.number].counted for one in drawn)
    for one in drawn:
        found = drafted[one.number]
        x = [(w.start + w.end) / 2 for w in found]
        y = [w.accepted / w.drafted for w in found]
        source = " (from counters)" if windows[one.number].counted else ""
        dots(ax, [one] * len(x), x, y, styles[series(one)], one.point.label + source)
    ax.set(xlabel="seconds since the point began", ylabel="A/D in the window", ylim=(0, 1.02))
    legend(figure, ax)
    return Drawing(
        name="over-time",
        title=title,
        caption="In ten equal windows; of each method the fastest γ. A line that falls to nothing "
        f"and stays there is a draft that died.{OF_COUNTERS if counted else ''}",
        figure=figure,
    )


def _by_length(points: Sequence[Comparison], windows: Windows) -> Iterator[Undrawn]:
    """Why there is no table by length of a point whose drafts were counted by the server alone."""
    alone = (c for c in points if c.number in windows and not c.lengths)
    if any(c.acceptance.drafted or windows[c.number].counted for c in alone):
        yield not_measured("Acceptance by sequence length", [NO_LENGTHS])
