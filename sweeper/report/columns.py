"""The columns of ``points.csv``, ``points.parquet`` and the names of MLflow's metrics.

People script against the names and their order: new columns go to the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sweeper.judge.bootstrap import Figure, undefined
from sweeper.judge.compare import Comparison
from sweeper.judge.profile import Profile
from sweeper.judge.rollout import Rollout
from sweeper.judge.timing import LATENCIES, MORE_LATENCIES, RATES
from sweeper.values import Load, Point

TEXT, INTEGER, NUMBER, FLAG = "string", "Int64", "Float64", "boolean"
_INTERVALS = (
    "acceptance_rate",
    "mean_acceptance_length",
    "draft_coverage",
    "tokens_per_decode_step",
    "request_time_s",
    "output_tokens_per_s",
    "identical_share",
)
_MEANS = tuple(name for name in MORE_LATENCIES if name.endswith("_mean"))

_REPEATS = ("speedup", "output_tokens_per_s", "acceptance_rate")


ROLLOUT: dict[str, Callable[[Rollout], Figure]] = {
    "batch_time_s": lambda r: r.batch_time_s,
    "straggler_share": lambda r: r.straggler_share,
    "logprob_difference": lambda r: r.logprob_difference,
    "logprob_largest": lambda r: r.logprob_largest,
}
"""Figures that only rollouts have."""
STEP_SHARES: dict[str, Callable[[Profile], Figure]] = {
    "step_draft_share": lambda p: p.draft,
    "step_verify_share": lambda p: p.verify,
    "step_sample_share": lambda p: p.sample,
    "step_rest_share": lambda p: p.rest,
}
"""Parts of a profiled decode step."""
_RATIOS = ("speedup", "speedup_request_time", "speedup_tpot", "step_cost")


def positions(comparisons: Sequence[Comparison]) -> int:
    """The largest draft position any point has a figure for, or a γ asked for."""
    return max((len(c.acceptance.survival) or c.point.gamma for c in comparisons), default=0)


def columns(longest: int) -> dict[str, str]:
    """Name and type of every column, in order, for ``longest`` draft positions."""
    each = range(1, longest + 1)
    return {
        **dict.fromkeys(("method",), TEXT),
        "gamma": INTEGER,
        **dict.fromkeys(("dataset", "sampling", "load", "status", "reason"), TEXT),
        **dict.fromkeys(("speedup", "speedup_low", "speedup_high"), NUMBER),
        **dict.fromkeys(_INTERVALS[:4], NUMBER),
        **{f"survival_{i}": NUMBER for i in each},
        **dict.fromkeys(("request_time_s", "output_tokens_per_s"), NUMBER),
        **dict.fromkeys((*LATENCIES, "goodput", "success_rate", "identical_share"), NUMBER),
        "quality": NUMBER,
        "verdict": TEXT,
        "target": TEXT,
        **dict.fromkeys(("point", "baseline"), INTEGER),
        "key": TEXT,
        **dict.fromkeys(("warm", "synthetic"), FLAG),
        "speedup_reason": TEXT,
        **{f"speedup_request_time{end}": NUMBER for end in ("", "_low", "_high")},
        **{f"{name}_{end}": NUMBER for name in _INTERVALS for end in ("low", "high")},
        **{f"position_acceptance_{i}": NUMBER for i in each},
        **{f"conditional_acceptance_{i}": NUMBER for i in each},
        **dict.fromkeys(("requests", "failed_requests"), INTEGER),
        **dict.fromkeys(("verify_steps", "drafted_tokens", "accepted_tokens"), INTEGER),
        **dict.fromkeys(("identity_checked", "identity_violations"), INTEGER),
        "notes": TEXT,
        **dict.fromkeys(ROLLOUT, NUMBER),
        "concurrency": INTEGER,
        "rate": NUMBER,
        "speedup_by": TEXT,
        "speedup_throughput": NUMBER,
        **dict.fromkeys((*MORE_LATENCIES, *RATES), NUMBER),
        **{f"{name}_{end}": NUMBER for name in _MEANS for end in ("low", "high")},
        "one_token_answers": INTEGER,
        **{f"speedup_tpot{end}": NUMBER for end in ("", "_low", "_high")},
        **{f"step_cost{end}": NUMBER for end in ("", "_low", "_high")},
        "cached_share": NUMBER,
        **{f"{name}_repeats_{end}": NUMBER for name in _REPEATS for end in ("low", "high")},
        **dict.fromkeys(STEP_SHARES, NUMBER),
        **dict.fromkeys(("quality_low", "quality_high", "quality_p"), NUMBER),
        "output": TEXT,
        "conditions": TEXT,
        **dict.fromkeys(("n", "batch_prompts"), INTEGER),
        "policy_version": TEXT,
    }


def figures(one: Comparison) -> dict[str, Figure]:
    """Every figure of a point by column name, defined or not."""
    drafts = one.acceptance
    single = {
        "speedup": one.speedup,
        "speedup_request_time": one.speedup_request_time,
        "speedup_throughput": one.speedup_throughput,
        "acceptance_rate": drafts.acceptance_rate,
        "mean_acceptance_length": drafts.mean_acceptance_length,
        "draft_coverage": drafts.draft_coverage,
        "tokens_per_decode_step": drafts.tokens_per_decode_step,
        "request_time_s": one.request_time_s,
        "output_tokens_per_s": one.output_tokens_per_s,
        "identical_share": one.identical_share,
        "quality": one.output.quality,
        "quality_p": _quality_p(one),
        "goodput": one.goodput,
        "success_rate": _success_rate(one),
        "speedup_tpot": one.speedup_tpot,
        "step_cost": one.step_cost,
        "cached_share": one.cached_share,
        **one.latencies,
        **one.rates,
        **{name: share(one.profile) for name, share in STEP_SHARES.items()},
    }
    return single | _by_position(one) | _of_rollouts(one)


def _of_rollouts(one: Comparison) -> dict[str, Figure]:
    if one.rollout is None:
        return dict.fromkeys(ROLLOUT, undefined("measured with load=rollout only"))
    return {name: figure(one.rollout) for name, figure in ROLLOUT.items()}


def _quality_p(one: Comparison) -> Figure:
    if one.output.quality_p is None:
        return undefined(one.output.quality_change.reason or "answers were not compared")
    return Figure(value=one.output.quality_p)


def output(one: Comparison) -> str | None:
    """``right``, ``numerical`` or ``wrong``; ``None`` where it was not measured."""
    state = one.output.state
    return None if state == "not measured" else state


def _success_rate(one: Comparison) -> Figure:
    if one.success_rate is None:
        return undefined(one.reason or "no request was sent")
    return Figure(value=one.success_rate)


def _by_position(one: Comparison) -> dict[str, Figure]:
    drafts = one.acceptance
    kinds = {
        "survival": drafts.survival,
        "position_acceptance": drafts.position_acceptance,
        "conditional_acceptance": drafts.conditional_acceptance,
    }
    return {f"{k}_{i}": f for k, each in kinds.items() for i, f in enumerate(each, start=1)}


def row(one: Comparison, verdict: str | None = None) -> Mapping[str, object]:
    """The cells of a point by column name; what is undefined is ``None``."""
    found = figures(one)
    cells: dict[str, object] = {name: figure.value for name, figure in found.items()}
    for name in (*_INTERVALS, *_MEANS, *_RATIOS, "quality"):
        cells |= {f"{name}_low": found[name].low, f"{name}_high": found[name].high}
    return cells | _repeats(one) | _identity(one) | _counts(one) | {"verdict": verdict}


def _repeats(one: Comparison) -> dict[str, object]:
    """Lowest and highest of the repeats, where there are several."""
    found = {name: getattr(one.repeats, name) for name in _REPEATS}
    low = {f"{name}_repeats_low": min(v, default=None) for name, v in found.items()}
    return low | {f"{name}_repeats_high": max(v, default=None) for name, v in found.items()}


def _identity(one: Comparison) -> dict[str, object]:
    point = one.point
    return {
        "method": point.method,
        "gamma": point.gamma,
        "dataset": point.dataset.name,
        "sampling": point.sampling.name,
        "load": point.load.name,
        "concurrency": concurrency(point.load),
        "rate": point.load.rate if point.load.name == "open" else None,
        "speedup_by": None if point.is_baseline else one.speedup_by,
        "status": one.status,
        "reason": one.reason or None,
        "target": point.target,
        "conditions": one.conditions or None,
        **rollout_settings(point),
        "point": one.number,
        "baseline": one.baseline,
        "key": one.planned.key,
        "warm": point.warm,
        "synthetic": one.synthetic,
        "output": output(one),
        "speedup_reason": one.speedup.reason or None,
        "notes": "; ".join(one.notes) or None,
    }


def rollout_settings(point: Point) -> dict[str, object]:
    """Answers to a prompt; the batch and the weights that a rollout names."""
    load, batches = point.load, point.load.batches
    return {
        "n": point.sampling.n,
        "batch_prompts": load.batch_prompts if batches else None,
        "policy_version": load.policy_version if batches else None,
    }


def concurrency(load: Load) -> int | None:
    """Requests under way together, where the load says how many."""
    if load.name == "closed":
        return load.concurrency
    return None if load.overlapping else 1


def _counts(one: Comparison) -> dict[str, object]:
    """Totals; absent without a result, and without metrics where speculation was not counted."""
    drafts, result = one.acceptance, one.result
    counted = drafts.state not in ("no per-request metrics", "no speculation")
    return {
        "requests": result.requests if result else None,
        "failed_requests": result.failed if result else None,
        "verify_steps": drafts.verify_steps if counted else None,
        "drafted_tokens": drafts.drafted if counted else None,
        "accepted_tokens": drafts.accepted if counted else None,
        "one_token_answers": one.one_token,
        "identity_checked": drafts.checked if one.completed else None,
        "identity_violations": drafts.violations if one.completed else None,
    }
