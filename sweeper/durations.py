"""Seconds as people write and read them."""

from __future__ import annotations

import re

_UNITS = {"d": 86400, "h": 3600, "m": 60, "min": 60, "s": 1}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(d|h|min|m|s)\s*")


def clock(seconds: float) -> str:
    """``3m20s``, ``45s``, ``1h05m``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"


def seconds_of(text: str) -> float | None:
    """``2h``, ``90m``, ``90min``, ``1h30m``, ``1.5h``; ``None`` for anything else, such as a
    number without a unit."""
    parts = _PART.findall(text)
    if not parts or _PART.sub("", text).strip():
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
