"""What is drawn of one group: speed-up, survival, the cost of a step, acceptance over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweeper.judge.breakeven import tokens_per_step
from sweeper.judge.compare import Comparison
from sweeper.measure.windows import Window
from sweeper.report.labels import Group
from sweeper.report.page.svg import INK, SOFT, axes

Windows = Mapping[int, Sequence[Window]]
"""Acceptance over time by point number."""
Styles = Mapping[str, tuple[str, str]]
"""Colour and marker by method."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A figure of matplotlib, and what it shows in words."""

    name: str
    title: str
    caption: str
    figure: Any


def drawings(group: Group, windows: Windows, styles: Styles) -> Iterator[Drawing]:
    """Those for which something was measured."""
    drafting = [c for c in group if c.completed and not c.point.is_baseline]
    yield from _speedup([c for c in drafting if c.speedup.low is not None], styles)
    yield from _survival(drafting, styles)
    yield from _step_cost(drafting, styles)
    yield from _over_time(drafting, windows, styles)


def by_method(points: Sequence[Comparison]) -> dict[str, list[Comparison]]:
    """In order of appearance; those of one method by γ. Warm points are a method of their own."""
    found: dict[str, list[Comparison]] = {}
    for one in sorted(points, key=lambda c: c.point.gamma):
        found.setdefault(series(one), []).append(one)
    return found


def series(one: Comparison) -> str:
    """The name of the line a point is on."""
    return f"{one.point.method} warm" if one.point.warm else one.point.method


def dots(ax: Any, points: Sequence[Comparison], x: Sequence[float], y: Sequence[float],
         look: tuple[str, str], label: str) -> None:  # fmt: skip
    """Markers that link to their points; a line joins them where there are several."""
    colour, marker = look
    ax.plot(x, y, color=colour, alpha=0.6, zorder=2)
    marks = ax.scatter(x, y, s=34, color=colour, marker=marker, label=label, zorder=3)
    marks.set_urls([f"#point-{c.number}" for c in points])


def _speedup(points: Sequence[Comparison], styles: Styles) -> Iterator[Drawing]:
    if not points:
        return
    figure, ax = axes()
    lines, gammas = by_method(points), sorted({c.point.gamma for c in points})
    apart = 0.03 * (gammas[-1] - gammas[0] or 2)  # so that intervals do not hide each other
    for n, (name, each) in enumerate(lines.items()):
        x = [c.point.gamma + apart * (n - (len(lines) - 1) / 2) for c in each]
        y = [c.speedup.value or 0 for c in each]
        low = [v - (c.speedup.low or v) for v, c in zip(y, each, strict=True)]
        high = [(c.speedup.high or v) - v for v, c in zip(y, each, strict=True)]
        ax.errorbar(x, y, yerr=[low, high], fmt="none", ecolor=styles[name][0], capsize=3)
        dots(ax, each, x, y, styles[name], name)
    ax.axhline(1, color=INK, linewidth=1, linestyle="--")
    ax.set(xlabel="γ, draft tokens per step", ylabel="speed-up over the baseline")
    ax.set_xticks(gammas)
    ax.set_xlim(gammas[0] - 0.7, gammas[-1] + 0.7)
    ax.legend()
    yield Drawing(
        name="speedup",
        title="Speed-up over γ",
        caption="With 95 % intervals. Below the dashed line speculation is slower than none.",
        figure=figure,
    )


def _survival(points: Sequence[Comparison], styles: Styles) -> Iterator[Drawing]:
    """Of each method the point with the most positions: those of the others are its beginning."""
    longest = [
        max(each, key=lambda c: len(c.acceptance.survival)) for each in by_method(points).values()
    ]
    shown = [c for c in longest if any(f.value is not None for f in c.acceptance.survival)]
    if not shown:
        return
    figure, ax = axes()
    for one in shown:
        survival = enumerate(one.acceptance.survival, start=1)
        found = [(i, f.value) for i, f in survival if f.value is not None]
        x, y = [float(i) for i, _ in found], [v for _, v in found]
        dots(ax, [one] * len(x), x, y, styles[series(one)], one.point.label)
    ax.set(xlabel="draft position i", ylabel="Pr(at least i accepted)", ylim=(0, 1.02))
    ax.locator_params(axis="x", integer=True)
    ax.legend()
    yield Drawing(
        name="survival",
        title="Survival by draft position",
        caption="Share of the steps with a draft that accepted at least so many tokens; of each "
        "method the longest γ.",
        figure=figure,
    )


def _step_cost(points: Sequence[Comparison], styles: Styles) -> Iterator[Drawing]:
    costs = {c.number: c.step_cost.value for c in points if c.step_cost.value is not None}
    tokens = {c.number: tokens_per_step(c).value for c in points}
    shown = [c for c in points if c.number in costs and tokens[c.number] is not None]
    if not shown:
        return
    figure, ax = axes()
    for name, each in by_method(shown).items():
        x = [costs[c.number] for c in each]
        y = [tokens[c.number] or 0 for c in each]
        dots(ax, each, x, y, styles[name], name)
        for one, across, up in zip(each, x, y, strict=True):
            ax.annotate(f" {one.point.gamma}", (across, up), fontsize=7, color=SOFT)
    top = max(*ax.get_xlim(), *ax.get_ylim(), 1.2)
    ax.plot([0, top], [0, top], color=INK, linewidth=1, linestyle="--", label="break-even")
    low = min(0.9, *(costs[c.number] for c in shown))
    ax.set(xlim=(low * 0.97, None), ylim=(0.9, None))
    ax.set(xlabel="cost of a step, baseline = 1", ylabel="tokens per decode step")
    ax.legend()
    yield Drawing(
        name="steps",
        title="Tokens per step against cost of a step",
        caption="A point pays for itself above the dashed line; the number beside it is its γ. "
        "The cost is the time of a decode step over that of a baseline's.",
        figure=figure,
    )


def _over_time(points: Sequence[Comparison], windows: Windows, styles: Styles) -> Iterator[Drawing]:
    shown = [c for c in points if any(w.drafted for w in windows.get(c.number, ()))]
    if not shown:
        return
    figure, ax = axes()
    for name, each in by_method(shown).items():
        one = max(each, key=lambda c: c.speedup.value or 0)
        found = [w for w in windows[one.number] if w.drafted]
        x = [(w.start + w.end) / 2 for w in found]
        y = [w.accepted / w.drafted for w in found]
        dots(ax, [one] * len(x), x, y, styles[name], one.point.label)
    ax.set(xlabel="seconds since the point began", ylabel="A/D in the window", ylim=(0, 1.02))
    ax.legend()
    yield Drawing(
        name="over-time",
        title="Acceptance over time",
        caption="In ten equal windows; of each method the fastest γ. A line that falls to nothing "
        "and stays there is a draft that died.",
        figure=figure,
    )
