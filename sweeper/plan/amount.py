"""How many requests a point sends, as far as that is known before."""

from __future__ import annotations

from math import ceil

from sweeper.values import Point


def requests_of(point: Point) -> int:
    """Records that a point will write: one a turn, of rollouts one a sequence; of a load that is
    bound by time, as many as its prompts make once."""
    dataset, load = point.dataset, point.load
    turns = dataset.requests or dataset.prompts
    if load.batches:
        return dataset.prompts * point.repeats * point.sampling.n
    if load.requests:  # counts first turns
        return ceil(load.requests * turns / max(1, dataset.prompts))
    return turns * point.repeats


def batches_of(point: Point) -> int:
    """Batches of rollouts that send every prompt once: one repeat."""
    return ceil(point.dataset.prompts / point.load.batch_prompts)


def rounds_of(point: Point, requests: int) -> float:
    """How often the time of one is waited for: of rollouts that of a batch."""
    if point.load.batches:
        return batches_of(point) * point.repeats
    return requests / point.load.concurrency
