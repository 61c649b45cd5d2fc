"""Figures as people read them, on a terminal, on the page and in sentences."""

from __future__ import annotations

from sweeper.judge.bootstrap import Figure

NOT_MEASURED = "not measured"
FAR = 100.0
"""An interval that goes so many times as far as its value, both ways, bounds nothing: where it ends
is not said."""
BEYOND = 1e5
"""From here on only the power of ten is said: no digit of such an interval means anything."""


def fixed(value: float, digits: int) -> str:
    """``1.56``, ``1e+43``."""
    return f"{value:.{digits}f}" if abs(value) < BEYOND else f"{value:.0e}"


def say(figure: Figure, digits: int = 2, mark: str = "") -> str:
    """``1.56 [1.31, 1.89]``; ``mark`` stands behind the number."""
    if figure.value is None:
        return NOT_MEASURED
    text = fixed(figure.value, digits) + mark
    if figure.low is None or figure.high is None:
        return text
    low, high = figure.value / FAR, figure.value * FAR
    if 0 <= figure.low < low and high < figure.high:
        return f"{text} [<{fixed(max(low, 10.0**-digits), digits)}, >{fixed(high, 0)}]"
    return f"{text} [{fixed(figure.low, digits)}, {fixed(figure.high, digits)}]"
