"""The values of a verdict: what was asked, what the evidence says, what to run.

Every sentence names the numbers it rests on, so that a reader can disagree with one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sweeper.judge.bootstrap import Figure
from sweeper.judge.compare import Comparison
from sweeper.values import Json

Word = Literal["deploy", "don't", "inconclusive"]
State = Literal["yes", "no", "unclear", "not measured"]

QUESTIONS = (
    "Is the output still right?",
    "Does the workload have useful candidates?",
    "Does a step pay for itself?",
    "Does the SLO hold under load?",
)
SYNTHETIC = "SYNTHETIC: a control, not evidence; no verdict is given"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A number behind an answer; ``point`` is the point it was measured at, ``prediction`` says
    that it was computed from other points and not measured."""

    name: str
    figure: Figure
    unit: str = ""
    point: int | None = None
    prediction: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One of the four :data:`QUESTIONS` about one candidate, answered from evidence only."""

    question: str
    state: State
    sentence: str
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEven:
    """Whether one candidate's decode step pays for itself.

    ``step_cost`` is the time of its decode step over that of the baseline's. ``needed`` are the
    tokens per decode step at which both are equally fast, ``got`` those it made, ``margin`` is
    ``got / needed - 1``: below 0 speculation costs time.
    """

    point: int
    gamma: int
    step_cost: Figure
    needed: Figure
    got: Figure
    margin: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """Tokens per decode step and speed-up at one γ: ``predicted`` from the run at the largest γ
    of the same method, ``measured`` where that γ was run too (else undefined)."""

    gamma: int
    predicted_tokens_per_step: Figure
    measured_tokens_per_step: Figure
    predicted_speedup: Figure
    measured_speedup: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The curve over γ of one method, from its point number ``source``: a prediction."""

    method: str
    source: int
    points: tuple[CurvePoint, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """What to run. ``command`` can be pasted into a shell; ``schedule`` is
    ``num_speculative_tokens_per_batch_size``, ``None`` where one load was measured only."""

    speculative_config: Json
    command: str
    schedule: tuple[tuple[int, int, int], ...] | None = None
    sentence: str = ""


def named(*parts: str) -> str:
    return " · ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadVerdict:
    """The verdict for one target × dataset × sampling × load.

    ``verdict`` is ``None`` for SYNTHETIC points only. ``shown`` is the candidate that ``sentence``,
    ``speedup`` and ``answers``, the four of :data:`QUESTIONS`, are about: the recommended one, else
    the most promising. ``best`` is the fastest candidate, ``tied`` those that cannot be told from
    it, ``passing`` all that could be deployed. ``baselines`` are several where every server has
    its own. ``speedup`` holds for all candidates at once.
    ``words`` has a verdict for each candidate that could be judged, by point number.
    ``to_conclude`` says what would settle an inconclusive verdict. ``conditions`` tells workloads
    of equal names apart, ``cache=warm``, and is empty where the names do.
    """

    target: str
    dataset: str
    sampling: str
    load: str
    verdict: Word | None
    sentence: str
    baselines: tuple[Comparison, ...]
    candidates: tuple[Comparison, ...]
    shown: Comparison | None
    best: Comparison | None
    recommended: Comparison | None
    tied: tuple[Comparison, ...]
    passing: tuple[Comparison, ...]
    speedup: Figure
    answers: tuple[Answer, ...]
    words: Mapping[int, Word]
    break_even: tuple[BreakEven, ...] = ()
    curves: tuple[Curve, ...] = ()
    to_conclude: tuple[str, ...] = ()
    recommendation: Recommendation | None = None
    conditions: str = ""

    @property
    def name(self) -> str:
        """``code · greedy · sequential · smollm2-135m``."""
        return named(self.dataset, self.sampling, self.load, self.target, self.conditions)

    @property
    def command(self) -> str:
        """The command to paste; empty where nothing is recommended."""
        return self.recommendation.command if self.recommendation else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """One method over all the concurrencies it was measured at, on one dataset and sampling."""

    target: str
    dataset: str
    sampling: str
    method: str
    recommendation: Recommendation
    conditions: str = ""

    @property
    def name(self) -> str:
        """``code · greedy · all loads · smollm2-135m``."""
        return named(self.dataset, self.sampling, "all loads", self.target, self.conditions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overall:
    """One verdict over all workloads: is there one setting to deploy for all of them?"""

    verdict: Word | None
    sentence: str
    recommendation: Recommendation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Everything a report says of a sweep."""

    sweep: str
    comparisons: tuple[Comparison, ...]
    workloads: tuple[WorkloadVerdict, ...]
    schedules: tuple[Scheduled, ...]
    overall: Overall

    @property
    def words(self) -> dict[int, Word]:
        """The verdict on every setting in its workload, by point number."""
        return {number: word for w in self.workloads for number, word in w.words.items()}

    @property
    def synthetic(self) -> bool:
        return any(c.synthetic for c in self.comparisons)
