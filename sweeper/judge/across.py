"""The same setting measured twice: at another time, with another version, on another GPU.

Requests are paired by prompt across the two sweeps, batches of rollouts as batches, so a change has
an interval of its own and does not depend on either sweep's baseline.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from sweeper.judge.acceptance import unmeasured_acceptance
from sweeper.judge.arms import Arm, read_arm
from sweeper.judge.bootstrap import Figure, resample, undefined
from sweeper.judge.differs import differences, section
from sweeper.judge.rollout import same_prompts
from sweeper.judge.speedup import (
    Pair,
    identical_share,
    pair,
    paired,
    paired_batches,
    rendered_differently,
)
from sweeper.judge.totals import OF_COUNTERS, with_totals
from sweeper.plan.amount import batches_of
from sweeper.store import SweepFolder, read_sweep
from sweeper.values import Json, Point, PointResult, RolloutBatch, SpecCounts

Name = tuple[str, ...]
NOTHING = "nothing was drafted or accepted in one of the two"
_COUNTS = ("A", "D", "base_A", "base_D")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One setting, before and after; ``rate`` and ``acceptance`` are after over before.

    ``rate`` is that of output tokens a second of request or batch time, ``same`` the share of equal
    answers (greedy only), ``differs`` what is known to be different about the two measurements.
    ``refused`` says why they must not be compared; then there are no figures.
    """

    name: str
    before: Arm
    after: Arm
    rate: Figure
    acceptance: Figure
    same: Figure
    differs: tuple[str, ...] = ()
    refused: str = ""

    def lost(self, threshold: float) -> tuple[str, ...]:
        """What became significantly worse: the whole interval below 1, the figure by more than
        ``threshold`` (0.05 is 5 %)."""
        named = {"output rate": self.rate, "acceptance": self.acceptance}
        return tuple(name for name, f in named.items() if _lost(f, threshold))


@dataclass(frozen=True, slots=True, kw_only=True)
class Across:
    """All settings of two sweeps; those in one of them only are named."""

    changes: tuple[Change, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]

    def lost(self, threshold: float) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.lost(threshold))


def across(before: SweepFolder, after: SweepFolder, only: frozenset[str] = frozenset()) -> Across:
    """Compare two sweeps; ``only`` names the keys of points to look at, all when it is empty."""
    old, new = _arms(before, only), _arms(after, only)
    seed = _seed(after)
    return Across(
        changes=tuple(_change(name, old[name], new[name], seed) for name in new if name in old),
        only_before=tuple(" · ".join(name) for name in old if name not in new),
        only_after=tuple(" · ".join(name) for name in new if name not in old),
    )


def _seed(folder: SweepFolder) -> int:
    settings = read_sweep(folder).settings
    seed = settings.get("seed") if isinstance(settings, dict) else None
    return seed if isinstance(seed, int) and seed >= 0 else 0


def _arms(folder: SweepFolder, only: frozenset[str]) -> dict[Name, Arm]:
    planned = [p for p in read_sweep(folder).plan.points if not only or p.key in only]
    found: dict[Name, Arm] = {}
    for one in planned:
        name = _name(one.point)
        again = sum(other[: len(name)] == name for other in found)
        found[(*name, f"#{again + 1}") if again else name] = read_arm(folder, one)
    return found


def _name(point: Point) -> Name:
    """What people call a setting; whether two of one name are equal is checked after."""
    warm = ("warm",) if point.warm else ()
    where = (point.dataset.name, point.sampling.name, point.load.label, point.target)
    return (point.label, *warm, *where)


def _change(name: Name, before: Arm, after: Arm, seed: int) -> Change:
    pairs = pair(before.records, after.records)
    refused = "; ".join(_refusals(before, after, pairs))
    none = undefined(refused)
    greedy = after.planned.point.sampling.greedy
    return Change(
        name=" · ".join(name),
        before=before,
        after=after,
        rate=none if refused else _rate(after.planned.point, pairs, seed),
        acceptance=none if refused else _acceptance_ratio(before, after, pairs, seed),
        same=none if refused else identical_share(pairs, greedy=greedy, seed=seed),
        differs=tuple(differences(before, after)),
        refused=refused,
    )


def _refusals(before: Arm, after: Arm, pairs: Sequence[Pair]) -> Iterator[str]:
    for when, arm in (("before", before), ("after", after)):
        if not arm.usable:
            yield f"{when}: {arm.why}"
    old, new = _settings(before.planned.point), _settings(after.planned.point)
    yield from (f"{k} is {old[k]} before and {new[k]} after" for k in old if old[k] != new[k])
    for name in ("target_digest", "template_digest"):
        x, y = (section(arm.result, "model").get(name) for arm in (before, after))
        if x and y and x != y:
            yield f"model.{name} is {x} before and {y} after"
    x, y = (_caches(arm.result) for arm in (before, after))
    if x and y and x != y:
        yield f"caches are {x} before and {y} after"
    count = rendered_differently(pairs)
    if count:
        yield f"{count} prompts were rendered differently"


def _settings(point: Point) -> dict[str, Json]:
    """What must be equal, flat; the server's flags and program may differ and are said."""
    fields = {f"sampling.{k}": v for k, v in asdict(point.sampling).items() if k != "name"}
    fields |= {f"load.{k}": v for k, v in asdict(point.load).items()}
    speculative = point.server.speculative or {}
    fields |= {"speculative_config": {k: speculative[k] for k in sorted(speculative)}}
    return fields | {
        "dataset.digest": point.dataset.digest,
        "dataset.limit": point.dataset.limit,
        "repeats": point.repeats,
    }


def _caches(result: PointResult | None) -> Json:
    provenance = result.provenance if result else None
    return provenance.get("caches") if isinstance(provenance, dict) else None


def _rate(point: Point, pairs: Sequence[Pair], seed: int) -> Figure:
    return (paired_batches if point.load.batches else paired)(pairs).output_rate(seed=seed)


def _acceptance_ratio(before: Arm, after: Arm, pairs: Sequence[Pair], seed: int) -> Figure:
    """A/D after over A/D before, over what both answered: prompts, or batches of rollouts."""
    point = after.planned.point
    if point.is_baseline:
        return undefined("no speculation")
    rows = tuple(_by_batch(before, after) if point.load.batches else _by_prompt(pairs))
    if not rows:
        return _of_counters(before, after)
    boot = resample(rows, names=_COUNTS, seed=seed)
    if not (boot.total["D"] and boot.total["base_D"] and boot.total["base_A"]):
        return undefined(NOTHING)
    return boot.figure(lambda s: (s["A"] / s["D"]) / (s["base_A"] / s["base_D"]))


def _by_prompt(pairs: Sequence[Pair]) -> Iterator[tuple[str, dict[str, float]]]:
    for old, new in pairs:
        if old.spec is not None and new.spec is not None:
            yield new.prompt_id, _row(old.spec, new.spec)


def _by_batch(before: Arm, after: Arm) -> Iterator[tuple[str, dict[str, float]]]:
    base = {b.batch: b for b in before.batches if not b.error and b.drafted is not None}
    for new in after.batches:
        old = base.get(new.batch)
        if old is not None and not new.error and new.drafted is not None:
            yield same_prompts(new, batches_of(after.planned.point)), _row(old, new)


def _row(old: SpecCounts | RolloutBatch, new: SpecCounts | RolloutBatch) -> dict[str, float]:
    return {"A": new.accepted or 0, "D": new.drafted or 0,
            "base_A": old.accepted or 0, "base_D": old.drafted or 0}  # fmt: skip


def _of_counters(before: Arm, after: Arm) -> Figure:
    """Where requests report nothing, as one for several answers does; it has no interval."""
    none = unmeasured_acceptance("no per-request metrics")
    old, new = (
        with_totals(none, arm.result.counters if arm.result else None, arm.records).acceptance_rate
        for arm in (before, after)
    )
    if old.value is None or new.value is None:
        return undefined("neither requests nor the servers' counters tell what was drafted")
    if not old.value:
        return undefined(NOTHING)
    return Figure(value=new.value / old.value, reason=OF_COUNTERS)


def _lost(figure: Figure, threshold: float) -> bool:
    if figure.value is None or figure.high is None:
        return False
    return figure.high < 1 and figure.value < 1 - threshold
