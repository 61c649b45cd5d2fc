"""Loads as yaml: what each shape needs, and the sentence for what is wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hydra import compose, initialize_config_dir

from sweeper.config import Settings, config_dir, register_resolvers, settings_from
from sweeper.drive.load import rehearsal
from sweeper.drive.workers import processes_for
from sweeper.errors import ConfigError
from sweeper.values import Load, Slo
from tests.unit.sweeps import point


@pytest.fixture(autouse=True)
def hydra_here() -> Iterator[None]:
    register_resolvers()
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        yield


def settings(*overrides: str) -> Settings:
    return settings_from(compose("config", list(overrides)))


def test_sequential_is_as_it_was() -> None:
    assert settings().load == Load(name="sequential")


def test_the_other_shapes_stream() -> None:
    closed = settings("load=closed", "load.concurrency=32").load
    assert (closed.name, closed.concurrency, closed.stream) == ("closed", 32, True)
    opened = settings("load=open", "load.rate=4", "load.arrivals=gamma", "load.burstiness=0.5").load
    assert (opened.rate, opened.arrivals, opened.burstiness) == (4.0, "gamma", 0.5)
    ramp = settings("load=ramp", "load.ramp_of=rate", "load.ramp_to=8").load
    assert (ramp.ramp_of, ramp.ramp_from, ramp.ramp_to) == ("rate", 1.0, 8.0)
    assert not any(load.cycle for load in (closed, opened, ramp))


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ("load.concurrency=2", "load.concurrency: sequential sends one request at a time: 1"),
        ("+load.stream=true", "load.stream: sequential is not streamed; use load=closed"),
        ("load=closed load.concurrency=0", "load.concurrency: 0: at least 1"),
        ("load=closed load.processes=0", "load.processes: at least 1, or auto"),
        ("load=open load.rate=0", "load.rate: above 0 requests a second"),
        ("load=open load.rate=null", "load.rate: above 0 requests a second"),
        ("load=open load.burstiness=0", "load.burstiness: above 0; 1 is Poisson"),
        ("load=ramp load.duration_s=null", "load.duration_s: a ramp needs its length in seconds"),
        ("load=ramp load.ramp_from=-1", "load.ramp_from, load.ramp_to: two numbers, at least 0"),
        ("load=ramp load.ramp_from=0 load.ramp_to=0.4", "load.ramp_to: the ramp sends nothing"),
        ("load=closed load.requests=0", "load.requests: at least 1, or null"),
        ("load=closed load.duration_s=0", "load.duration_s: above 0 seconds, or null"),
        (
            "load=closed load.cycle=true",
            "load.cycle: without load.requests or load.duration_s it would never end",
        ),
        ("slo.ttft_ms=0", "slo.ttft_ms: 0.0: above 0 milliseconds"),
    ],
)
def test_mistakes(overrides: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(*overrides.split())
    assert str(caught.value).splitlines() == [sentence]


def test_an_slo_has_the_limits_that_are_given() -> None:
    assert settings().slo == Slo()
    assert settings("slo.ttft_ms=500", "slo.tpot_ms=50").slo.limits == {
        "ttft_ms": 500.0,
        "tpot_ms": 50.0,
    }


def test_canary_and_warm_up_have_the_shape_but_no_waiting() -> None:
    one = Load(name="sequential")
    assert rehearsal(one) is one
    opened = Load(name="open", rate=0.1, stream=True, duration_s=60.0, request_timeout_s=9.0)
    assert rehearsal(opened) == Load(name="closed", stream=True, request_timeout_s=9.0, processes=1)
    assert rehearsal(Load(name="closed", concurrency=8)).concurrency == 8


@pytest.mark.parametrize(
    ("changes", "processes"),
    [
        ({"processes": 3}, 3),
        ({"concurrency": 1}, 1),
        ({"name": "sequential", "stream": False, "processes": 3}, 1),
        ({"name": "open", "rate": 1.0}, 1),
    ],
)
def test_how_many_processes_send_a_load(changes: dict[str, Any], processes: int) -> None:
    fields: dict[str, Any] = {"name": "closed", "stream": True} | changes
    assert processes_for(Load(**fields)) == processes


def test_auto_takes_more_for_more_and_leaves_half_of_the_cores_to_the_server() -> None:
    room = max(1, len(os.sched_getaffinity(0)) // 2)
    assert processes_for(Load(name="closed", concurrency=10_000, stream=True)) == room
    assert processes_for(Load(name="open", rate=1e5, stream=True)) == room


def test_processes_are_how_a_load_is_sent_and_no_part_of_the_point() -> None:
    one = point("ngram", 4, load=Load(name="closed", processes=1))
    two = point("ngram", 4, load=Load(name="closed", processes=2))
    assert one.key == two.key
    assert settings("load=closed").load.processes == "auto"
    assert settings("load=closed", "load.processes=2").load.processes == 2
