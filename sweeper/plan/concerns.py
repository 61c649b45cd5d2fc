"""Which known defects of vLLM concern a point, and what is said of them."""

from __future__ import annotations

from collections.abc import Iterator

from sweeper.plan.defect import Facts, no_triton
from sweeper.plan.defects import DEFECTS
from sweeper.values import Point


def known_workarounds() -> tuple[str, ...]:
    """What ``server.workarounds`` may name."""
    return tuple(defect.id for defect in DEFECTS if defect.workaround)


def refusals(point: Point, here: Facts | None) -> tuple[str, ...]:
    """Why this vLLM would measure something wrong at ``point``, and what would be right."""
    return (*_wrong_workarounds(point, here), *_sentences("refuse", point, here))


def cautions(point: Point, here: Facts | None) -> tuple[str, ...]:
    """What a reader of this point's figures must know of this vLLM."""
    return tuple(_sentences("warn", point, here))


def _sentences(severity: str, point: Point, here: Facts | None) -> Iterator[str]:
    for defect in DEFECTS:
        if defect.severity == severity and defect.concerns(point, here):
            yield f"{defect.consequence.format(point=point)} ({defect.reference})"


def _wrong_workarounds(point: Point, here: Facts | None) -> Iterator[str]:
    """A name nobody knows, and a plugin for CPU kernels on a GPU, would change nothing unseen."""
    known = known_workarounds()
    for name in point.server.workarounds:
        if name not in known:
            yield f"server.workarounds: {name}: unknown; known: {', '.join(known)}"
        elif here is not None and not no_triton(here):
            yield f"server.workarounds: {name}: this vLLM does not need it; remove it"
