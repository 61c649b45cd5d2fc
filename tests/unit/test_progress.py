"""What a waiting person sees, on a terminal and in a log file."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from rich.console import Console
from rich.logging import RichHandler

from sweeper.plan.grid import plan
from sweeper.report.messages import log_to
from sweeper.report.progress import LAST_LINES, Watch
from sweeper.values import Dataset, Event, Job, Load, PlannedPoint, Sampling
from tests.unit.sweeps import CHAT, GREEDY, point

DIED = "the server exited with status 1; last lines of its log:\n" + "\n".join(
    f"line {n}" for n in range(20)
)


def points(load: Load | None = None) -> tuple[PlannedPoint, ...]:
    """A baseline and a point of six prompts each, on two servers."""
    one = point("ngram", 4, load=load or Load(name="sequential"))
    return plan([Job(number=0, overrides=(), point=one)], baseline="shared").points


class Clock:
    """It stands still until it is moved."""

    seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def watching(expected_s: float = 0.0, load: Load | None = None, now: Clock | None = None) -> Watch:
    console = Console(file=io.StringIO(), width=80)
    return Watch(console, points(load), 2, expected_s, now=now or Clock())


def lines(watch: Watch) -> list[str]:
    assert isinstance(watch.console.file, io.StringIO)
    return [re.sub(r"^\d\d:\d\d:\d\d ", "", s) for s in watch.console.file.getvalue().splitlines()]


def request(number: int, done: int) -> Event:
    return Event(
        kind="request_done", point=number, done=done, total=6, tokens=20, request_s=2.0,
        accepted=3, drafted=4,
    )  # fmt: skip


def point_0(watch: Watch) -> None:
    watch(Event(kind="server_starting", server="none on m"))
    watch(Event(kind="server_waiting", server="none on m", seconds=12.0))
    watch(Event(kind="server_ready", server="none on m", seconds=40.0))
    watch(Event(kind="point_started", point=0, total=6))
    for done in range(1, 7):
        watch(request(0, done))
    watch(Event(kind="point_ended", point=0, done=6, seconds=12.0, text="completed"))


def test_plain_lines_where_there_is_no_terminal() -> None:
    with watching() as watch:
        point_0(watch)
    assert lines(watch) == [
        "server for none on m: starting",
        "server for none on m: ready after 40.0 s",
        "point 1/2 none chat greedy: 6/6 requests, 10.0 tok/s, A/D 0.75, about 52s left",
    ]


def drawn(watch: Watch) -> list[str]:
    console = Console(file=io.StringIO(), width=80)
    console.print(watch._view())
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_the_live_view_fits_eighty_columns() -> None:
    watch = watching()
    point_0(watch)
    watch(Event(kind="server_starting", server="ngram γ=4 on m"))
    watch(Event(kind="server_waiting", server="ngram γ=4 on m", seconds=7.0))
    done, clock, now = drawn(watch)
    assert re.fullmatch(r"done ━{9}[━╸] +6/12 requests 1/2 points 2/2 servers", done)
    assert clock == "time 0s, about 12s left"
    assert now == "now  server for ngram γ=4 on m: starting, 7 s"


def test_a_server_that_failed_counts_its_points_as_over() -> None:
    watch = watching()
    point_0(watch)
    watch(Event(kind="server_starting", server="ngram γ=4 on m"))
    watch(Event(kind="warning", server="ngram γ=4 on m", text=DIED))
    watch(Event(kind="point_ended", point=1, text=DIED))
    done, clock, _ = drawn(watch)
    assert done == f"done {'━' * 20} 12/12 requests 2/2 points 2/2 servers 1 failed"
    assert clock == "time 0s, about 0s left"


def test_errors_are_repeated_once_with_the_end_of_the_log() -> None:
    watch = watching()
    watch(Event(kind="warning", server="ngram γ=4 on m", text=DIED))
    watch(Event(kind="point_ended", point=1, text=DIED))
    before = len(lines(watch))
    assert "line 19" in lines(watch)[before - 2]
    watch.repeat_errors()
    assert lines(watch)[before:] == [
        "error: server for ngram γ=4 on m, point 1 ngram γ=4 chat greedy",
        *(f"  line {n}" for n in range(20 - LAST_LINES, 20)),
    ]


def test_nothing_is_repeated_when_nothing_failed() -> None:
    watch = watching()
    point_0(watch)
    before = lines(watch)
    watch.repeat_errors()
    assert lines(watch) == before


def test_before_anything_is_known_the_estimate_says_what_is_left() -> None:
    now = Clock()
    watch = watching(expected_s=300.5, now=now)
    assert drawn(watch)[1] == "time 0s, about 5m00s left"
    now.seconds += 61.0
    assert drawn(watch)[1] == "time 1m01s, about 3m59s left"
    assert drawn(watching())[1] == "time 0s"


def test_requests_that_overlap_share_the_time_that_is_left() -> None:
    watch = watching(load=Load(name="closed", concurrency=2))
    watch(Event(kind="server_starting", server="none on m"))
    watch(Event(kind="server_ready", server="none on m", seconds=40.0))
    watch(Event(kind="point_started", point=0, total=6))
    watch(request(0, 1))
    assert drawn(watch)[1] == "time 0s, about 51s left"  # 11 requests of 2 s by twos, one start


@pytest.mark.parametrize(
    "load", [Load(name="open", rate=2.0), Load(name="ramp", ramp_from=1, ramp_to=8, duration_s=60)]
)
def test_the_time_left_of_an_open_load_is_by_what_ended_so_far(load: Load) -> None:
    now = Clock()
    watch = watching(load=load, now=now)
    watch(Event(kind="server_starting", server="none on m"))
    watch(Event(kind="server_ready", server="none on m", seconds=40.0))
    watch(Event(kind="point_started", point=0, total=6))
    for done in (1, 2, 3):  # answers of 2 s each, one a second
        now.seconds += 1.0
        watch(request(0, done))
    assert drawn(watch)[1] == "time 3s, about 49s left"  # nine more, one a second, one start


def sent(dataset: Dataset, sampling: Sampling, load: Load, total: int, done: int) -> str:
    """What stands beside the bar when a point of two has sent all it will send."""
    one = point("ngram", 4, dataset=dataset, sampling=sampling, load=load)
    both = plan([Job(number=0, overrides=(), point=one)], baseline="shared").points
    watch = Watch(Console(file=io.StringIO(), width=80), both, 2)
    watch(Event(kind="point_started", point=0, total=total))
    watch(request(0, done))
    return next(re.finditer(r"\d+/\d+ requests", drawn(watch)[0])).group()


def test_every_turn_and_every_sequence_is_counted() -> None:
    talks, single = replace(CHAT, requests=12), Load(name="sequential")
    assert sent(talks, GREEDY, single, 12, 12) == "12/24 requests"
    batches = Load(name="rollout", batch_prompts=2)
    assert sent(CHAT, replace(GREEDY, n=4), batches, 24, 24) == "24/48 requests"
    assert sent(talks, GREEDY, replace(single, requests=3), 3, 6) == "6/12 requests"
    timed = Load(name="closed", duration_s=9.0, cycle=True)
    assert sent(CHAT, GREEDY, timed, 0, 100) == "100/106 requests"


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    before = root.level, root.handlers
    yield root
    root.setLevel(before[0])
    root.handlers = before[1]


def test_log_levels(root_logger: logging.Logger) -> None:
    kept = root_logger.handlers
    log_to(Console(file=io.StringIO()), "debug")
    assert (root_logger.level, root_logger.handlers) == (logging.DEBUG, kept)
    assert logging.getLogger("httpx").level == logging.WARNING
    log_to(Console(file=io.StringIO(), force_terminal=True), "error")
    assert root_logger.level == logging.ERROR
    assert isinstance(root_logger.handlers[0], RichHandler)
