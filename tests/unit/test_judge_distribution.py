"""The distribution test: its size on equal servers, its power on wrong ones, both simulated."""

from __future__ import annotations

import numpy as np
import pytest

from sweeper.judge.distribution import p_value
from sweeper.scores import Samples

WORDS, LENGTH = 12, 8
Draws = tuple[tuple[int, ...], ...]


def markov(dice: np.random.Generator, texts: int) -> list[np.ndarray]:
    """Per text a table of the next word's probabilities, most of it on a few words."""
    return [dice.dirichlet(np.full(WORDS, 0.4), WORDS) for _ in range(texts)]


def sample(
    tables: list[np.ndarray], dice: np.random.Generator, samples: int, *, accept: float = 0.0
) -> Samples:
    """``accept``: with this chance a step takes what was drafted, word 3, without a look."""
    draws = tuple(_walks(table, dice, samples, accept) for table in tables)
    return Samples(texts=tuple(map(str, range(len(tables)))), draws=draws, drafted=1)


def _walks(table: np.ndarray, dice: np.random.Generator, samples: int, accept: float) -> Draws:
    words, at = [], np.zeros(samples, dtype=int)
    for _ in range(LENGTH):
        drawn = (table.cumsum(axis=1)[at] < dice.random((samples, 1))).sum(axis=1)
        at = np.where(dice.random(samples) < accept, 3, drawn.clip(max=WORDS - 1))
        words.append(at)
    return tuple(tuple(map(int, walk)) for walk in np.transpose(words))


def p_values(runs: int, *, samples: int = 32, texts: int = 2, accept: float = 0.0) -> np.ndarray:
    found = []
    for run in range(runs):
        dice = np.random.default_rng(run)
        tables = markov(dice, texts)
        one = sample(tables, dice, samples)
        found.append(p_value(one, sample(tables, dice, samples, accept=accept), seed=run))
    return np.array(found)


def test_equal_servers_are_told_apart_at_the_stated_rate() -> None:
    found = p_values(120)
    # 5 % of 120 are 6; 13 or more have a chance of 1 in 100
    assert (found <= 0.05).sum() <= 12
    assert (found <= 0.001).sum() <= 1
    assert 0.4 < found.mean() < 0.6


@pytest.mark.parametrize(("accept", "caught"), [(0.5, 20), (0.2, 15)])
def test_a_sampler_that_accepts_what_it_should_not_is_caught(accept: float, caught: int) -> None:
    assert (p_values(20, samples=64, accept=accept) <= 0.001).sum() >= caught


def test_the_same_continuations_are_no_difference() -> None:
    dice = np.random.default_rng(0)
    one = sample(markov(dice, 2), dice, 16)
    assert p_value(one, one, seed=0) == 1.0


def test_arms_of_different_sizes_and_lengths() -> None:
    one = Samples(texts=("t",), draws=(((1, 2), (1,), (1, 2, 3), (1,)) * 8,))
    other = Samples(texts=("t",), draws=(((1, 2), (1,)) * 8,))
    assert p_value(one, other, seed=0) > 0.001
    ended = Samples(texts=("t",), draws=(((1,),) * 16,))
    assert p_value(one, ended, seed=0) <= 0.01
    assert p_value(Samples(texts=(), draws=()), Samples(texts=(), draws=()), seed=0) == 1.0
