"""What is drawn over several loads of the same target, prompts and sampling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sweeper.judge.compare import Comparison
from sweeper.judge.conditions import AMOUNT, called_but_load, conditions_key, told_apart
from sweeper.judge.verdict import named
from sweeper.report.page.drawing import Drawing, Undrawn, dots, drawable, fit_height, not_measured
from sweeper.report.page.svg import INK, SOFT, axes, beside, legend, styles

Family = tuple[Comparison, ...]


def families(comparisons: Sequence[Comparison]) -> dict[str, Family]:
    """Completed points by ``dataset · sampling · target``, where several loads were measured."""
    loaded = [c for c in comparisons if c.completed and c.point.load.name in ("closed", "open")]
    more = told_apart((c.point for c in loaded), called_but_load, AMOUNT)
    found: dict[str, list[Comparison]] = {}
    for one in loaded:
        name = named(called_but_load(one.point), more[conditions_key(one.point, AMOUNT)])
        found.setdefault(name, []).append(one)
    several = {n: each for n, each in found.items() if len({_amount(c) for c in each}) > 1}
    return {name: tuple(each) for name, each in several.items()}


def _amount(one: Comparison) -> float:
    """Requests at a time, or a second."""
    load = one.point.load
    return float(load.concurrency if load.name == "closed" else load.rate or 0)


ONE_LOAD = "every workload has one load; load=closed load.concurrency=1,4,16 measures several"
PARETO, SPEEDUPS = "Latency and throughput over the load", "Speed-up over the load"


def no_loads() -> tuple[Undrawn, ...]:
    """In place of the plots of a sweep that has no family of loads."""
    return tuple(not_measured(title, [ONE_LOAD]) for title in (PARETO, SPEEDUPS))


def load_drawings(family: Family) -> Iterator[Drawing | Undrawn]:
    """Both plots of a family, or why there is none."""
    unit = "requests at a time" if family[0].point.load.name == "closed" else "requests a second"
    yield _pareto(family)
    yield _speedups(family, unit)


def _lines(points: Sequence[Comparison]) -> dict[str, list[Comparison]]:
    """The points of one method and γ, by load."""
    found: dict[str, list[Comparison]] = {}
    for one in sorted(points, key=_amount):
        found.setdefault(one.point.label, []).append(one)
    return {name: each for name, each in found.items() if len(each) > 1}


def _pareto(family: Family) -> Drawing | Undrawn:
    lines = _lines([c for c in family if _both(c)])
    if not lines:
        return not_measured(PARETO, (c.latencies["tpot_ms_p50"].reason for c in family))
    figure, ax = axes()
    looks = styles(list(lines))
    for name, each in lines.items():
        x = [c.latencies["tpot_ms_p50"].value or 0 for c in each]
        y = [c.output_tokens_per_s.value or 0 for c in each]
        dots(ax, each, x, y, looks[name], name)
        for one, across, up in zip(each, x, y, strict=True):
            beside(ax, f"{_amount(one):g}", across, up)
    best = _front([c for each in lines.values() for c in each])
    ax.plot(*zip(*best, strict=True), color=SOFT, linewidth=4, alpha=0.3, zorder=1, label="front")
    ax.set(xlabel="TPOT P50, milliseconds", ylabel="output tokens a second, server")
    legend(figure, ax)
    return Drawing(
        name="pareto",
        title=PARETO,
        caption="Up and to the left is better; the number beside a point is its load. No other "
        "point is better in both than one on the grey front.",
        figure=figure,
    )


def _front(points: Sequence[Comparison]) -> list[tuple[float, float]]:
    """(TPOT, rate) of the points that no other beats in both, by TPOT."""
    pairs = (
        (c.latencies["tpot_ms_p50"].value or 0, c.output_tokens_per_s.value or 0) for c in points
    )
    front: list[tuple[float, float]] = []
    for tpot, rate in sorted(pairs, key=lambda pair: (pair[0], -pair[1])):
        if not front or rate > front[-1][1]:
            front.append((tpot, rate))
    return front


def _both(one: Comparison) -> bool:
    rate = one.output_tokens_per_s.value
    return one.latencies["tpot_ms_p50"].value is not None and rate is not None


def _speedups(family: Family, unit: str) -> Drawing | Undrawn:
    lines = _lines([c for c in family if c.speedup.low is not None])
    if not lines:
        return not_measured(SPEEDUPS, (c.speedup.reason for c in family if not c.point.is_baseline))
    figure, ax = axes()
    looks = styles(list(lines))
    for name, each in lines.items():
        x, look = [_amount(c) for c in each], looks[name]
        y = [c.speedup.value or 0 for c in each]
        dots(ax, each, x, y, look, name)
        ax.fill_between(
            x,
            [c.speedup.low or 0 for c in each],
            [drawable(c.speedup.high or 0) for c in each],
            color=look[0],
            alpha=0.15,
            linewidth=0,
        )
    shown = [c.speedup for each in lines.values() for c in each]
    cut = fit_height(ax, [f.value or 0 for f in shown], [f.high or 0 for f in shown])
    ax.axhline(1, color=INK, linewidth=1, linestyle="--")
    ax.set(xlabel=unit, ylabel="speed-up over the baseline at that load")
    legend(figure, ax)
    return Drawing(
        name="speedup-load",
        title=SPEEDUPS,
        caption="With 95 % intervals. Where a line crosses the dashed one, turn speculation off."
        + cut,
        figure=figure,
    )
