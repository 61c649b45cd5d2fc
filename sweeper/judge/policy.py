"""Acceptance by policy version: a draft that stays behind when the weights of its target move.

Outputs stay right when that happens, so nothing but acceptance shows it, and a mean over versions
hides it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sweeper.values import RolloutBatch

COLLAPSED_BELOW = 0.5
"""Share of the best earlier version's acceptance rate below which a version has collapsed."""
SURE = 3.0
"""Standard errors a difference must have where drafted tokens were counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """Sums over the batches of one policy version; ``rate`` is A/D, ``None`` without drafts.

    ``collapsed`` says what acceptance was before, and is empty where there is nothing to say.
    """

    name: str
    batches: int
    drafted: int | None
    accepted: int | None
    rate: float | None
    tokens_per_step: float | None
    collapsed: str = ""


def by_version(batches: Iterable[RolloutBatch]) -> tuple[Version, ...]:
    """Versions in the order in which they first appear, each compared with the best before it."""
    grouped: dict[str, list[RolloutBatch]] = {}
    for batch in batches:
        if not batch.error:
            grouped.setdefault(batch.policy_version, []).append(batch)
    found: list[Version] = []
    for name, some in grouped.items():
        found.append(_compared(name, some, found))
    return tuple(found)


def _compared(name: str, batches: Sequence[RolloutBatch], earlier: Sequence[Version]) -> Version:
    plain = _version(name, batches)
    sentence = _collapse(plain, _best(earlier))
    return _version(name, batches, sentence) if sentence else plain


def _version(name: str, batches: Sequence[RolloutBatch], collapsed: str = "") -> Version:
    counted = [b for b in batches if b.drafted is not None and b.accepted is not None]
    drafted = sum(b.drafted or 0 for b in counted) if counted else None
    accepted = sum(b.accepted or 0 for b in counted) if counted else None
    rates = [b.acceptance_rate for b in batches if b.acceptance_rate is not None]
    stepped = [b for b in batches if b.decode_steps and b.tokens and b.sequences]
    steps = sum(b.decode_steps or 0 for b in stepped)
    emitted = sum((b.tokens or 0) - (b.sequences or 0) for b in stepped)
    said = sum(rates) / len(rates) if rates else None
    return Version(
        name=name,
        batches=len(batches),
        drafted=drafted,
        accepted=accepted,
        rate=(accepted or 0) / drafted if drafted else said,
        tokens_per_step=emitted / steps if steps else None,
        collapsed=collapsed,
    )


def _best(versions: Sequence[Version]) -> Version | None:
    measured = [v for v in versions if v.rate is not None]
    return max(measured, key=lambda v: v.rate or 0.0, default=None)


def _collapse(now: Version, best: Version | None) -> str:
    if best is None or not best.rate:
        return ""
    if now.rate is None:
        if now.drafted != 0:
            return ""
        return f"nothing was drafted; version {best.name} drafted {best.drafted} tokens"
    if now.rate >= COLLAPSED_BELOW * best.rate or not _sure(now, best):
        return ""
    return (
        f"acceptance {now.rate:.3f} after {best.rate:.3f} in version {best.name}: "
        f"was the draft refreshed with the target?"
    )


def _sure(now: Version, best: Version) -> bool:
    """Two proportions; rates that came without counts are taken at their word."""
    if not now.drafted or not best.drafted or now.rate is None or best.rate is None:
        return True
    pooled = ((now.accepted or 0) + (best.accepted or 0)) / (now.drafted + best.drafted)
    error = math.sqrt(pooled * (1 - pooled) * (1 / now.drafted + 1 / best.drafted))
    return error > 0 and (best.rate - now.rate) / error >= SURE
