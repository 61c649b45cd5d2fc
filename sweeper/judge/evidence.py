"""The four answers about one setting, each with the numbers behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sweeper.judge.bootstrap import Figure
from sweeper.judge.breakeven import family
from sweeper.judge.compare import Comparison
from sweeper.judge.service import highest_concurrency, holds
from sweeper.judge.shown import fixed, say
from sweeper.judge.verdict import QUESTIONS, Answer, BreakEven, Evidence, State
from sweeper.values import Thresholds


def unanswered(reason: str) -> tuple[Answer, ...]:
    """All four questions, with the reason why nothing answers them."""
    return tuple(
        Answer(question=q, state="not measured", sentence=f"not measured: {reason}")
        for q in QUESTIONS
    )


def output_answer(one: Comparison, thresholds: Thresholds) -> Answer:
    """Is the output still right?"""
    check = one.output
    found = [
        ("identical_share", check.identical_share),
        ("noise_nats", check.noise),
        ("p_value", check.p_value),
        ("quality", check.quality),
        ("quality_change", check.quality_change),
    ]
    state, words = _output_state(one, thresholds)
    return _answer(0, state, words, one, found)


def _output_state(one: Comparison, thresholds: Thresholds) -> tuple[State, str]:
    check, change = one.output, one.output.quality_change
    if check.state == "wrong":
        return "no", check.sentence
    lost = thresholds.max_quality_loss
    if change.value is not None and change.value < -lost:
        certain = change.high is not None and change.high < -lost
        words = f"{check.sentence}; solved tasks changed by {say(change)}, {-lost:g} is allowed"
        return ("no" if certain else "unclear"), words
    if check.state in ("right", "numerical"):
        return "yes", check.sentence
    unclear = check.identical_share.value is not None
    return ("unclear" if unclear else "not measured"), check.sentence


def candidates_answer(
    one: Comparison, tokens: Figure, siblings: Sequence[Comparison], thresholds: Thresholds
) -> Answer:
    """Does the workload have useful candidates?

    However cheap drafting is, a speed-up is at most the tokens per decode step.
    """
    drafts, least = one.acceptance, thresholds.min_speedup
    found = [
        ("tokens_per_decode_step", tokens),
        ("draft_coverage", drafts.draft_coverage),
        ("acceptance_rate", drafts.acceptance_rate),
        ("mean_acceptance_length", drafts.mean_acceptance_length),
        *((f"survival_{i}", figure) for i, figure in enumerate(drafts.survival, start=1)),
    ]
    if drafts.state in ("no drafts", "drafted but nothing accepted"):
        return _answer(1, "no", f"{drafts.state} on this workload", one, found)
    state = _above(tokens, least)
    if tokens.value is None:
        return _answer(1, state, f"not measured: {tokens.reason}", one, found)
    words = (
        f"{say(tokens)} tokens per decode step, and {least:g} are needed if drafts cost nothing; "
        f"{_percent(drafts.draft_coverage)} of the steps had a draft, "
        f"A/D {say(drafts.acceptance_rate)}"
    )
    return _answer(1, state, "; ".join([words, *_by_construction(one, siblings)]), one, found)


def _by_construction(one: Comparison, siblings: Sequence[Comparison]) -> Iterator[str]:
    same = [c for c in siblings if family(c) == family(one)]
    rates = [(c.point.gamma, c.acceptance.acceptance_rate.value) for c in same]
    known = sorted((gamma, rate) for gamma, rate in rates if rate is not None)
    if len({gamma for gamma, _ in known}) > 1 and known[0][1] > known[-1][1]:
        (first, high), (last, low) = known[0], known[-1]
        yield (
            f"A/D falls with γ by construction ({high:.2f} at {first}, {low:.2f} at {last}) "
            "and does not choose it"
        )


def pays_answer(one: Comparison, even: BreakEven) -> Answer:
    """Does a step pay for itself?"""
    found = [
        ("step_cost", even.step_cost),
        ("tokens_needed", even.needed),
        ("tokens_got", even.got),
        ("margin", even.margin),
        ("speedup", one.speedup),
    ]
    if even.margin.value is None:
        return _answer(2, "not measured", f"not measured: {even.margin.reason}", one, found)
    words = (
        f"a step costs {say(even.step_cost)} baseline steps, so it needs {say(even.needed)} "
        f"tokens and gets {say(even.got)}: a margin of {_signed_percent(even.margin)}"
    )
    words = "; ".join([words, *_cheap(even.step_cost)])
    return _answer(2, _above(even.margin, 0.0), words, one, found)


def _cheap(cost: Figure) -> Iterator[str]:
    """A speculative step does what a baseline step does, and drafts and verifies besides."""
    if cost.value is None or cost.value >= 1 or (cost.high is not None and cost.high >= 1):
        return
    because = "the two servers differ in something else (scheduler, runner, how many share a step)"
    if cost.high is None:
        because = f"there is no interval, so it may be noise, or {because}"
    yield f"no step gets cheaper by drafting: {because}"


def service_answer(
    one: Comparison,
    baseline: Comparison | None,
    at_all_loads: Mapping[int, Sequence[Comparison]],
    thresholds: Thresholds,
) -> Answer:
    """Does the SLO hold under load? ``at_all_loads``: :func:`sweeper.judge.service.over_loads`."""
    names = ("ttft_ms_p95", "ttft_ms_p99", "tpot_ms_p95", "tpot_ms_p99")
    found = [(name, one.latencies[name]) for name in names]
    found += [("goodput", one.goodput), ("slo_share", one.slo_share)]
    if baseline is not None:
        found.append(("slo_share_baseline", baseline.slo_share))
    mine = highest_concurrency(at_all_loads[one.number], thresholds)
    base = None
    if baseline is not None:
        base = highest_concurrency(at_all_loads[baseline.number], thresholds)
    found += [
        (name, Figure(value=float(value)))
        for name, value in (("concurrency", mine), ("concurrency_baseline", base))
        if value is not None
    ]
    held = holds(one, thresholds)
    if held is None:
        return _answer(3, "not measured", f"not measured: {one.slo_share.reason}", one, found)
    words = f"{_percent(one.slo_share)} of the requests kept the SLO"
    if baseline is not None and baseline.slo_share.value is not None:
        words += f", {_percent(baseline.slo_share)} at the baseline"
    words += f"; {100 * thresholds.slo_share:g} % are asked for"
    if mine is not None:
        words += f"; it holds {_up_to(mine)}"
        words += f", at the baseline {_up_to(base)}" if base is not None else ""
    return _answer(3, "yes" if held else "no", words, one, found)


def _up_to(concurrency: int) -> str:
    return f"up to concurrency {concurrency}" if concurrency else "at no measured concurrency"


def _answer(
    number: int,
    state: State,
    sentence: str,
    one: Comparison,
    found: Sequence[tuple[str, Figure]],
) -> Answer:
    """With every figure that has a value as evidence."""
    evidence = (
        Evidence(name=name, figure=figure, unit=_unit(name), point=one.number)
        for name, figure in found
        if figure.value is not None
    )
    return Answer(
        question=QUESTIONS[number], state=state, sentence=sentence, evidence=tuple(evidence)
    )


def _unit(name: str) -> str:
    if "_ms_" in name:
        return "ms"
    return {"goodput": "requests/s", "noise_nats": "nats"}.get(name, "")


def _above(figure: Figure, limit: float) -> State:
    if figure.value is None:
        return "not measured"
    if figure.low is None or figure.high is None:
        return "unclear" if figure.value > limit else "no"
    return "yes" if figure.low > limit else "no" if figure.high < limit else "unclear"


def _percent(figure: Figure) -> str:
    return "an unknown share" if figure.value is None else f"{100 * figure.value:.0f} %"


def _signed_percent(figure: Figure) -> str:
    if figure.value is None:
        return "not measured"
    text = f"{100 * figure.value:+.0f} %"
    if figure.low is None or figure.high is None:
        return text
    low, high = (f"{'+' * (end > 0)}{fixed(100 * end, 0)}" for end in (figure.low, figure.high))
    return f"{text} [{low}, {high}]"
