"""Joules from NVML's meter, and why there are none."""

from __future__ import annotations

from sweeper.judge.latency import measure
from sweeper.judge.timing import Machine, machine_of, timing
from sweeper.measure.energy import Meter
from sweeper.values import Load, Slo
from tests.unit.sweeps import record


class Board:
    """What ``pynvml`` offers, of boards whose meters move by 3 J a reading."""

    class NVMLError(Exception):
        pass

    def __init__(self, broken: bool = False) -> None:
        self.broken, self.millijoules = broken, 0
        self.asked: list[str | int] = []

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        self.asked.append(index)
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        self.asked.append(uuid)
        return uuid

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: object) -> int:
        if self.broken:
            raise self.NVMLError("Not Supported")
        self.millijoules += 3000
        return self.millijoules


def test_the_meters_of_all_visible_boards_are_summed() -> None:
    assert Meter(Board(), None, "").used() == {"joules": 12.0, "gpus": 2}
    assert Meter(Board(), "1", "").used() == {"joules": 3.0, "gpus": 1}


def test_boards_are_found_by_index_and_by_uuid() -> None:
    board = Board()
    Meter(board, "0, GPU-1f", "")
    assert board.asked == [0, "GPU-1f"]


def test_what_cannot_be_read_says_why() -> None:
    assert Meter(Board(broken=True), None, "").used() == {
        "reason": "not measured: NVML: Not Supported"
    }
    assert Meter(None, None, "not measured: no GPU").used() == {"reason": "not measured: no GPU"}


def test_energy_is_per_output_token_and_rates_per_gpu() -> None:
    records = [record(f"p{n}", tokens=10) for n in range(4)]
    load = Load(name="closed", concurrency=4, stream=True)
    machine = machine_of({"engine": {"gpus": 2}}, {"energy": {"joules": 80.0, "gpus": 2}})
    found = timing(measure(records), load, slo=Slo(), seed=0, machine=machine).rates
    assert found["energy_j_per_output_token"].value == 2.0
    both = (found["total_tokens_per_s"].value, found["total_tokens_per_s_per_gpu"].value)
    assert both == (60.0, 30.0)


def test_without_a_gpu_both_say_so() -> None:
    machine = machine_of({"engine": {"gpus": 0}}, {"energy": {"reason": "whatever"}})
    load, records = Load(name="sequential"), [record("p")]
    found = timing(measure(records), load, slo=Slo(), seed=0, machine=machine).rates
    for name in ("energy_j_per_output_token", "output_tokens_per_s_per_gpu"):
        assert found[name].value is None
        assert found[name].reason == "not measured: no GPU"


def test_files_of_an_earlier_version_recorded_neither() -> None:
    assert machine_of({}, {}) == machine_of(None, None) == Machine()
