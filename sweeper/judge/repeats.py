"""What the repeats of one point say each for itself: a spread beside the interval over prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sweeper.judge.speedup import Pair, Paired, paired, paired_batches
from sweeper.judge.underload import BY_OUTPUT_RATE, WORK, speedup_by
from sweeper.measure.throughput import throughput
from sweeper.plan.amount import batches_of
from sweeper.values import Load, Point, RequestRecord, RolloutBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeats:
    """One value a repeat, in their order; empty for one repeat or where it is undefined."""

    speedup: tuple[float, ...] = ()
    output_tokens_per_s: tuple[float, ...] = ()
    acceptance_rate: tuple[float, ...] = ()

    @property
    def sentence(self) -> str:
        """``over 3 repeats: speed-up 1.41 to 1.52, …``, empty without repeats."""
        shown = [
            f"{name} {min(values):.{digits}f} to {max(values):.{digits}f}"
            for name, values, digits in (
                ("speed-up", self.speedup, 2),
                ("output rate", self.output_tokens_per_s, 1),
                ("A/D", self.acceptance_rate, 3),
            )
            if values
        ]
        count = max(len(self.speedup), len(self.output_tokens_per_s), len(self.acceptance_rate))
        return f"over {count} repeats: {', '.join(shown)}" if shown else ""


def repeats_of(records: Sequence[RequestRecord], pairs: Sequence[Pair], point: Point) -> Repeats:
    """``pairs`` are those the speed-up was taken from, none where it is undefined."""
    good = [r for r in records if not r.error]
    numbers = sorted({r.repeat for r in good})
    if len(numbers) < 2:
        return Repeats()
    each = [[r for r in good if r.repeat == number] for number in numbers]
    parts = [[p for p in pairs if p[1].repeat == number] for number in numbers]
    work = WORK[speedup_by(point)]
    return Repeats(
        speedup=_all(parts, lambda part: _ratio(part, work)),
        output_tokens_per_s=_all(each, lambda part: _rate(part, point.load)),
        acceptance_rate=_all(each, _acceptance),
    )


def repeats_of_batches(
    batches: Sequence[RolloutBatch], pairs: Sequence[Pair], point: Point
) -> Repeats:
    """As :func:`repeats_of`, of rollouts: batches are numbered through all repeats, and so are the
    answers to a prompt."""
    each, good = batches_of(point), [b for b in batches if not b.error and b.batch is not None]
    numbers = sorted({(b.batch or 0) // each for b in good})
    if len(numbers) < 2:
        return Repeats()
    parts = [[b for b in good if (b.batch or 0) // each == number] for number in numbers]
    both = [[p for p in pairs if p[1].repeat // point.sampling.n == number] for number in numbers]
    return Repeats(
        speedup=_all(both, lambda part: _of_table(paired_batches(part), WORK[BY_OUTPUT_RATE])),
        output_tokens_per_s=_all(parts, _rate_of_batches),
        acceptance_rate=_all(parts, _acceptance_of_batches),
    )


def _all(parts: Sequence[Sequence[object]], of: Callable[..., float | None]) -> tuple[float, ...]:
    found = [of(part) for part in parts]
    return tuple(value for value in found if value is not None) if None not in found else ()


def _rate(records: Sequence[RequestRecord], load: Load) -> float | None:
    if load.overlapping:
        return throughput(records, load).output_tokens_per_s
    seconds = sum(r.request_time_s for r in records)
    return sum(r.completion_tokens or 0 for r in records) / seconds if seconds else None


def _rate_of_batches(batches: Sequence[RolloutBatch]) -> float | None:
    seconds = sum(b.seconds or 0.0 for b in batches)
    return sum(b.tokens or 0 for b in batches) / seconds if seconds else None


def _acceptance_of_batches(batches: Sequence[RolloutBatch]) -> float | None:
    drafted = sum(b.drafted or 0 for b in batches)
    return sum(b.accepted or 0 for b in batches) / drafted if drafted else None


def _acceptance(records: Sequence[RequestRecord]) -> float | None:
    drafted = sum(r.spec.drafted for r in records if r.spec)
    accepted = sum(r.spec.accepted for r in records if r.spec)
    return accepted / drafted if drafted else None


def _ratio(pairs: Sequence[Pair], work: Sequence[str]) -> float | None:
    """The speed-up of one repeat, by what that of the point goes by."""
    return _of_table(paired(pairs), work) if pairs else None


def _of_table(both: Paired, work: Sequence[str]) -> float | None:
    table = both.columns(*work, *(f"base_{name}" for name in work))
    sums = table[np.isfinite(table).all(axis=1)].sum(axis=0)
    done, seconds, base, base_s = map(float, sums)
    return (done / seconds) / (base / base_s) if (sums > 0).all() else None
