"""What would be done, as a person reads it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sweeper.serve.command import shown
from sweeper.values import Group, Plan


def print_plan(console: Console, plan: Plan, notes: Sequence[str], *, commands: bool) -> None:
    """Points, then servers (with their exact commands when asked), then the one-line total."""
    if plan.points:
        console.print(_points(plan))
    for number, group in enumerate(plan.groups, start=1):
        if commands:
            numbers = ", ".join(str(p.number) for p in group.points)
            more = "".join(f", work-around {name}" for name in group.server.workarounds)
            console.print(Text(f"server {number}, points {numbers}{more}:", style="bold"))
            console.print(Text("  " + _command(group)), soft_wrap=True)
    for note in (*notes, *_warnings(plan)):
        console.print(Text(f"note: {note}", style="yellow"), soft_wrap=True)
    for refusal in plan.refusals:
        asked = " ".join(refusal.overrides) or "(defaults)"
        console.print(Text(f"refused: {asked}", style="bold red"), soft_wrap=True)
        for line in refusal.reason.splitlines():
            console.print(Text(f"  {line}"), soft_wrap=True)
    console.print(Text(total(plan)), soft_wrap=True)


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
    servers = sum(1 for g in plan.groups if any(not p.skip for p in g.points))
    jobs = len(plan.jobs) + len(plan.refusals)
    return f"{jobs} jobs, {len(run)} points, {servers} servers"


def _points(plan: Plan) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, justify in (
        ("point", "right"),
        ("method", "left"),
        ("γ", "right"),
        ("dataset", "left"),
        ("prompts", "right"),
        ("sampling", "left"),
        ("load", "left"),
        ("server", "right"),
        ("note", "left"),
    ):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for number, group in enumerate(plan.groups, start=1):
        for p in group.points:
            point = p.point
            note = p.skip and f"skipped: {p.skip}"
            added = "" if p.jobs else "added as baseline"
            table.add_row(
                str(p.number),
                point.method,
                str(point.gamma) if point.gamma else "–",
                point.dataset.name,
                str(point.dataset.prompts),
                point.sampling.name,
                point.load.label,
                str(number),
                note or added,
            )
    return table


def _command(group: Group) -> str:
    spec = group.server
    return f"attach to {spec.base_url}" if spec.kind == "external" else shown(spec)
