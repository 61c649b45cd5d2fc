"""After how many tokens greedy answers leave those of the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sweeper.judge.compare import Comparison
from sweeper.report.page.drawing import Drawing, Styles, Undrawn, by_method, not_measured
from sweeper.report.page.svg import axes, legend

WRONG = "#d1333b"


def divergence(points: Sequence[Comparison], styles: Styles) -> Drawing | Undrawn:
    """Of each method the setting whose answers differ most."""
    title = "Divergence from the baseline's answers"
    shown = [c for c in points if c.output.compared and _placed(c)]
    if not shown:
        return not_measured(title, (c.output.sentence for c in points))
    if not any(c.output.divergences for c in shown):
        return Undrawn(title=title, reason="none: every greedy answer is the baseline's")
    figure, ax = axes()
    longest = max(c.point.sampling.max_tokens for c in shown)
    for name, each in by_method(shown).items():
        one = min(each, key=lambda c: c.identical_share.value or 0)
        _fall(ax, one, styles[name], longest)
    ax.set(xlabel="tokens of the answer", ylabel="share still the baseline's", ylim=(0, 1.04))
    legend(figure, ax)
    return Drawing(
        name="divergence",
        title=title,
        caption="A line falls where an answer first leaves the baseline's; a red cross is a token "
        "that rounding does not explain. Of each method the γ that differs most.",
        figure=figure,
    )


def _placed(one: Comparison) -> bool:
    return all(d.position is not None for d in one.output.divergences)


def _fall(ax: Any, one: Comparison, look: tuple[str, str], longest: int) -> None:
    found = sorted(one.output.divergences, key=lambda d: d.position or 0)
    x = [float(d.position or 0) for d in found]
    y = [1 - n / one.output.compared for n in range(1, len(found) + 1)]
    ax.step([0, *x, longest], [1, *y, (y or [1.0])[-1]], where="post", color=look[0], alpha=0.6)
    dots_at = ([0.0], [1.0]) if not x else (x, y)
    marks = ax.scatter(
        *dots_at, s=34, color=look[0], marker=look[1], label=one.point.label, zorder=3
    )
    marks.set_urls([f"#point-{one.number}"] * len(dots_at[0]))
    wrong = [(a, b) for a, b, d in zip(x, y, found, strict=True) if d.kind == "wrong"]
    if wrong:
        ax.scatter(*zip(*wrong, strict=True), s=60, color=WRONG, marker="x", zorder=4)
