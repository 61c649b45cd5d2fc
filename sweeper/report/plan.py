"""What would be done, as a person reads it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.console import Console
from rich.text import Text

from sweeper.durations import clock
from sweeper.plan.estimate import Estimate, GroupEstimate, of_start
from sweeper.report.plantable import print_points
from sweeper.report.terminal import say_words
from sweeper.serve.command import shown
from sweeper.values import Group, Plan


def print_plan(
    console: Console,
    plan: Plan,
    notes: Sequence[str],
    found: Estimate | None,
    *,
    kept: Collection[int] = (),
) -> None:
    """Points, servers with their exact commands, time, then the one-line total."""
    if plan.points:
        print_points(console, plan, found, kept)
    for number, group in enumerate(_starts(plan), start=1):
        _print_server(console, number, group, found)
    for note in (*notes, *_warnings(plan)):
        say_words(console, Text(f"note: {note}", style="yellow"))
    for refusal in plan.refusals:
        asked = " ".join(refusal.overrides) or "(defaults)"
        console.print(Text(f"refused: {asked}", style="bold red"), soft_wrap=True)
        for line in refusal.reason.splitlines():
            say_words(console, Text(f"  {line}"))
    for line in (*_skips(plan), *_foreseen(plan, found, kept)):
        say_words(console, Text(line))
    console.print(Text(total(plan)), soft_wrap=True)


def _print_server(console: Console, number: int, group: Group, found: Estimate | None) -> None:
    """Which points it serves, how long it is up, and its command; one that serves nothing is
    not started."""
    numbers = ", ".join(str(p.number) for p in group.points)
    several = "s" if len(group.points) > 1 else ""
    more = "".join(f", work-around {name}" for name in group.server.workarounds)
    head = f"server {number}, point{several} {numbers}{more}: "
    mine = of_start(found, group) if found else None
    if found and mine is None:
        console.print(Text(f"{head}not started", style="bold"))
        return
    console.print(Text(head + (_up(mine) if mine else ""), style="bold"), soft_wrap=True)
    console.print(Text("  " + _command(group)), soft_wrap=True)


def _up(group: GroupEstimate) -> str:
    hours = f", {group.total_s * group.gpus / 3600:.2f} GPU-hours" if group.gpus else ""
    return f"about {clock(group.total_s)}, {clock(group.start_s)} of it to start{hours}"


def _skips(plan: Plan) -> list[str]:
    """Why points are not measured, each reason once."""
    about: dict[str, list[str]] = {}
    for p in plan.points:
        if p.skip:
            about.setdefault(p.skip, []).append(str(p.number))
    return [
        f"skipped: point{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}: {reason}"
        for reason, numbers in about.items()
    ]


def _foreseen(plan: Plan, found: Estimate | None, kept: Collection[int]) -> list[str]:
    """What was checked, what resume leaves, and how long the rest takes."""
    passed = f"checked: {len(plan.jobs)} jobs passed, {len(plan.refusals)} refused"
    if found is None:
        return [passed]
    measured = sum(len(g.points) for g in found.groups)
    lines = [passed]
    if kept:
        lines.append(
            f"resume: {len(kept)} of {len(plan.points)} points are complete and kept, "
            f"{measured} are measured"
        )
    if found.groups:
        hours = f"{found.gpu_hours:.2f} GPU-hours" if found.gpu_hours else "no GPU"
        lines.append(
            f"estimate: {clock(found.total_s)} one server after another "
            f"({clock(found.start_s)} server starts, {clock(found.run_s)} measuring), {hours}; "
            f"{found.source}"
        )
    return lines


def _warnings(plan: Plan) -> list[str]:
    """What the checks found worth knowing, each sentence once with the points it is about."""
    about: dict[str, list[str]] = {}
    for planned in plan.points:
        for warning in planned.point.warnings:
            about.setdefault(warning, []).append(planned.point.label)
    return [f"{', '.join(dict.fromkeys(labels))}: {text}" for text, labels in about.items()]


def total(plan: Plan) -> str:
    """``18 jobs, 14 points, 7 servers``: what Hydra composed, what is measured, what is started."""
    run = [p for p in plan.points if not p.skip]
    servers = sum(1 for part in _starts(plan) if any(not p.skip for p in part.points))
    jobs = len(plan.jobs) + len(plan.refusals)
    return f"{jobs} jobs, {len(run)} points, {servers} servers"


def _starts(plan: Plan) -> list[Group]:
    """One for every server that is started."""
    return [part for group in plan.groups for part in group.starts]


def _command(group: Group) -> str:
    spec = group.server
    return f"attach to {spec.base_url}" if spec.kind == "external" else shown(spec)
