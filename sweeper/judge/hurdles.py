"""What a setting must get over to be deployed, one after the other.

Each says what speaks against the setting, and what would settle an open question; at most one of
the two is not empty.
"""

from __future__ import annotations

from math import ceil

from sweeper.judge.bootstrap import Figure
from sweeper.judge.comparable import busy
from sweeper.judge.compare import Comparison
from sweeper.judge.ratio import MOST_PROMPTS
from sweeper.judge.service import holds
from sweeper.judge.shown import say
from sweeper.judge.verdict import Answer
from sweeper.values import Thresholds


def speed(
    speedup: Figure, count: int, units: str, needed: int | None, thresholds: Thresholds
) -> tuple[str, str]:
    """``count`` is how many ``units``, prompts or batches, all arms answered, ``needed`` how many
    would settle it."""
    least = thresholds.min_speedup
    low, high = speedup.low or 0.0, speedup.high or 0.0
    if count < thresholds.min_prompts:
        return "", f"{count} {units} decide nothing; measure {thresholds.min_prompts} or more"
    if high < least:
        return f"speed-up {say(speedup)} is below {least:g}", ""
    if low > least:
        return "", ""
    more = f"about {needed} {units} would" if needed else f"no number of {units} is likely to"
    return "", f"speed-up {say(speedup)} does not settle {least:g} on {count} {units}; {more}"


def calm(one: Comparison, baseline: Comparison | None) -> str:
    """What is open because times were taken on a machine that was busy; empty where it was not."""
    for arm in (one, baseline):
        if arm is not None and (text := busy(arm.result)):
            return f"{text} when {arm.point.label} was measured; measure again when it is not"
    return ""


def output(
    one: Comparison, answer: Answer, count: int, units: str, thresholds: Thresholds
) -> tuple[str, str]:
    """Of the first answer, at the strictness that was asked for; ``count`` as in :func:`speed`."""
    if thresholds.output == "any" or answer.state == "yes":
        return "", ""
    if answer.state == "no":
        return f"the output is not right: {answer.sentence}", ""
    if thresholds.output == "not wrong":
        return "", ""
    how = "check=output" if one.point.sampling.greedy else "check=distribution"
    again = f"; measure it with its baseline and {how}" if answer.state == "not measured" else ""
    needed = _tasks_needed(one.output.quality_change, count, thresholds)
    again += f"; about {needed} {units} would tell" if needed else ""
    return "", f"whether the output is still right is open: {answer.sentence}{again}"


def _tasks_needed(change: Figure, count: int, thresholds: Thresholds) -> int | None:
    """How many would tell that a loss of solved tasks is one, if it stays what it is; ``None``
    where there is none to speak of. Its interval shrinks with the root of their number."""
    allowed = -thresholds.max_quality_loss
    if change.value is None or change.high is None or not change.value < allowed <= change.high:
        return None
    needed = ceil(count * ((change.high - change.value) / (allowed - change.value)) ** 2)
    return needed if needed <= MOST_PROMPTS else None


def service(
    one: Comparison, baseline: Comparison | None, answer: Answer, thresholds: Thresholds
) -> tuple[str, str]:
    """An SLO that the baseline does not hold either speaks against no setting."""
    held = holds(one, thresholds)
    if held is False and not (baseline is not None and holds(baseline, thresholds) is False):
        return f"the SLO does not hold: {answer.sentence}", ""
    if held is None and thresholds.need_slo:
        return "", f"whether the SLO holds is open: {one.slo_share.reason}"
    return "", ""
