"""One server and its points, from start to stop; what a launcher runs, here or in a job."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from sweeper import store
from sweeper.drive.datasets import prompts_of
from sweeper.errors import DatasetError, ServerError, StoreError
from sweeper.measure.after import check_output
from sweeper.measure.measurement import unmeasured
from sweeper.measure.point import Emit, measure
from sweeper.measure.profile import profile
from sweeper.measure.rollout import run_rollouts
from sweeper.plan.kept import together
from sweeper.profiles import Profiler
from sweeper.scores import Check
from sweeper.serve.session import serve
from sweeper.store import PointFolder, SweepFolder
from sweeper.values import Event, Group, PlannedPoint, PointResult, Prompt, Sweep

log = logging.getLogger(__name__)

AGAIN = ("preempted", "lost")
"""What a restarted job measures again; failed and invalid would only be so once more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRun:
    """What a launcher is handed: the sweep to work for, and who hears of it.

    ``seconds`` is what the plan expects of each point, by its number.
    """

    sweep_dir: Path
    sweep: str
    emit: Emit
    seconds: Mapping[int, float] = field(default_factory=dict)

    def __call__(self, group: Group) -> list[PointResult]:
        """Measure ``group`` here and now."""
        return run_group(group, self.sweep_dir, self.sweep, self.emit)


def run_group(group: Group, sweep_dir: Path, sweep: str, emit: Emit) -> list[PointResult]:
    """Measure the points of every server the group starts, one server after another; then start
    them with their profilers where that is asked for.

    A server that does not start, or dies, fails the points it has not served; nothing is raised
    for it, because others go on.
    """
    folder = SweepFolder(sweep_dir)
    if len(group.starts) > 1:  # no result of an earlier try may stay beside a new baseline
        for planned in group.points:
            folder.set_aside(folder.point(planned))
    submitted = _submitted(folder)
    check = store.asked(submitted, "check", Check)
    results: list[PointResult] = []
    served: list[tuple[Group, list[_Measured]]] = []
    for part in group.starts:
        served.append((part, []))
        results += _run_start(part, folder, sweep, check, emit, served[-1][1])
    for part, measured in served:  # not between a baseline and what is measured right after it
        profile(part, measured, folder, store.asked(submitted, "profile", Profiler), emit)
    return results


_Measured = tuple[PlannedPoint, tuple[Prompt, ...]]


def _submitted(folder: SweepFolder) -> Sweep | None:
    """What the points' own files do not say; they are measured without it too."""
    try:
        return store.read_sweep(folder)
    except StoreError:
        return None


def _run_start(
    group: Group,
    folder: SweepFolder,
    sweep: str,
    check: Check,
    emit: Emit,
    measured: list[_Measured],
) -> list[PointResult]:
    """Start the server once, measure its points in order, check their output, stop it; what was
    ``measured`` is added to that list."""
    server = folder.new_server(group.key)
    results: list[PointResult] = []
    name = group.name
    emit(Event(kind="server_starting", server=name, text=server.path.name))

    def wait(seconds: float) -> None:
        emit(Event(kind="server_waiting", server=name, seconds=seconds))

    try:
        with serve(group.server, server, wait) as session:
            emit(Event(kind="server_ready", server=name, seconds=session.start_s))
            for planned in group.points:
                home = folder.point(planned)
                folder.set_aside(home)
                with _log_to(home):
                    try:
                        prompts = prompts_of(planned.point.dataset)
                    except DatasetError as problem:
                        refused = (planned,)
                        results += _fail_rest(
                            refused, folder, sweep, str(problem), server.path.name, emit
                        )
                        continue
                    run = run_rollouts if planned.point.load.batches else None
                    results.append(measure(session, planned, prompts, home, sweep, emit, run))
                    measured.append((planned, prompts))
            for planned, prompts in measured:
                with _log_to(folder.point(planned)):
                    if event := check_output(
                        session, planned, prompts, folder.point(planned), check
                    ):
                        emit(event)
    except ServerError as problem:
        emit(Event(kind="warning", server=name, text=str(problem)))
        results += _fail_rest(group.points, folder, sweep, str(problem), server.path.name, emit)
    emit(Event(kind="server_stopped", server=name))
    return results


def unfinished(group: Group, folder: SweepFolder, sweep: str) -> Group:
    """The group with the points that still have to be measured.

    A point is done when its result says so and names this sweep and this very point; one that was
    told to end, or that nobody heard of again, is not.
    """

    def done(planned: PlannedPoint) -> bool:
        result = folder.point(planned).read_result()
        return (
            result is not None
            and result.status not in AGAIN
            and (result.sweep, result.key) == (sweep, planned.key)
        )

    return replace(group, points=tuple(p for p in group.points if not done(p)))


def again(group: Group, folder: SweepFolder, sweep: str) -> Group:
    """What a restarted job measures: :func:`unfinished`, and what is of use only with it."""
    left = unfinished(group, folder, sweep)
    numbers = together(group.points, {p.number for p in left.points})
    return replace(group, points=tuple(p for p in group.points if p.number in numbers))


def _fail_rest(
    points: Sequence[PlannedPoint],
    folder: SweepFolder,
    sweep: str,
    reason: str,
    server: str,
    emit: Emit,
) -> list[PointResult]:
    """Write a failed result for every point that this server has not given one."""
    failed = []
    for planned in points:
        home = folder.point(planned)
        there = home.read_result()
        if there is None or there.server_folder != server:
            folder.set_aside(home)
            result = unmeasured(planned, sweep, reason, server)
            store.write_json(home.result, store.to_json(result))
            emit(Event(kind="point_ended", point=planned.number, text=reason))
            failed.append(result)
    return failed


@contextmanager
def _log_to(home: PointFolder) -> Iterator[None]:
    """Everything the program logs during a point also goes to the point's own file."""
    home.path.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(home.log, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()
