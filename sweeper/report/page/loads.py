"""What is drawn over several loads of the same target, prompts and sampling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sweeper.judge.compare import Comparison
from sweeper.report.page.plots import Drawing, dots
from sweeper.report.page.svg import INK, axes, styles

Family = tuple[Comparison, ...]


def families(comparisons: Sequence[Comparison]) -> dict[str, Family]:
    """Completed points by ``target · dataset · sampling``, where several loads were measured."""
    found: dict[str, list[Comparison]] = {}
    for one in comparisons:
        point = one.point
        name = " · ".join((point.dataset.name, point.sampling.name, point.target))
        if one.completed and point.load.name in ("closed", "open"):
            found.setdefault(name, []).append(one)
    several = {n: each for n, each in found.items() if len({_amount(c) for c in each}) > 1}
    return {name: tuple(each) for name, each in several.items()}


def _amount(one: Comparison) -> float:
    """Requests at a time, or a second."""
    load = one.point.load
    return float(load.concurrency if load.name == "closed" else load.rate or 0)


def load_drawings(family: Family) -> Iterator[Drawing]:
    """Those for which something was measured."""
    unit = "requests at a time" if family[0].point.load.name == "closed" else "requests a second"
    yield from _pareto(family)
    yield from _speedups(family, unit)


def _lines(points: Sequence[Comparison]) -> dict[str, list[Comparison]]:
    """The points of one method and γ, by load."""
    found: dict[str, list[Comparison]] = {}
    for one in sorted(points, key=_amount):
        found.setdefault(one.point.label, []).append(one)
    return {name: each for name, each in found.items() if len(each) > 1}


def _pareto(family: Family) -> Iterator[Drawing]:
    lines = _lines([c for c in family if _both(c)])
    if not lines:
        return
    figure, ax = axes()
    looks = styles(list(lines))
    for name, each in lines.items():
        x = [c.latencies["tpot_ms_p50"].value or 0 for c in each]
        y = [c.output_tokens_per_s.value or 0 for c in each]
        dots(ax, each, x, y, looks[name], name)
        for one, across, up in zip(each, x, y, strict=True):
            ax.annotate(f" {_amount(one):g}", (across, up), fontsize=7)
    ax.set(xlabel="TPOT P50, milliseconds", ylabel="output tokens a second, server")
    ax.legend()
    yield Drawing(
        name="pareto",
        title="Latency and throughput over the load",
        caption="Up and to the left is better; the number beside a point is its load.",
        figure=figure,
    )


def _both(one: Comparison) -> bool:
    rate = one.output_tokens_per_s.value
    return one.latencies["tpot_ms_p50"].value is not None and rate is not None


def _speedups(family: Family, unit: str) -> Iterator[Drawing]:
    lines = _lines([c for c in family if c.speedup.low is not None])
    if not lines:
        return
    figure, ax = axes()
    looks = styles(list(lines))
    for name, each in lines.items():
        x, look = [_amount(c) for c in each], looks[name]
        y = [c.speedup.value or 0 for c in each]
        dots(ax, each, x, y, look, name)
        ax.fill_between(
            x,
            [c.speedup.low or 0 for c in each],
            [c.speedup.high or 0 for c in each],
            color=look[0],
            alpha=0.15,
            linewidth=0,
        )
    ax.axhline(1, color=INK, linewidth=1, linestyle="--")
    ax.set(xlabel=unit, ylabel="speed-up over the baseline at that load")
    ax.legend()
    yield Drawing(
        name="speedup-load",
        title="Speed-up over the load",
        caption="With 95 % intervals. Where a line crosses the dashed one, turn speculation off.",
        figure=figure,
    )
