"""Waiting for groups that run elsewhere: files are the truth, the queue a hint."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from sweeper import store
from sweeper.jobs.attempt import Attempt, add_attempt
from sweeper.jobs.heartbeat import Beat, Heartbeat
from sweeper.jobs.queue import Queued
from sweeper.jobs.watch import Patience, watch
from sweeper.measure.measurement import unmeasured
from sweeper.store import GroupFolder, SweepFolder
from sweeper.values import Event, Status, Sweep
from tests.unit.sweeps import Made, folder, point, record

PATIENCE = Patience(poll_s=0.01, queue_s=0.0, grace_s=0.05)


class Queue:
    """A queue that answers from a list. Its last answer is for ever; or, once something was to
    happen at it, the queue is empty from then on."""

    def __init__(
        self,
        *answers: Mapping[str, Queued] | None,
        how: str = "",
        then: Callable[[], None] | None = None,
    ) -> None:
        self.answers, self.how, self.then = list(answers), how, then

    def states(self) -> Mapping[str, Queued] | None:
        if len(self.answers) > 1:
            return self.answers.pop(0)
        if self.then:
            self.then()
            last, self.answers, self.then = self.answers[0], [{}], None
            return last
        return self.answers[0]

    def ending(self, job: str) -> str:
        return self.how


@pytest.fixture
def made(tmp_path: Path) -> tuple[SweepFolder, Sweep]:
    """One point without a result, submitted as job 7_0."""
    found = folder(tmp_path, Made(point=point("none", 0), result=False))
    sweep = store.read_sweep(found)
    attempt = Attempt(job="7_0", submitted_at=0.0, limit_s=60.0)
    add_attempt(found.group(sweep.plan.groups[0].key), attempt)
    return found, sweep


def watched(made: tuple[SweepFolder, Sweep], queue: Queue) -> tuple[str, str, list[Event]]:
    found, sweep = made
    heard: list[Event] = []
    watch(found, sweep.id, sweep.plan.groups, queue, heard.append, PATIENCE)
    result = found.point(sweep.plan.points[0]).read_result()
    assert result
    return result.status, result.reason, heard


def write(
    made: tuple[SweepFolder, Sweep],
    status: Status = "completed",
    sweep: str = "",
    reason: str = "",
) -> None:
    found, one = made
    planned = one.plan.points[0]
    result = asdict(unmeasured(planned, sweep or one.id, reason, "")) | {"status": status}
    store.write_json(found.point(planned).result, result)


def test_a_result_ends_the_waiting_whatever_the_queue_says(
    made: tuple[SweepFolder, Sweep],
) -> None:
    write(made)
    status, _, heard = watched(made, Queue(None))
    assert status == "completed"
    assert [e.kind for e in heard] == ["point_ended", "job"]
    assert (heard[1].text, heard[1].done, heard[1].total) == ("ended", 1, 1)


@pytest.mark.parametrize(
    ("how", "status", "reason"),
    [
        ("FAILED, exit 9:0", "lost", "job 7_0 ended (FAILED, exit 9:0)"),
        ("CANCELLED by 0", "preempted", "job 7_0 ended (CANCELLED by 0)"),
        ("TIMEOUT", "preempted", "job 7_0 ended (TIMEOUT)"),
        ("", "lost", "job 7_0 is gone, Slurm does not say how"),
    ],
)
def test_a_job_that_is_gone_gives_its_points_an_end(
    made: tuple[SweepFolder, Sweep], how: str, status: str, reason: str
) -> None:
    said = watched(made, Queue({"7_0": Queued(state="RUNNING")}, {}, how=how))
    assert said[:2] == (status, f"{reason}; it never began to measure, before this point began")


def test_half_written_lines_are_counted_as_lost(made: tuple[SweepFolder, Sweep]) -> None:
    found, sweep = made
    home = found.point(sweep.plan.points[0])
    home.path.mkdir(parents=True)
    home.append(record("a"))
    with home.requests.open("a") as file:
        file.write('{"prompt')
    beat = Beat(job="7_0", node="n1", pid=1)
    store.write_json(found.group(sweep.plan.groups[0].key).heartbeat, asdict(beat))
    status, reason, _ = watched(made, Queue({}, how="NODE_FAIL"))
    assert status == "lost"
    assert reason == (
        "job 7_0 ended (NODE_FAIL), while this point was measured: 1 requests are recorded and 1 "
        "half-written, which is lost"
    )
    result = home.read_result()
    assert result and (result.requests, result.failed) == (2, 1)


def test_a_running_job_says_its_speed_and_acceptance(made: tuple[SweepFolder, Sweep]) -> None:
    found, sweep = made
    heart = Heartbeat(found.group(sweep.plan.groups[0].key), "7_0", every_s=60.0)
    with heart:
        heart(Event(kind="point_started", point=0, total=6))
        for done in (1, 2):
            heart(
                Event(kind="request_done", point=0, done=done, total=6, tokens=20, request_s=2.0,
                      accepted=3, drafted=4)
            )  # fmt: skip
        heart._write()
        running = {"7_0": Queued(state="RUNNING", node="n1")}
        _, _, heard = watched(made, Queue(running, running, then=lambda: write(made)))
    (said,) = {e.doing for e in heard if e.kind == "job" and e.text == "running"}
    assert said == "2/6 requests, 10.0 tok/s, A/D 0.75"


def test_a_beat_counts_anew_at_every_point_and_by_the_clock_where_requests_overlap(
    tmp_path: Path,
) -> None:
    heart = Heartbeat(GroupFolder(tmp_path), "7", overlapping={1})
    ended = Event(kind="request_done", point=0, done=1, total=6, tokens=20, request_s=9999.0)
    heart(Event(kind="point_started", point=0, total=6))
    heart(ended)
    assert (heart.beat.tokens, heart.beat.seconds) == (20, 9999.0)
    heart(Event(kind="point_started", point=1, total=6))
    assert (heart.beat.tokens, heart.beat.seconds) == (0, 0.0)
    heart(replace(ended, point=1))
    assert heart.beat.tokens == 20 and 0 < heart.beat.seconds < 9999.0


def test_a_result_that_comes_late_is_waited_for(made: tuple[SweepFolder, Sweep]) -> None:
    assert watched(made, Queue({}, {}, then=lambda: write(made)))[0] == "completed"


def test_a_result_of_another_sweep_is_never_accepted(made: tuple[SweepFolder, Sweep]) -> None:
    write(made, sweep="another")
    status, reason, _ = watched(made, Queue({}, how="COMPLETED"))
    assert status == "lost"
    assert reason.startswith("job 7_0 ended (COMPLETED)")


def test_preempted_and_still_in_the_queue_is_not_the_end(made: tuple[SweepFolder, Sweep]) -> None:
    write(made, "preempted")
    pending = {"7_0": Queued(state="PENDING", reason="BeginTime")}
    status, _, heard = watched(made, Queue(pending, pending, then=lambda: write(made)))
    assert status == "completed"
    assert ("pending", "BeginTime") in [(e.text, e.doing) for e in heard]


def test_preempted_and_gone_says_both_and_only_once(made: tuple[SweepFolder, Sweep]) -> None:
    write(made, "preempted", reason="SIGTERM: cancelled, preempted or timed out")
    said = "SIGTERM: cancelled, preempted or timed out; then job 7_0 ended (CANCELLED by 0)"
    status, reason, heard = watched(made, Queue({}, how="CANCELLED by 0"))
    assert (status, reason) == ("preempted", f"{said}; it never began to measure")
    assert heard[-2].text == reason
    assert watched(made, Queue({}, how=""))[:2] == (status, reason)


@pytest.mark.parametrize(
    ("answer", "says"),
    [(None, "is unknown to Slurm"), ({"7_0": Queued(state="RUNNING")}, "is RUNNING for Slurm")],
)
def test_silent_for_its_time_limit_and_the_grace_is_lost(
    made: tuple[SweepFolder, Sweep], answer: Mapping[str, Queued] | None, says: str
) -> None:
    found, sweep = made
    home = found.group(sweep.plan.groups[0].key)
    add_attempt(home, Attempt(job="7_0", submitted_at=0.0, limit_s=0.2))
    began = time.monotonic()
    status, reason, _ = watched(made, Queue(answer))
    took = time.monotonic() - began
    assert took > 0.25 and status == "lost"
    said = f"job 7_0 {says}, but its group has been silent for (\\d+) s, before this point began"
    silent = re.fullmatch(said, reason)
    assert silent and int(silent.group(1)) <= round(took)


def test_a_pending_job_may_be_silent(made: tuple[SweepFolder, Sweep]) -> None:
    found, sweep = made
    home = found.group(sweep.plan.groups[0].key)
    add_attempt(home, Attempt(job="7_0", submitted_at=0.0, limit_s=0.0))
    pending = [{"7_0": Queued(state="PENDING", reason="Resources")}] * 20
    status, *_ = watched(made, Queue(*pending, then=lambda: write(made)))
    assert status == "completed"


def test_the_wait_in_the_queue_is_not_silence(made: tuple[SweepFolder, Sweep]) -> None:
    """A job that waited for longer than its time limit has all of it when it begins."""
    found, sweep = made
    home = found.group(sweep.plan.groups[0].key)
    add_attempt(home, Attempt(job="7_0", submitted_at=0.0, limit_s=0.1))
    pending = [{"7_0": Queued(state="PENDING", reason="Priority")}] * 30
    running = {"7_0": Queued(state="RUNNING", node="n1")}
    assert len(pending) * PATIENCE.poll_s > 0.1 + PATIENCE.grace_s
    queue = Queue(*pending, running, running, then=lambda: write(made))
    status, _, heard = watched(made, queue)
    assert status == "completed"
    assert [e.text for e in heard if e.kind == "point_ended"] == ["completed"]


def test_a_retry_under_another_id_is_followed(made: tuple[SweepFolder, Sweep]) -> None:
    found, sweep = made
    add_attempt(
        found.group(sweep.plan.groups[0].key),
        Attempt(job="9", submitted_at=0.0, excluded="n1", why="its disk is full"),
    )
    running = {"9": Queued(state="RUNNING", node="n2")}
    status, _, heard = watched(made, Queue(running, running, then=lambda: write(made)))
    assert status == "completed"
    assert ("9", "n2") in [(e.job, e.node) for e in heard]


def test_a_group_nobody_has_is_lost(tmp_path: Path) -> None:
    found = folder(tmp_path, Made(point=point("none", 0), result=False))
    status, reason, _ = watched((found, store.read_sweep(found)), Queue({}))
    assert (status, reason) == (
        "lost",
        "nobody measures this point any more: its process ended, or never began, before this point "
        "began",
    )
