"""What of a plan fits into a time, the most useful first."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from sweeper.durations import clock
from sweeper.plan.estimate import Estimate, start_of
from sweeper.values import Group, Plan, PlannedPoint, content_key


def fit(
    plan: Plan, found: Estimate, budget_s: float, budget: str, kept: Collection[int] = ()
) -> Plan:
    """The plan in the order of usefulness; points that do not fit are skipped with the reason.

    First one γ of every method under every condition (the one in the middle of those asked for),
    then those beside it. Among equals comes what takes the least time next, its server's start
    and its baseline counted where it is the first to need them. ``kept`` costs nothing.
    """
    choice = _Choice(plan=plan, found=found, left_s=budget_s)
    kept = set(kept)
    open_points = [p for p in plan.points if not p.skip and p.number not in kept]
    choice.taken += [n for n in sorted(kept) if not choice.by_number[n].skip]
    for tier in _tiers(open_points):
        choice.fill(tier)
    reasons = {
        p.number: choice.why_not(p, budget) for p in open_points if p.number not in choice.taken
    }
    return _arranged(plan, choice.taken, reasons)


@dataclass(slots=True)
class _Choice:
    """What was taken so far, in order, and the seconds that are left."""

    plan: Plan
    found: Estimate
    left_s: float
    taken: list[int] = field(default_factory=list)
    started: set[tuple[str, str]] = field(default_factory=set)
    by_number: dict[int, PlannedPoint] = field(init=False)
    seconds: dict[int, float] = field(init=False)
    starts: dict[tuple[str, str], float] = field(init=False)

    def __post_init__(self) -> None:
        self.by_number = {p.number: p for p in self.plan.points}
        self.seconds = self.found.seconds()
        self.starts = {k: s for g in self.found.groups for k, s in g.starts.items()}

    def fill(self, tier: Sequence[PlannedPoint]) -> None:
        """Take what fits, the cheapest first; what was taken makes others cheaper."""
        waiting = [p for p in tier if p.number not in self.taken]
        while waiting:
            next_one = min(waiting, key=lambda p: (self.cost(p), p.number))
            if self.cost(next_one) > self.left_s:
                return
            self.take(next_one)
            waiting = [p for p in waiting if p.number not in self.taken]

    def take(self, planned: PlannedPoint) -> None:
        self.left_s -= self.cost(planned)
        for one in self.needed(planned):
            self.taken.append(one.number)
            self.started.add(start_of(one))

    def cost(self, planned: PlannedPoint) -> float:
        new = self.needed(planned)
        servers = {start_of(p) for p in new} - self.started
        return sum(self.seconds[p.number] for p in new) + sum(self.starts[k] for k in servers)

    def needed(self, planned: PlannedPoint) -> list[PlannedPoint]:
        """The baseline, where nobody needed it before, and the point itself."""
        both = [n for n in (planned.baseline, planned.number) if n is not None]
        new = [self.by_number[n] for n in both if n not in self.taken]
        return [p for p in new if not p.skip]

    def why_not(self, planned: PlannedPoint, budget: str) -> str:
        if not planned.jobs:
            return f"budget={budget}: no point that is compared with this baseline fits"
        return (
            f"budget={budget}: would take about {clock(self.cost(planned))} more, "
            f"{clock(self.left_s)} are left"
        )


def _tiers(points: Sequence[PlannedPoint]) -> Iterator[list[PlannedPoint]]:
    """Every method's middle γ, then the next beside it, and so on; baselines come with those
    that need them, and those nobody needs last."""
    alone = [p for p in points if p.point.is_baseline and p.jobs]
    ranks: dict[int, list[PlannedPoint]] = {}
    for of_one in _same_but_gamma(points):
        middle = median(p.point.gamma for p in of_one)
        ordered = sorted(of_one, key=lambda p: (abs(p.point.gamma - middle), p.point.gamma))
        for rank, planned in enumerate(ordered):
            ranks.setdefault(rank, []).append(planned)
    yield from (ranks[rank] for rank in sorted(ranks))
    yield alone


def _same_but_gamma(points: Sequence[PlannedPoint]) -> list[list[PlannedPoint]]:
    found: dict[str, list[PlannedPoint]] = {}
    for planned in points:
        point = planned.point
        if not point.is_baseline:
            settings = dict(point.server.speculative or {}, num_speculative_tokens=None)
            alike = content_key([point.method, settings, point.conditions, point.warm])
            found.setdefault(alike, []).append(planned)
    return list(found.values())


def _arranged(plan: Plan, taken: Sequence[int], reasons: dict[int, str]) -> Plan:
    """Groups by their first point that is taken, points as they were taken, numbered anew."""
    place = {number: n for n, number in enumerate(taken)}
    last = len(place)

    def order(planned: PlannedPoint) -> tuple[int, int]:
        return (place.get(planned.number, last), planned.number)

    def within(planned: PlannedPoint) -> tuple[bool, int, int]:
        return (not planned.point.before, *order(planned))  # its own baselines first

    groups = [replace(g, points=tuple(sorted(g.points, key=within))) for g in plan.groups]
    groups.sort(key=lambda g: min(map(order, g.points)))
    flat = [p.number for g in groups for p in g.points]
    new = {old: number for number, old in enumerate(flat)}

    def renumbered(planned: PlannedPoint) -> PlannedPoint:
        return replace(
            planned,
            number=new[planned.number],
            baseline=None if planned.baseline is None else new[planned.baseline],
            skip=planned.skip or reasons.get(planned.number, ""),
        )

    arranged: list[Group] = [replace(g, points=tuple(map(renumbered, g.points))) for g in groups]
    return replace(plan, groups=tuple(arranged))
