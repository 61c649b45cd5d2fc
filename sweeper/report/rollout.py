"""What rollout batches cost and whether a trainer may use them: a table under the comparison."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.text import Text

from sweeper.judge.bootstrap import Figure
from sweeper.judge.compare import Comparison
from sweeper.judge.judgement import Judgement
from sweeper.judge.rollout import Rollout
from sweeper.judge.shown import say
from sweeper.report.labels import NOT_MEASURED, heading, labels
from sweeper.report.slices import SliceTable
from sweeper.report.slicetable import print_parts
from sweeper.report.wording import escape

_HEADER = (
    *("method γ", "batch\ntime s", "tokens/s", "A/D", "tokens/\nstep", "waiting for\nthe last"),
    *("logprobs\nmean max |Δ|", "speed-up\n[low, high]", "verdict"),
)


def print_rollouts(console: Console, judgement: Judgement) -> None:
    """Nothing where no point is a rollout; in parts where a table is wider than the terminal."""
    for title, rows in _tables(judgement):
        console.print(Text(title, style="bold"))
        print_parts(console, SliceTable(title=title, rows=(_HEADER, *rows), names=1))


def rollouts_markdown(judgement: Judgement) -> tuple[str, ...]:
    """A section for every workload of rollouts."""
    header = [" ".join(name.split()).replace("tokens/ step", "tokens/step") for name in _HEADER]
    return tuple(
        "\n".join(
            (
                f"## {escape(title)}",
                "",
                _line(map(escape, header)),
                _line("---" for _ in header),
                *(_line(map(escape, row)) for row in rows),
            )
        )
        for title, rows in _tables(judgement)
    )


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _tables(judgement: Judgement) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """Heading and rows of every workload that has rollouts, the baseline first."""
    for workload in judgement.workloads:
        arms = (*workload.baselines, *workload.candidates)
        done = tuple(one for one in arms if one.rollout is not None and one.completed)
        if done:
            names = labels(done)
            words = workload.words
            rows = [(names[c.number], *_cells(c), words.get(c.number, "-")) for c in done]
            yield f"rollouts · {heading(done)}", rows


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
    return say(figure)
