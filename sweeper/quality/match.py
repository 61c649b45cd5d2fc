"""Does an answer give the expected result? As GSM8K is graded: by the last number."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

_NUMBER = re.compile(r"-?\$?\d[\d,]*(?:\.\d+)?")
_MARKED = re.compile(r"####\s*(.+)")


def exact_match(answer: str, reference: str, kind: str) -> str:
    """Empty when they match, else what was given and what was expected."""
    if kind == "number":
        given, expected = last_number(answer), last_number(reference)
    else:
        given, expected = _last_line(answer), _last_line(reference)
    if given is not None and given == expected:
        return ""
    return f"{'no answer' if given is None else given} instead of {expected}"


def last_number(text: str) -> Decimal | str | None:
    """The number after ``####`` where there is one, else the last one of the text."""
    marked = _MARKED.findall(text)
    found = _NUMBER.findall(marked[-1] if marked else text)
    if not found:
        return None
    try:
        return Decimal(found[-1].replace(",", "").replace("$", "")).normalize()
    except InvalidOperation:
        return None


def _last_line(text: str) -> str | None:
    marked = _MARKED.findall(text)
    lines = [line.strip() for line in (marked[-1:] or text.splitlines()) if line.strip()]
    return " ".join(lines[-1].rstrip(".").casefold().split()) if lines else None
