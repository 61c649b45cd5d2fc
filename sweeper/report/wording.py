"""The verdict in the words that terminal, page, Markdown and MLflow share."""

from __future__ import annotations

from sweeper.judge.compare import Comparison
from sweeper.judge.judgement import Judgement
from sweeper.judge.verdict import Word, WorkloadVerdict
from sweeper.judge.words import evidence_lines


def verdict_words(verdict: Word | None, recommended: Comparison | None) -> str:
    """``deploy ngram γ=4``, ``don't speculate``, ``inconclusive``, ``no verdict``."""
    if verdict == "deploy":
        return f"deploy {recommended.point.label}" if recommended else "deploy"
    if verdict == "don't":
        return "don't speculate"
    return verdict or "no verdict"


def workload_line(one: WorkloadVerdict) -> str:
    """``code · greedy · sequential · org/model: deploy ngram γ=4. …``."""
    return f"{one.name}: {verdict_words(one.verdict, one.recommended)}. {one.sentence}"


def verdict_markdown(judgement: Judgement) -> str:
    """Verdicts with their commands, for ``report.md`` and for MLflow's notes."""
    parts = []
    if len(judgement.workloads) > 1:
        overall = judgement.overall
        parts.append(f"**All workloads: {verdict_words(overall.verdict, None)}.** "
                     f"{escape(overall.sentence)}")  # fmt: skip
    for one in judgement.workloads:
        words = verdict_words(one.verdict, one.recommended)
        parts.append(f"**{escape(one.name)}: {escape(words)}.** {escape(one.sentence)}")
        evidence = (f"- {escape(line)}" for line in evidence_lines(one))
        parts.append("\n".join(evidence))
        if one.command:
            parts.append(f"```sh\n{one.command}\n```")
    for schedule in judgement.schedules:
        parts.append(f"**{escape(schedule.name)}: {schedule.method} by the number of requests**")
        parts.append(f"```sh\n{schedule.recommendation.command}\n```")
    return "\n\n".join(part for part in parts if part)


def escape(text: str) -> str:
    """Text that came from names and error messages must not become Markdown."""
    for sign in "\\|*_`<[":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())
