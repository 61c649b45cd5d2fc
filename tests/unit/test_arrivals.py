"""When open loads send, and which slots closed loads and ramps have."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
import pytest

from sweeper.drive.arrivals import arrivals, shifts
from sweeper.values import Load

OPEN = Load(name="open", rate=4.0)
RAMP = Load(name="ramp", ramp_from=1.0, ramp_to=4.0, duration_s=8.0)


def first(load: Load, count: int) -> list[float]:
    return list(islice(arrivals(load), count))


def test_the_first_request_is_sent_at_once_and_constant_gaps_follow() -> None:
    assert first(replace(OPEN, arrivals="constant"), 4) == [0.0, 0.25, 0.5, 0.75]


def test_a_seed_draws_the_same_arrivals_and_another_seed_others() -> None:
    assert first(OPEN, 50) == first(OPEN, 50)
    assert first(OPEN, 50)[1:] != first(replace(OPEN, seed=1), 50)[1:]


@pytest.mark.parametrize(
    ("load", "variation"),
    [
        (OPEN, 1.0),
        (replace(OPEN, arrivals="gamma", burstiness=0.25), 2.0),
        (replace(OPEN, arrivals="gamma", burstiness=4.0), 0.5),
    ],
)
def test_gaps_have_the_rate_and_the_burstiness_asked_for(load: Load, variation: float) -> None:
    gaps = np.diff(first(load, 20_000))
    assert gaps.mean() == pytest.approx(0.25, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(variation, rel=0.05)


def test_a_duration_ends_the_arrivals() -> None:
    times = list(arrivals(replace(OPEN, arrivals="constant", duration_s=1.0)))
    assert times == [0.0, 0.25, 0.5, 0.75]


@pytest.mark.parametrize(("start", "end"), [(2.0, 10.0), (10.0, 2.0), (6.0, 6.0), (0.0, 12.0)])
def test_a_ramp_of_rate_sends_the_mean_rate_times_its_length(start: float, end: float) -> None:
    load = replace(RAMP, ramp_of="rate", ramp_from=start, ramp_to=end, arrivals="constant")
    times = list(arrivals(load))
    assert len(times) == pytest.approx(6.0 * 8.0, abs=1)
    assert all(0 <= a < b < 8.0 for a, b in pairwise(times))
    half = sum(t < 4.0 for t in times)
    assert half == pytest.approx(4.0 * (start + (end - start) / 4), abs=1)


def test_a_closed_load_has_its_slots_open_all_the_time() -> None:
    assert list(shifts(Load(name="closed", concurrency=3))) == [(0.0, float("inf"))] * 3
    assert list(shifts(Load(name="closed", concurrency=1, duration_s=5.0))) == [(0.0, 5.0)]


def test_a_ramp_opens_a_slot_when_its_line_rounds_to_it() -> None:
    found = list(shifts(RAMP))
    assert [opens for opens, _ in found] == pytest.approx([0.0, 8 / 6, 4.0, 8 * 5 / 6])
    assert {closes for _, closes in found} == {8.0}


def test_a_falling_ramp_closes_the_highest_slot_first() -> None:
    found = list(shifts(replace(RAMP, ramp_from=4.0, ramp_to=1.0)))
    assert [closes for _, closes in found] == pytest.approx([8.0, 8 * 5 / 6, 4.0, 8 / 6])
    assert {opens for opens, _ in found} == {0.0}
