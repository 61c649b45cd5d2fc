"""The rule for many settings at once keeps what it says, on simulated settings of known speed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sweeper.judge.bootstrap import Figure, forget
from sweeper.judge.compare import Comparison, compare
from sweeper.judge.ranking import Ranking, rank
from sweeper.judge.speedup import COLUMNS, Paired
from tests.unit.sweeps import Made, folder, point, record

SETTINGS, PROMPTS, DRAWS = 8, 24, 250
TRUTH = 1.5
THREE_ERRORS = 3 * (0.05 * 0.95 / DRAWS) ** 0.5
"""Sampling error of a share of 5 % in so many draws, thrice."""


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> tuple[Comparison, ...]:
    """As many points as there are settings, whose figures every draw replaces."""
    records = tuple(record(f"p{n}") for n in range(PROMPTS))
    made = [Made(point=point("none", 0), records=records)]
    made += [Made(point=point("ngram", n + 1), records=records) for n in range(SETTINGS)]
    home: Path = tmp_path_factory.mktemp("settings")
    return tuple(c for c in compare(folder(home, *made)) if not c.point.is_baseline)


def drawn(
    settings: Sequence[Comparison], truths: Sequence[float], draws: int, count: int = PROMPTS
) -> Iterator[tuple[list[Comparison], Ranking]]:
    """Simulated sweeps and their rankings: prompts of different lengths, noise of mean 1 of every
    setting's own, and the baseline's shared by all of them."""
    dice = np.random.default_rng(20260131)
    prompts = tuple(f"p{n}" for n in range(count))
    for seed in range(draws):
        forget()
        long = dice.gamma(4.0, 0.5, count)
        base = long * dice.gamma(25.0, 1 / 25, count)
        arms = []
        for one, truth in zip(settings, truths, strict=True):
            table = np.full((count, len(COLUMNS)), np.nan)
            seconds = long / truth * dice.gamma(25.0, 1 / 25, count)
            for name, column in (("base_s", base), ("s", seconds)):
                table[:, COLUMNS.index(name)] = column
            for name in ("base_tokens", "tokens"):
                table[:, COLUMNS.index(name)] = 64.0
            arms.append(replace(one, paired=Paired(prompts, table)))
        yield arms, rank(arms, seed=seed)


def test_of_equal_settings_one_is_hardly_ever_named_the_best(
    settings: tuple[Comparison, ...],
) -> None:
    """And all their intervals hold the truth together as often as they say, which the intervals
    of each alone do not."""
    named = together = alone = 0
    for arms, found in drawn(settings, [TRUTH] * SETTINGS, DRAWS):
        named += not found.tied
        assert len(found.speedups) == SETTINGS
        together += all(map(_covers, found.speedups.values()))
        alone += all(_covers(c.paired.output_rate(seed=0)) for c in arms if c.paired)
    assert named / DRAWS <= 0.05 + THREE_ERRORS
    assert together / DRAWS >= 0.95 - THREE_ERRORS
    assert alone / DRAWS < 0.9


def test_the_fastest_by_far_is_named(settings: tuple[Comparison, ...]) -> None:
    truths = [*[TRUTH] * (SETTINGS - 1), 2 * TRUTH]
    for arms, found in drawn(settings, truths, 20):
        assert found.best is arms[-1]
        assert found.tied == ()


def test_the_number_of_prompts_that_is_named_is_of_the_right_size(
    settings: tuple[Comparison, ...],
) -> None:
    """With half of what five prompts name, most sweeps are open; with twice as many, few are."""
    truths, least = [TRUTH] * SETTINGS, 1.05
    said = [
        found.prompts_needed(one.number, least)
        for arms, found in drawn(settings, truths, 40, count=5)
        for one in arms
    ]
    named = int(np.median([number for number in said if number]))

    def settled(count: int) -> float:
        first = settings[0].number
        lows = [found.speedups[first].low for _, found in drawn(settings, truths, 40, count=count)]
        return float(np.mean([low is not None and low > least for low in lows]))

    print(f"{named} prompts named; settled with half, all and twice of them: "
          f"{settled(named // 2)}, {settled(named)}, {settled(2 * named)}")  # fmt: skip
    assert settled(named // 2) < 0.25
    assert settled(2 * named) > 0.75


def _covers(figure: Figure) -> bool:
    return figure.low is not None and figure.high is not None and figure.low <= TRUTH <= figure.high
