from __future__ import annotations

from sweeper.judge.bootstrap import Figure
from sweeper.judge.evidence import _signed_percent
from sweeper.judge.shown import fixed, say


def test_figures_are_said_with_their_interval() -> None:
    assert say(Figure(value=1.5, low=1.25, high=2.0)) == "1.50 [1.25, 2.00]"
    assert say(Figure(value=1.5), 1, "*") == "1.5*"
    assert say(Figure(reason="no draft")) == "not measured"


def test_an_interval_that_bounds_nothing_is_not_said_in_digits() -> None:
    assert say(Figure(value=1.25, low=1e-7, high=1e7)) == "1.25 [<0.01, >125]"
    assert say(Figure(value=0.4, low=0.0, high=1.07e43)) == "0.40 [<0.01, >40]"
    assert say(Figure(value=0.004, low=0.0, high=0.3), 3) == "0.004 [0.000, 0.300]"
    assert say(Figure(value=-0.05, low=-0.15, high=0.0)) == "-0.05 [-0.15, 0.00]"


def test_ends_without_meaning_are_powers_of_ten() -> None:
    assert say(Figure(value=0.4, low=0.3, high=1.07e43)) == "0.40 [0.30, 1e+43]"
    assert _signed_percent(Figure(value=-0.6, low=-1.0, high=1e41)) == "-60 % [-100, +1e+43]"
    assert fixed(99999.0, 0) == "99999"
