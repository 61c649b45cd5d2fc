"""What a waiting person sees: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sweeper.durations import clock
from sweeper.jobs.pace import Pace
from sweeper.plan.amount import requests_of
from sweeper.report.jobtable import job_line, job_table
from sweeper.values import Event, PlannedPoint

_LINE_EVERY_S = 10.0
LAST_LINES = 12
"""Of an error that is repeated at the end; a server's log is longer and its reason comes last."""
LONGEST = 300


@dataclass(slots=True)
class Watch:
    """Hears events and shows them; use it as a context around the work.

    The time left is what the remaining requests and server starts would take at the mean of those
    seen so far; before the first of each it is what is left of ``expected_s``, an estimate made
    beforehand, and without one it is not shown. Of groups that run elsewhere it is what the
    remaining points would take at the mean of those that completed, at the number running now.
    """

    console: Console
    points: Sequence[PlannedPoint]
    servers: int
    expected_s: float = 0.0
    now: Callable[[], float] = time.monotonic
    began: float = field(init=False)
    errors: dict[str, list[str]] = field(default_factory=dict)
    _live: Live | None = None
    _starts: list[float] = field(default_factory=list)
    _begun: int = 0
    _sent: dict[int | None, int] = field(default_factory=dict)
    _took: dict[int | None, float] = field(default_factory=dict)
    _told: dict[int | None, int] = field(default_factory=dict)
    _in_point: int = 0
    _pace: Pace = field(init=False)
    _ended: set[int | None] = field(default_factory=set)
    _failed: int = 0
    _status: str = ""
    _last_line: float = 0.0
    _jobs: dict[str, Event] = field(default_factory=dict)
    _walls: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.began, self._pace = self.now(), Pace(now=self.now)

    @property
    def jobs_seen(self) -> bool:
        """Whether groups run in processes other than this one."""
        return bool(self._jobs)

    def __enter__(self) -> Watch:
        if self.console.is_terminal:
            self._live = Live(
                console=self.console,
                refresh_per_second=4,
                transient=True,
                get_renderable=self._view,
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()
            self._live = None

    def __call__(self, event: Event) -> None:
        match event.kind:
            case "server_starting":
                self._begun += 1
                self._say(f"server for {event.server}: starting")
            case "server_waiting":
                self._status = f"server for {event.server}: starting, {event.seconds:.0f} s"
            case "server_ready":
                self._starts.append(event.seconds)
                self._say(f"server for {event.server}: ready after {event.seconds:.1f} s")
            case "point_started":
                self._start_point(event)
            case "request_done":
                self._request(event)
            case "point_ended":
                self._end_point(event)
            case "checked" | "profiled":
                what = "output" if event.kind == "checked" else "profile"
                self._say(f"{what} of {self._name(event.point)}: {event.text}")
            case "warning" if not event.server:
                self._say(event.text)
            case "warning":
                self._fail(event.text, f"server for {event.server}")
                self._say(f"server for {event.server}: {event.text}", "red")
            case "job":
                self._job(event)
            case "server_stopped":
                self._status = f"server for {event.server}: stopped"

    def _job(self, event: Event) -> None:
        """A line when a job or its state is another, the rest is for the live table."""
        before = self._jobs.get(event.server)
        self._jobs[event.server] = event
        if before is None or (before.job, before.text) != (event.job, event.text):
            self._say(job_line(event))

    def _start_point(self, event: Event) -> None:
        self._in_point, self._last_line = 0, self.now()
        self._pace = Pace(
            now=self.now, overlapping=self._planned(event.point).point.load.overlapping
        )
        self._told[event.point] = event.total
        self._status = f"{self._name(event.point)}: {self._of(event)} requests"

    def _request(self, event: Event) -> None:
        load = self._planned(event.point).point.load
        self._sent[event.point] = self._in_point = event.done
        self._pace.add(event)
        if load.name in ("sequential", "closed"):
            shared = event.request_s / load.concurrency
            self._took[event.point] = self._took.get(event.point, 0.0) + shared
        else:  # how many are under way together is not known
            self._took[event.point] = self._pace.seconds
        self._status = f"{self._name(event.point)}: {self._of(event)} requests{self._pace.words}"
        if self.now() - self._last_line > _LINE_EVERY_S and not self._live:
            self._say(self._status, left=True)

    def _end_point(self, event: Event) -> None:
        self._ended.add(event.point)
        self._in_point = 0
        good = event.text == "completed"
        first = event.text.splitlines()[0] if event.text else ""
        self._walls += [event.seconds] if good else []
        detail = self._status.split(": ", 1)[-1] if good and event.done else first
        if self._jobs and good:
            detail = f"{event.done} requests in {clock(event.seconds)}"
        if not good:
            self._failed += 1
            self._fail(event.text, f"point {event.point} {self._name(event.point)}")
        self._say(
            f"point {len(self._ended)}/{len(self.points)} {self._name(event.point)}: {detail}",
            "" if good else "red",
            left=True,
        )

    def _fail(self, reason: str, who: str) -> None:
        """A server's end is the reason of its points too: said once, with all it concerns."""
        self.errors.setdefault(reason, []).append(who)

    def repeat_errors(self) -> None:
        """Every different error once, for the end, when all else has scrolled past."""
        for reason, concerned in self.errors.items():
            self.console.print(Text(f"error: {', '.join(concerned)}", "bold red"), soft_wrap=True)
            for line in reason.splitlines()[-LAST_LINES:]:
                shown = line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
                self.console.print(Text(f"  {shown}"), soft_wrap=True)

    def _name(self, number: int | None) -> str:
        point = self._planned(number).point
        return f"{point.label} {point.dataset.name} {point.sampling.name}"

    def _planned(self, number: int | None) -> PlannedPoint:
        return next(p for p in self.points if p.number == number)

    def _say(self, text: str, style: str = "", *, left: bool = False) -> None:
        self._status = text.partition("\n")[0]
        self._last_line = self.now()
        line = f"{time.strftime('%H:%M:%S')} {text}{self._left() if left else ''}"
        self.console.print(Text(line, style=style), soft_wrap=True)

    def _of(self, event: Event) -> str:
        return f"{event.done}/{self._asked(self._planned(event.point))}"

    def _asked(self, planned: PlannedPoint) -> int:
        """Requests of a point: what was planned until it says or sends more."""
        known = (found.get(planned.number, 0) for found in (self._told, self._sent))
        return max(requests_of(planned.point), *known)

    @property
    def _total(self) -> int:
        return sum(map(self._asked, self.points))

    @property
    def _done(self) -> int:
        ended = sum(self._asked(p) for p in self.points if p.number in self._ended)
        return ended + self._in_point

    def _left(self) -> str:
        """``", about 3m20s left"`` once there is something to go by."""
        seconds = self._left_s()
        return "" if seconds is None else f", about {clock(max(0.0, seconds))} left"

    def _left_s(self) -> float | None:
        if self._jobs and self._walls:
            running = sum(row.text == "running" for row in self._jobs.values()) or 1
            mean = sum(self._walls) / len(self._walls)
            return (len(self.points) - len(self._ended)) * mean / running
        if not self._sent or not self._starts:
            left = self.expected_s - (self.now() - self.began)
            return left if self.expected_s and not self._jobs else None
        requests = max(0, self._total - self._done)
        starts = max(0, self.servers - self._begun)
        each = sum(self._took.values()) / sum(self._sent.values())
        return requests * each + starts * sum(self._starts) / len(self._starts)

    def _view(self) -> Table:
        if self._jobs:
            return self._view_jobs()
        grid = Table.grid(padding=(0, 1))
        total, elapsed = self._total, clock(self.now() - self.began)
        done = Table.grid(padding=(0, 1))
        done.add_row(
            ProgressBar(total=max(1, total), completed=self._done, width=20),
            Text(f"{self._done}/{total} requests", style="bold"),
            Text(f"{len(self._ended)}/{len(self.points)} points"),
            Text(f"{self._begun}/{self.servers} servers"),
            Text(f"{self._failed} failed" if self._failed else "", style="bold red"),
        )
        grid.add_row(Text("done", style="dim"), done)
        grid.add_row(Text("time", style="dim"), Text(f"{elapsed}{self._left()}", style="cyan"))
        grid.add_row(
            Text("now", style="dim"), Text(self._status, no_wrap=True, overflow="ellipsis")
        )
        return grid

    def _view_jobs(self) -> Table:
        table = job_table(self._jobs.values())
        elapsed = clock(self.now() - self.began)
        points = f"{len(self._ended)}/{len(self.points)} points"
        table.caption = f"{points}, {elapsed} elapsed{self._left()}"
        table.caption_justify = "left"
        return table
