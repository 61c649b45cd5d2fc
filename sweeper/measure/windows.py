"""Acceptance over time and by sequence length: a draft that dies half-way or past its context.

A mean over a whole point hides both. A window in which drafts were made and none was accepted is
``dead``; it is reported where that is no accident of a few steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from sweeper.measure.chance import Tally, refusals_by_chance
from sweeper.measure.stretches import SHORTEST, WINDOWS, Window
from sweeper.values import RequestRecord, SpecCounts

GROUPS = 5000
"""More requests than these are told apart only in groups of neighbours."""
BY_CHANCE = 1e-3
"""A dead window is reported where it is less likely than this, given the other requests."""


class Step(NamedTuple):
    """Drafts of one verify step, or of several at once where steps are not reported one by one.

    ``hits`` are the steps in which something was accepted; ``request`` numbers the requests.
    """

    request: int
    second: float
    length: float
    steps: int
    drafted: int
    accepted: int
    hits: int


Tallies = dict[int, Tally]
"""By request."""


def dead_windows(records: Iterable[RequestRecord]) -> list[str]:
    """A sentence for every dead stretch of time and every dead length bucket that is no accident.

    A point of which nothing was accepted at all is dead everywhere, which other checks say.
    ``records`` are gone through twice.
    """
    by_time, by_length = _windows(records)
    times = [f"from {w.start:.1f} s to {w.end:.1f} s" for w in improbable(by_time)]
    lengths = [
        f"at {w.start:g} to {w.end:g} tokens of prompt and answer" for w in improbable(by_length)
    ]
    return [f"no draft was accepted {where}" for where in (*times, *lengths)]


Part = tuple[Window, Tallies]


def _windows(
    records: Iterable[RequestRecord], windows: int = WINDOWS
) -> tuple[list[Part], list[Part]]:
    """By time and by length."""
    first, last, count = math.inf, -math.inf, 0
    for record in records:
        first, last = min(first, record.sent_ns), max(last, record.done_ns)
        count += 1
    if not count:
        return [], []
    start = first / 1e9
    width = (last / 1e9 - start) / windows or 1.0
    times: list[Part] = [
        (Window(start=start + i * width, end=start + (i + 1) * width), {}) for i in range(windows)
    ]
    lengths: dict[int, Part] = {}
    stride = -(-count // GROUPS)
    for step in _all_steps(records, stride):
        at = min(windows - 1, max(0, int((step.second - start) / width)))
        times[at] = plus(*times[at], step)
        end = SHORTEST
        while step.length >= end:
            end *= 2
        empty = Window(start=0 if end == SHORTEST else end // 2, end=end)
        lengths[end] = plus(*lengths.get(end, (empty, {})), step)
    return times if lengths else [], [lengths[end] for end in sorted(lengths)]


def improbable(parts: Sequence[Part]) -> Iterator[Window]:
    """Dead windows, neighbours as one, that the requests elsewhere make improbable."""
    for first, last in _runs([window.dead for window, _ in parts]):
        refused = _merged(tallies for _, tallies in parts[first:last])
        elsewhere = _merged(tallies for _, tallies in (*parts[:first], *parts[last:]))
        if refusals_by_chance(refused, elsewhere) < BY_CHANCE:
            yield replace(parts[first][0], end=parts[last - 1][0].end)


def _runs(flags: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """First and one past the last of every run of true flags."""
    padded = [False, *flags, False]
    edges = [at for at in range(len(flags) + 1) if padded[at] != padded[at + 1]]
    yield from zip(edges[::2], edges[1::2], strict=True)


def _merged(many: Iterable[Tallies]) -> list[Tally]:
    """The tally of every request over several windows."""
    found: Tallies = {}
    for request, tally in (item for tallies in many for item in tallies.items()):
        before = found.get(request, Tally(0, 0))
        found[request] = Tally(before.steps + tally.steps, before.hits + tally.hits)
    return list(found.values())


def _all_steps(records: Iterable[RequestRecord], stride: int) -> Iterator[Step]:
    """``stride`` neighbours count as one request, so that a long run takes no more memory."""
    for number, record in enumerate(records):
        yield from _steps(number // stride, record)


def _steps(number: int, record: RequestRecord) -> Iterator[Step]:
    """The steps of one request, placed evenly over its decoding.

    Steps without a draft are not in the server's arrays, so the place of the others is known only
    between the first token and the last.
    """
    spec = record.spec
    if record.error or spec is None or not spec.drafted:
        return
    prompt, answer = record.prompt_tokens or 0, record.completion_tokens or 0
    first = record.sent_ns if record.first_ns is None else record.first_ns
    if spec.per_step_drafted is None or spec.per_step_accepted is None:
        sums = (spec.verify_steps, spec.drafted, spec.accepted, _hits(spec))
        yield Step(number, record.done_ns / 1e9, prompt + answer, *sums)
        return
    count = len(spec.per_step_drafted)
    pairs = zip(spec.per_step_drafted, spec.per_step_accepted, strict=True)
    for at, (drafted, accepted) in enumerate(pairs):
        share = (at + 0.5) / count
        second = (first + share * (record.done_ns - first)) / 1e9
        length = prompt + share * answer
        yield Step(number, second, length, 1, drafted, accepted, int(accepted > 0))


def _hits(spec: SpecCounts) -> int:
    """Steps with something accepted; without a histogram as few as there can be on average."""
    if spec.histogram:
        return spec.verify_steps - spec.histogram[0]
    return round(spec.verify_steps * spec.accepted / spec.drafted)


def plus(window: Window, tallies: Tallies, step: Step) -> Part:
    """The window with one more step in it; ``tallies`` themselves are added to."""
    before = tallies.get(step.request, Tally(0, 0))
    tallies[step.request] = Tally(before.steps + step.steps, before.hits + step.hits)
    more = Window(
        start=window.start,
        end=window.end,
        verify_steps=window.verify_steps + step.steps,
        drafted=window.drafted + step.drafted,
        accepted=window.accepted + step.accepted,
    )
    return more, tallies
