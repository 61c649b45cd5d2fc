"""Figures of rollout batches: how long, how fast, how long for the last ones, how well drafted.

Whole batches are resampled for the intervals: their sequences share one clock. A decode step here
is one of one sequence, so tokens per step bound the speed-up whatever the batch's size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sweeper.judge.acceptance import Acceptance
from sweeper.judge.bootstrap import Bootstrap, Figure, resample, undefined
from sweeper.judge.drafts import WITH_DRAFTS, State
from sweeper.judge.timing import NOT_PER_SECOND, Timing
from sweeper.values import Json, PointResult, RolloutBatch

DISAGREES_ABOVE = 0.1
"""Mean absolute difference in nats above which returned logprobs are not those of the target; the
noise of bf16 batches was 0.017 at most where this was looked at, a wrong sampler's above 3."""

_SUMS = ("n", "s", "tokens", "sequences", "S", "D", "A", "steps", "tail_s", "tail_of")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """``straggler_share`` is the part of the batches' time in which only their last tenth of
    sequences (one at least) was waited for. The two ``logprob`` figures compare what the server
    returned with a re-score, in nats a token: mean absolute, and largest."""

    batches: int
    batch_time_s: Figure
    output_tokens_per_s: Figure
    straggler_share: Figure
    tokens_per_step: Figure
    logprob_difference: Figure
    logprob_largest: Figure

    @property
    def logprobs_agree(self) -> bool | None:
        """``None`` where nothing was compared."""
        value = self.logprob_difference.value
        return None if value is None else value <= DISAGREES_ABOVE


def rollout(
    batches: Sequence[RolloutBatch], result: PointResult | None, each: int, seed: int
) -> Rollout:
    """Figures of the batches that came back; ``each`` are those of one repeat."""
    good = [batch for batch in batches if not batch.error and batch.seconds and batch.tokens]
    boot = _resampled(good, each, seed)
    mean, largest = _logprobs(result)
    return Rollout(
        batches=len(good),
        batch_time_s=_of(boot, "n", "no batch came back", lambda s: s["s"] / s["n"]),
        output_tokens_per_s=_of(boot, "s", "no batch came back", lambda s: s["tokens"] / s["s"]),
        straggler_share=_of(
            boot,
            "tail_of",
            "the server's count of running sequences was not seen: it shows none, or load.poll_s "
            "is longer than a batch",
            lambda s: s["tail_s"] / s["tail_of"],
        ),
        tokens_per_step=_per_step(boot),
        logprob_difference=mean,
        logprob_largest=largest,
    )


def rollout_acceptance(
    batches: Sequence[RolloutBatch], each: int, *, baseline: bool, seed: int
) -> Acceptance:
    """Acceptance pooled over batches, ``each`` a repeat, from the server's counters."""
    good = [batch for batch in batches if not batch.error]
    boot = _resampled(good, each, seed)
    state, total = _state(good, baseline), boot.total
    drafted = state in WITH_DRAFTS
    why = "" if state == "drafted" else state
    return Acceptance(
        state=state,
        verify_steps=int(total["S"]),
        drafted=int(total["D"]),
        accepted=int(total["A"]),
        without_metrics=0,
        acceptance_rate=boot.figure(lambda s: s["A"] / s["D"], why) if drafted else undefined(why),
        mean_acceptance_length=boot.figure(lambda s: 1 + s["A"] / s["S"], why)
        if drafted
        else undefined(why),
        draft_coverage=undefined(state)
        if baseline
        else _of(boot, "steps", "no decode steps counted", lambda s: s["S"] / s["steps"]),
        tokens_per_decode_step=_per_step(boot),
        survival=(),
        position_acceptance=(),
        conditional_acceptance=(),
        checked=0,
        violations=0,
    )


def timed_as_batches(times: Timing, found: Rollout) -> Timing:
    """``times``, which are of sequences and of the whole measuring window, as those of batches: a
    batch's sequences share one clock, and rates are of the time in which one was under way."""
    rate, whole = found.output_tokens_per_s, times.output_tokens_per_s.value
    by = rate.value / whole if whole and rate.value else 1.0
    rates = {
        name: figure if name in NOT_PER_SECOND else figure.scaled(by)
        for name, figure in times.rates.items()
    }
    return replace(
        times,
        request_time_s=found.batch_time_s,
        output_tokens_per_s=rate,
        latencies={**times.latencies, "e2e_ms_mean": found.batch_time_s.scaled(1e3)},
        goodput=times.goodput.scaled(by),
        rates=rates,
    )


def unmeasured_rollout(reason: str) -> Rollout:
    """The rollout figures of a point without usable batches."""
    none = undefined(reason)
    return Rollout(
        batches=0,
        batch_time_s=none,
        output_tokens_per_s=none,
        straggler_share=none,
        tokens_per_step=none,
        logprob_difference=none,
        logprob_largest=none,
    )


def rollout_notes(found: Rollout) -> tuple[str, ...]:
    """What a reader must know before training on such rollouts."""
    if found.logprobs_agree is not False:
        return ()
    return (
        f"returned logprobs are not those of a re-score: {found.logprob_difference.value:.2f} nats "
        f"a token on average; importance sampling with them would be wrong",
    )


def same_prompts(batch: RolloutBatch, each: int) -> str:
    """Names what is in a batch: its repeats are drawn together, as they are no evidence of their
    own. Batches are numbered through the repeats, ``each`` of them a repeat."""
    return str((batch.batch or 0) % each)


def _resampled(good: Sequence[RolloutBatch], each: int, seed: int) -> Bootstrap:
    return resample(((same_prompts(b, each), _row(b)) for b in good), names=_SUMS, seed=seed)


def _row(batch: RolloutBatch) -> Mapping[str, float]:
    seen = batch.tail_s is not None
    return {
        "n": 1,
        "s": batch.seconds or 0.0,
        "tokens": batch.tokens or 0,
        "sequences": batch.sequences or 0,
        "S": batch.drafts or 0,
        "D": batch.drafted or 0,
        "A": batch.accepted or 0,
        "steps": batch.decode_steps or 0,
        "tail_s": batch.tail_s or 0.0,
        "tail_of": (batch.seconds or 0.0) if seen else 0.0,
    }


def _state(good: Sequence[RolloutBatch], baseline: bool) -> State:
    if baseline:
        return "no speculation"
    if all(batch.drafted is None for batch in good):
        return "no per-request metrics"
    if not any(batch.drafted for batch in good):
        return "no drafts"
    return "drafted" if any(b.accepted for b in good) else "drafted but nothing accepted"


def _per_step(boot: Bootstrap) -> Figure:
    """The first token of a sequence comes from its prefill, not from a decode step."""
    reason = "the server counts no decode steps"
    return _of(boot, "steps", reason, lambda s: (s["tokens"] - s["sequences"]) / s["steps"])


def _of(
    boot: Bootstrap, divisor: str, reason: str, formula: Callable[[Mapping[str, Json]], Json]
) -> Figure:
    return boot.figure(formula) if boot.total[divisor] else undefined(reason)


def _logprobs(result: PointResult | None) -> tuple[Figure, Figure]:
    counters = result.counters if result and isinstance(result.counters, dict) else {}
    found = counters.get("rescore") or {"reason": "nothing was scored again"}
    if found.get("mean_absolute_difference") is None:
        none = undefined(str(found.get("reason")))
        return none, none
    of = f"{found['tokens']} tokens of {found['sequences']} sequences"
    mean, largest = found["mean_absolute_difference"], found["largest_difference"]
    return Figure(value=mean, reason=of), Figure(value=largest, reason=of)
