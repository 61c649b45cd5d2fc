"""How many tokens of a draft were accepted, and how likely the next one was, as small tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sweeper.judge.acceptance import Acceptance
from sweeper.judge.bootstrap import Figure
from sweeper.judge.shown import say
from sweeper.report.labels import Group, labels
from sweeper.report.slices import SliceTable

EXACTLY = "share of the steps with a draft that accepted exactly so many of its tokens"
CONDITIONAL = (
    "share accepted at a position among the steps that drafted it and accepted all before it"
)


def position_tables(group: Group) -> Iterator[SliceTable]:
    """Nothing where no step had a draft whose fate is known."""
    title = "draft tokens accepted in a step"
    yield from _table(group, title, EXACTLY, ("accepted", 0), lambda a: a.exactly)
    title = "conditional acceptance by draft position"
    yield from _table(
        group, title, CONDITIONAL, ("position", 1), lambda a: a.conditional_acceptance
    )


def _table(
    group: Group,
    title: str,
    key: str,
    first: tuple[str, int],
    of: Callable[[Acceptance], Sequence[Figure]],
) -> Iterator[SliceTable]:
    """A column a setting, empty beyond its γ."""
    arms = [c for c in group if c.completed and any(f.value is not None for f in of(c.acceptance))]
    found, names = [of(c.acceptance) for c in arms], labels(group)
    rows = (
        (str(n + first[1]), *(_say(each[n]) if n < len(each) else "" for each in found))
        for n in range(max(map(len, found), default=0))
    )
    if arms:
        header = (first[0], *(names[c.number] for c in arms))
        yield SliceTable(title=title, rows=(header, *rows), key=key, names=1)


def _say(figure: Figure) -> str:
    return "not measured" if figure.value is None else say(figure, 3)
