"""Where a decode step's time goes, as shares of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sweeper.judge.bootstrap import Figure, undefined
from sweeper.profiles import StepSplit

NOT_ASKED = "no profile was taken (profile=none)"
IN_THE_REST = "the trace does not tell drafting apart; it is in the rest"


def _none() -> Figure:
    return undefined(NOT_ASKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Shares of the time of ``steps`` profiled decode steps, together 1.

    ``step_ms`` is their mean length, with what recording costs, and no figure of the server.
    ``problem`` says why there is nothing, where a profile was asked for.
    """

    draft: Figure = field(default_factory=_none)
    verify: Figure = field(default_factory=_none)
    sample: Figure = field(default_factory=_none)
    rest: Figure = field(default_factory=_none)
    steps: int = 0
    step_ms: float | None = None
    device: str = ""
    problem: str = ""


def profile(found: StepSplit | None, *, baseline: bool) -> Profile:
    """Of one point; ``baseline`` drafts nothing."""
    if found is None:
        return Profile()
    if found.problem or not found.total_ms:
        none = undefined(found.problem or "no step was recorded")
        return Profile(draft=none, verify=none, sample=none, rest=none, problem=none.reason)
    total, drafted = found.total_ms, found.draft_ms or 0.0
    rest = total - found.verify_ms - found.sample_ms - drafted
    apart = found.draft_ms is not None
    return Profile(
        draft=Figure(value=drafted / total)
        if apart
        else undefined("no speculation" if baseline else IN_THE_REST),
        verify=Figure(value=found.verify_ms / total),
        sample=Figure(value=found.sample_ms / total),
        rest=Figure(value=max(0.0, rest) / total),
        steps=found.steps,
        step_ms=total / found.steps,
        device=found.device,
    )


def profile_notes(found: Profile) -> Iterator[str]:
    """Why a step was not split, or not into all its parts."""
    if found.problem:
        yield f"a step's time is {found.problem}"
    if found.draft.reason == IN_THE_REST:
        yield f"a step's time: {IN_THE_REST}"
