"""What a check found: a mistake would waste the run, a warning is for people to know."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence; ``fatal`` for a mistake."""

    text: str
    fatal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Everything found, mistakes and warnings apart."""

    mistakes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def mistake(text: str) -> Finding:
    return Finding(text, True)


def warning(text: str) -> Finding:
    return Finding(text, False)
