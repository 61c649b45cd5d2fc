"""Waiting for groups that run elsewhere: their files are the truth, Slurm's states are hints."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from sweeper import store
from sweeper.jobs.attempt import Attempt, attempts
from sweeper.jobs.doing import doing_now
from sweeper.jobs.heartbeat import Beat, read_beat
from sweeper.jobs.queue import Queued
from sweeper.measure.group import AGAIN, unfinished
from sweeper.measure.measurement import unmeasured
from sweeper.measure.point import Emit
from sweeper.store import SweepFolder
from sweeper.values import Event, Group, PlannedPoint, PointResult, Status

SUPPOSED_LIMIT_S = 86400.0
"""For a silent job whose time limit is not known, while the queue cannot be asked."""
LONGEST_STOP_S = 60.0
"""For a server to stop after its last point."""
_THEN = "; then "
"""Between why a job left a point and how that job ended."""
_TOLD_TO_END = ("CANCELLED", "PREEMPTED", "TIMEOUT", "DEADLINE", "cancelled")


class Jobs(Protocol):
    """Who runs the groups."""

    def states(self) -> Mapping[str, Queued] | None:
        """All jobs that are not over by id, ``None`` when that cannot be known now."""
        ...

    def ending(self, job: str) -> str:
        """How a job that is over ended, empty when that is not known."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """``poll_s`` between looks at the files, ``queue_s`` between questions to the queue.

    ``grace_s``: what a shared file system may take to show what a job wrote that has ended.
    """

    poll_s: float = 2.0
    queue_s: float = 10.0
    grace_s: float = 60.0


@dataclass(slots=True)
class _Seen:
    """What is known of one group; times are of ``time.monotonic``."""

    group: Group
    name: str
    since: float
    beat: Beat | None = None
    attempt: Attempt | None = None
    queued: Queued | None = None
    gone_since: float | None = None
    ended: set[int] = field(default_factory=set)
    told: Event | None = None


def watch(
    folder: SweepFolder, sweep: str, groups: Sequence[Group], jobs: Jobs, emit: Emit,
    patience: Patience,
) -> None:  # fmt: skip
    """Return when every point of ``groups`` has an end; emits each as its file appears.

    A point whose job is over without a result is given one here: ``preempted`` where the job was
    told to end, else ``lost``.
    """
    watching = _Watching(folder=folder, sweep=sweep, jobs=jobs, emit=emit, patience=patience)
    open_ones = watching.begin(groups)
    asked = -patience.queue_s
    while True:
        if time.monotonic() - asked >= patience.queue_s:
            states, asked = jobs.states(), time.monotonic()
            open_ones = [one for one in open_ones if not watching.over(one, states)]
        else:
            open_ones = [one for one in open_ones if not watching.done(one)]
        if not open_ones:
            break
        time.sleep(patience.poll_s)
    watching.see_off(groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watching:
    folder: SweepFolder
    sweep: str
    jobs: Jobs
    emit: Emit
    patience: Patience
    hung: set[str] = field(default_factory=set)
    """Jobs whose silence was longer than their limit; nobody waits for these."""

    def begin(self, groups: Sequence[Group]) -> list[_Seen]:
        names: dict[str, int] = {}
        found = []
        for group in groups:
            name = group.name
            names[name] = names.get(name, 0) + 1
            name += f" #{names[name]}" if names[name] > 1 else ""
            found.append(_Seen(group=group, name=name, since=time.monotonic()))
        return found

    def see_off(self, groups: Sequence[Group]) -> None:
        """The last results are there; let their jobs stop the servers and leave the queue."""
        tried = (attempts(self.folder.group(group.key)) for group in groups)
        ours = {one.job for several in tried for one in several} - self.hung
        until = time.monotonic() + max(self.patience.grace_s, LONGEST_STOP_S)
        while time.monotonic() < until:
            states = self.jobs.states()
            if states is None or not ours & states.keys():
                return
            time.sleep(self.patience.poll_s)

    def done(self, one: _Seen) -> bool:
        """Look at the files only; have all points an end that stays?"""
        home = self.folder.group(one.group.key)
        beat, tried = read_beat(home), attempts(home)
        if beat != one.beat:
            one.beat, one.since = beat, time.monotonic()
        if tried and tried[-1] != one.attempt:
            one.attempt, one.since, one.gone_since = tried[-1], time.monotonic(), None
        for planned in one.group.points:
            if planned.number not in one.ended:
                self._look(one, planned)
        self._tell(one)
        return len(one.ended) == len(one.group.points)

    def over(self, one: _Seen, states: Mapping[str, Queued] | None) -> bool:
        """Look at the files and the queue; a group whose job is gone is brought to its end."""
        if self.done(one):
            return True
        now, job = time.monotonic(), one.attempt.job if one.attempt else ""
        before, one.queued = one.queued, states.get(job) if states is not None else one.queued
        if one.queued and (before is None or before.state != one.queued.state):
            one.since = now  # a job that has just begun was not silent while it waited
        self._tell(one)
        if states is None or one.queued:
            one.gone_since = None
            if not self._silent_too_long(one, now):
                return False
            says = f"is {one.queued.state} for Slurm" if one.queued else "is unknown to Slurm"
            self.hung.add(job)
            why = f"job {job} {says}, but its group has been silent for {now - one.since:.0f} s"
            return self._close(one, "lost", why)
        one.gone_since = one.gone_since or now
        quiet_since = max(one.gone_since, one.since if one.beat else 0.0)
        if job and now - quiet_since < self.patience.grace_s:
            return False
        if self.done(one):
            return True
        return self._close(one, *self._ending(one, job))

    def _look(self, one: _Seen, planned: PlannedPoint) -> None:
        result = self.folder.point(planned).read_result()
        if result is None or result.status in AGAIN or result.sweep != self.sweep:
            return
        self._ended(one, result)

    def _ended(self, one: _Seen, result: PointResult) -> None:
        one.ended.add(result.number)
        text = result.reason or result.status
        self.emit(Event(kind="point_ended", point=result.number, seconds=result.wall_s,
                        done=result.requests, text=text))  # fmt: skip

    def _silent_too_long(self, one: _Seen, now: float) -> bool:
        if one.queued and one.queued.state == "PENDING":
            return False
        limit = one.attempt.limit_s if one.attempt else None
        if one.queued and limit is None:
            return False
        return now - one.since > (limit or SUPPOSED_LIMIT_S) + self.patience.grace_s

    def _ending(self, one: _Seen, job: str) -> tuple[Status, str]:
        if not job:
            return "lost", "nobody measures this point any more: its process ended, or never began"
        how = self.jobs.ending(job)
        status: Status = "preempted" if how.startswith(_TOLD_TO_END) else "lost"
        text = f"job {job} ended ({how})" if how else f"job {job} is gone, Slurm does not say how"
        if one.beat is None or one.beat.job != job:
            text += "; it never began to measure"
        return status, text

    def _close(self, one: _Seen, status: Status, why: str) -> bool:
        for planned in unfinished(one.group, self.folder, self.sweep).points:
            home = self.folder.point(planned)
            there = home.read_result()
            if there is None or there.sweep != self.sweep:
                seen, torn = home.count()
                there = replace(unmeasured(planned, self.sweep, why, ""), status=status,
                                requests=seen + torn, failed=torn,
                                reason=why + _recorded(seen, torn))  # fmt: skip
                store.write_json(home.result, store.to_json(there))
            elif _THEN not in there.reason:  # collecting again must not say it twice
                there = replace(there, reason=f"{there.reason}{_THEN}{why}")
                store.write_json(home.result, store.to_json(there))
            self._ended(one, there)
        one.queued, one.beat = Queued(state="ended"), None
        self._tell(one)
        return True

    def _tell(self, one: _Seen) -> None:
        """A job event, when it says something new."""
        beat = one.beat if one.attempt and one.beat and one.beat.job == one.attempt.job else None
        state = one.queued.state if one.queued else "submitted"
        if len(one.ended) == len(one.group.points):
            state = "ended"
        if state in ("ended", "PENDING"):  # what an earlier run of the job said is over
            beat = None
        news = Event(
            kind="job",
            server=one.name,
            job=one.attempt.job if one.attempt else "",
            node=beat.node if beat else one.queued.node if one.queued else "",
            text=state.lower(),
            point=beat.point if beat else None,
            doing="" if state == "ended" else doing_now(beat, one.queued, one.group),
            done=len(one.ended),
            total=len(one.group.points),
        )
        if news != one.told:
            one.told = news
            self.emit(news)


def _recorded(seen: int, torn: int) -> str:
    if not seen and not torn:
        return ", before this point began"
    half = f" and {torn} half-written, which is lost" if torn else ""
    return f", while this point was measured: {seen} requests are recorded{half}"
