"""What is asked of a server after its timed points: whether the output is still right."""

from __future__ import annotations

from collections.abc import Sequence

from sweeper.measure.sampling import draw
from sweeper.measure.scoring import score
from sweeper.scores import Check
from sweeper.serve.session import Session
from sweeper.store import PointFolder
from sweeper.values import Event, PlannedPoint, Prompt


def check_output(
    session: Session,
    planned: PlannedPoint,
    prompts: Sequence[Prompt],
    home: PointFolder,
    check: Check,
) -> Event | None:
    """Do what ``check`` asks of this point; the event says what was done, if anything."""
    point = planned.point
    result = home.read_result()
    if result is None or result.status != "completed":
        return None
    if point.is_baseline and point.sampling.greedy and check.prompts:
        found = score(session, point, prompts, home, check)
        done = f"{len(found.answers)} answers scored" if not found.problem else found.problem
        return Event(kind="checked", point=planned.number, text=done)
    if not point.sampling.greedy and check.samples:
        drawn = draw(session, point, home, check)
        done = f"{check.samples} continuations of {len(drawn.draws)} texts sampled"
        return Event(kind="checked", point=planned.number, text=drawn.problem or done)
    return None
