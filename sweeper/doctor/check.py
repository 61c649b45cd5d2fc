"""One line of the doctor's list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from rich.console import Console
from rich.text import Text

from sweeper.values import Json

State = Literal["ok", "note", "warning", "failure"]
_SIGNS: dict[State, tuple[str, str]] = {
    "ok": ("✓", "green"),
    "note": ("·", ""),
    "warning": ("!", "yellow"),
    "failure": ("✗", "bold red"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What was looked at and found; ``fix`` says what to do, empty where there is nothing to do.

    A ``failure`` stops sweeps, a ``warning`` some of them or their quality; a ``note`` is a fact.
    """

    name: str
    state: State
    found: str
    fix: str = ""


def print_checks(console: Console, checks: Sequence[Check]) -> None:
    """One line a check, what to do below it."""
    width = max((len(c.name) for c in checks), default=0)
    for check in checks:
        sign, style = _SIGNS[check.state]
        first, *more = check.found.splitlines() or [""]
        text = Text(f"{sign} {check.name:{width}}  ", style=style)
        console.print(text.append(Text(first, style="")), soft_wrap=True)
        for line in (*more, *(f"→ {fix}" for fix in check.fix.splitlines())):
            console.print(Text(f"  {'':{width}}  {line}"), soft_wrap=True)


def as_json(checks: Sequence[Check]) -> Json:
    """For scripts: the checks, and whether none of them failed."""
    return {"healthy": healthy(checks), "checks": [asdict(check) for check in checks]}


def healthy(checks: Sequence[Check]) -> bool:
    return not any(check.state == "failure" for check in checks)
