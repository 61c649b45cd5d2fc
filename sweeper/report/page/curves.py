"""What one run says of smaller γ, beside what was measured there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sweeper.judge.bootstrap import Figure
from sweeper.judge.breakeven import family
from sweeper.judge.compare import Comparison
from sweeper.judge.verdict import SYNTHETIC, Curve, CurvePoint, WorkloadVerdict
from sweeper.report.labels import Group, labels
from sweeper.report.page.drawing import Drawing, Styles, Undrawn, not_measured, series
from sweeper.report.page.svg import INK, legend, panels

TITLE = "Predicted over γ"
SHORTEST = "one position predicts no other γ: measure with gamma=2 or more"

_Of = Callable[[CurvePoint], Figure]
_TOKENS: tuple[_Of, _Of] = (
    lambda p: p.predicted_tokens_per_step,
    lambda p: p.measured_tokens_per_step,
)
_SPEED: tuple[_Of, _Of] = (lambda p: p.predicted_speedup, lambda p: p.measured_speedup)


def curve_drawing(
    group: Group, workloads: Sequence[WorkloadVerdict], styles: Styles
) -> Iterator[Drawing | Undrawn]:
    """One plot, of the curves whose sources are in the group; nothing where no point drafted."""
    arms = {c.number: c for w in workloads for c in w.candidates}
    here = {c.number for c in group}
    curves = [c for w in workloads for c in w.curves if c.source in here]
    if not curves:
        if any(c.completed and c.synthetic for c in group):
            yield not_measured(TITLE, [SYNTHETIC])
        return
    drawn = [curve for curve in curves if len(curve.points) > 1]
    if not drawn:
        yield not_measured(TITLE, (curve.reason or SHORTEST for curve in curves))
        return
    timed = any(_SPEED[0](p).value is not None for curve in drawn for p in curve.points)
    figure, axes = panels(2 if timed else 1)
    names = labels(group)
    for curve in drawn:
        source = arms[curve.source]
        alike = {c.point.gamma: c for c in arms.values() if _same(c, source)}
        for ax, of in zip(axes, (_TOKENS, _SPEED), strict=False):
            _draw(ax, curve, of, styles[series(source)], names[curve.source], alike)
    axes[0].set(ylabel="tokens per step")
    if timed:
        axes[1].axhline(1, color=INK, linewidth=1, linestyle=":")
        axes[1].set(ylabel="decode speed-up")
    axes[-1].set(xlabel="γ, draft tokens per step")
    axes[-1].locator_params(axis="x", integer=True)
    legend(figure, axes[0])
    yield Drawing(name="curve", title=TITLE, caption=_caption(drawn, curves, timed), figure=figure)


def _same(one: Comparison, source: Comparison) -> bool:
    """Settings of one workload that differ in γ only."""
    here, there = one.point, source.point
    return family(one) == family(source) and here.conditions == there.conditions


def _draw(
    ax: Any, curve: Curve, of: tuple[_Of, _Of], look: tuple[str, str], name: str,
    alike: dict[int, Comparison],
) -> None:  # fmt: skip
    colour, marker = look
    predicted, measured = of
    known = [(p.gamma, v) for p in curve.points if (v := predicted(p).value) is not None]
    if known:
        ax.plot(*zip(*known, strict=True), color=colour, linestyle="--", zorder=2)
    there = [(p.gamma, v) for p in curve.points if (v := measured(p).value) is not None]
    marks = ax.scatter(
        [g for g, _ in there], [v for _, v in there], s=34, color=colour, marker=marker,
        label=name, zorder=3,
    )  # fmt: skip
    marks.set_urls([f"#point-{alike[g].number}" for g, _ in there])


def _caption(drawn: Sequence[Curve], curves: Sequence[Curve], timed: bool) -> str:
    text = (
        "Dashed: prediction, from acceptance by position at the named, largest γ. Dots: measured."
    )
    if timed:
        text += " A step's cost is taken to grow in a line with γ; the dotted line is break-even."
    missing = [c for c in curves if c not in drawn]
    why = dict.fromkeys(f" {c.method}: not measured: {c.reason or SHORTEST}." for c in missing)
    return text + "".join(why)
