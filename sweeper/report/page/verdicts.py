"""The verdict of every workload, first thing on the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sweeper.judge.judgement import Judgement
from sweeper.judge.verdict import Answer, Recommendation, WorkloadVerdict
from sweeper.report.wording import verdict_words

Tone = Literal["good", "bad", "open"]
TONES: dict[str | None, Tone] = {"deploy": "good", "don't": "bad"}
SIGNS = {"yes": "✓", "no": "✗", "unclear": "?", "not measured": "–"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer: ``sign`` says its state at a glance, ``state`` in words."""

    question: str
    sign: str
    state: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """``word`` is the verdict in words; ``command`` deploys it, ``schedule`` by batch size."""

    workload: str
    tone: Tone
    word: str
    sentence: str
    replies: tuple[Reply, ...] = ()
    to_conclude: tuple[str, ...] = ()
    command: str = ""
    aside: str = ""


def verdicts(judgement: Judgement) -> tuple[Card, ...]:
    """One card over all workloads where there are several, then one a workload."""
    each = tuple(_card(one) for one in judgement.workloads)
    return (_overall(judgement), *each) if len(each) > 1 else each


def _overall(judgement: Judgement) -> Card:
    overall = judgement.overall
    return Card(
        workload=f"All {len(judgement.workloads)} workloads together",
        tone=TONES.get(overall.verdict, "open"),
        word=verdict_words(overall.verdict, None),
        sentence=overall.sentence,
        command=overall.recommendation.command if overall.recommendation else "",
        aside=_aside(overall.recommendation),
    )


def _card(one: WorkloadVerdict) -> Card:
    return Card(
        workload=one.name,
        tone=TONES.get(one.verdict, "open"),
        word=verdict_words(one.verdict, one.recommended),
        sentence=one.sentence,
        replies=tuple(_reply(answer) for answer in one.answers),
        to_conclude=one.to_conclude,
        command=one.command,
        aside=_aside(one.recommendation),
    )


def _aside(recommendation: Recommendation | None) -> str:
    return recommendation.sentence if recommendation else ""


def _reply(answer: Answer) -> Reply:
    return Reply(
        question=answer.question,
        sign=SIGNS[answer.state],
        state=answer.state,
        sentence=answer.sentence,
    )
