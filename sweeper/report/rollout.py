"""What rollout batches cost and whether a trainer may use them: a table under the comparison."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from sweeper.judge.bootstrap import Figure
from sweeper.judge.compare import Comparison
from sweeper.judge.judgement import Judgement
from sweeper.judge.rollout import Rollout
from sweeper.judge.verdict import WorkloadVerdict
from sweeper.report.labels import NOT_MEASURED, heading, labels

_HEADER = (
    *("method γ", "batch\ntime s", "tokens/s", "A/D", "tokens/\nstep", "waiting for\nthe last"),
    *("logprobs\nmean max |Δ|", "speed-up\n\\[low, high]", "verdict"),
)


def print_rollouts(console: Console, judgement: Judgement) -> None:
    """Nothing where no point is a rollout."""
    for workload in judgement.workloads:
        arms = (*((workload.baseline,) if workload.baseline else ()), *workload.candidates)
        done = tuple(one for one in arms if one.rollout is not None and one.completed)
        if not done:
            continue
        names = labels(done)
        table = Table(title=f"rollouts · {heading(done)}", box=None, title_justify="left")
        for name in _HEADER:
            table.add_column(name, justify="left" if name == _HEADER[0] else "right", no_wrap=True)
        for one in done:
            table.add_row(names[one.number], *_cells(one), _verdict(one, workload))
        console.print(table)


def _verdict(one: Comparison, workload: WorkloadVerdict) -> str:
    """A workload has one verdict: on the setting that is recommended, else on the fastest."""
    about = workload.recommended or workload.best
    if about is None or about.number != one.number:
        return "-"
    return workload.verdict or "-"


def _cells(one: Comparison) -> tuple[str, ...]:
    found = one.rollout
    if found is None:
        return ()
    return (
        _say(found.batch_time_s, "{:.2f}"),
        _say(found.output_tokens_per_s, "{:.1f}"),
        "-" if one.point.is_baseline else _say(one.acceptance.acceptance_rate, "{:.3f}"),
        _say(found.tokens_per_step, "{:.2f}"),
        _say(found.straggler_share, "{:.0%}"),
        _agreement(found),
        "baseline" if one.point.is_baseline else _ratio(one.speedup),
    )


def _agreement(found: Rollout) -> str:
    mean, largest = found.logprob_difference.value, found.logprob_largest.value
    if mean is None or largest is None:
        return NOT_MEASURED
    return f"{'agree' if found.logprobs_agree else 'DISAGREE'} {mean:.3f} {largest:.3f}"


def _say(figure: Figure, shape: str) -> str:
    return NOT_MEASURED if figure.value is None else shape.format(figure.value)


def _ratio(figure: Figure) -> str:
    """Never without its interval."""
    if figure.value is None or figure.low is None or figure.high is None:
        return NOT_MEASURED
    return f"{figure.value:.2f} [{figure.low:.2f}, {figure.high:.2f}]"
