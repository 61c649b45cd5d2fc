"""What must be said in words beside a point's figures."""

from __future__ import annotations

from collections.abc import Iterator

from sweeper.judge.acceptance import Acceptance
from sweeper.judge.arms import Arm
from sweeper.judge.divergence import Divergence
from sweeper.judge.output import OutputCheck
from sweeper.judge.totals import OF_COUNTERS

FEWER_BELOW = 0.01
"""The p-value of the paired test under which lower quality is said beside a point."""
HIGH, TINY = 0.5, 0.2
"""An A/D from which, and a coverage up to which, the first says nothing about speed."""
SHOWN_OF_TEXT = 40
"""Characters of a text in a note."""


def cut_notes(arm: Arm, output: OutputCheck) -> Iterator[str]:
    """Low quality of every arm may be the length limit's doing; said once, of the baseline."""
    cut = sum(record.finish_reason == "length" for record in arm.records)
    if cut and output.quality.value is not None:
        yield f"quality counts {cut} of {len(arm.records)} answers that were cut at max_tokens"


def output_notes(output: OutputCheck) -> Iterator[str]:
    """What must not be missed in any table; of a wrong output its worst differences as text."""
    if output.state == "wrong":
        yield f"WRONG OUTPUT: {output.sentence}"
        yield from map(_difference, output.worst)
    fewer = output.quality_change.value is not None and output.quality_change.value < 0
    if fewer and output.quality_p is not None and output.quality_p < FEWER_BELOW:
        yield f"task quality below the baseline's (exact paired test, p={output.quality_p:.2g})"


def _difference(one: Divergence) -> str:
    """``p3, token 12: after "the cat" the baseline goes on "sat", this "flew" (2.3 nats …)``."""
    where = one.prompt_id if one.position is None else f"{one.prompt_id}, token {one.position}"
    words = f"{where}: after {_quoted(one.before[-SHOWN_OF_TEXT:])} the baseline goes on "
    words += f"{_quoted(one.baseline_text[:SHOWN_OF_TEXT])}, this {_quoted(one.text)}"
    if one.gap is None:
        return words
    return f"{words} ({'more than ' * one.at_least}{one.gap:.2g} nats less likely)"


def _quoted(text: str) -> str:
    return f'"{text[:SHOWN_OF_TEXT]}"'.replace("\n", "⏎") if text else "with nothing"


def acceptance_notes(found: Acceptance) -> Iterator[str]:
    """Where rates must be read with care."""
    if found.acceptance_rate.reason == OF_COUNTERS:
        yield f"acceptance is {OF_COUNTERS} (requests reported none)"
    rate, coverage = found.acceptance_rate.value, found.draft_coverage.value
    if rate is not None and coverage is not None and rate >= HIGH and coverage <= TINY:
        yield (
            f"high A/D ({rate:.2f}) at tiny coverage ({100 * coverage:.0f} % of the decode steps "
            "had a draft): what is drafted is mostly right, and little is drafted"
        )
    if found.violations:
        yield f"{found.violations} of {found.checked} requests: tokens and steps do not add up"
    if found.without_metrics and found.state != "no per-request metrics":
        yield f"{found.without_metrics} requests without speculation metrics are not in A/D"
