"""The server and its GPUs over the time of a point: gauges, the thread, what MLflow is told."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

from sweeper.judge.judgement import judge
from sweeper.measure.energy import Meter
from sweeper.measure.series import gauges, repeated
from sweeper.report.runs import child
from sweeper.report.stepped import MOST_STEPS
from sweeper.store import PointFolder, SweepFolder, read_sweep
from tests.unit.sweeps import Made, folder, point, record
from tests.unit.test_energy import Board

METRICS = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a } b"} 3.0
vllm:num_requests_running{engine="1",model_name="a } b"} 1.0
vllm:num_requests_waiting 2
vllm:kv_cache_usage_perc{engine="0"} 0.5
vllm:kv_cache_usage_perc{engine="1"} 0.25
vllm:num_requests_running_or_not 9
"""
BASE = Made(point=point("none", 0), records=tuple(record(f"p{n}") for n in range(3)))


class Busy(Board):
    """Two boards at work."""

    class _Use:
        gpu, used = 75, 2**30

    def nvmlDeviceGetUtilizationRates(self, handle: object) -> Busy._Use:
        return self._Use()

    def nvmlDeviceGetMemoryInfo(self, handle: object) -> Busy._Use:
        return self._Use()

    def nvmlDeviceGetPowerUsage(self, handle: object) -> int:
        if self.broken:
            raise self.NVMLError("Not Supported")
        return 150_000


def test_gauges_are_summed_over_engines_and_cache_use_is_a_mean() -> None:
    assert gauges(METRICS) == {
        "requests_running": 4.0,
        "requests_waiting": 2.0,
        "kv_cache_usage": 0.375,
    }
    assert gauges("") == {}


def test_boards_are_summed_and_their_use_is_a_mean() -> None:
    assert Meter(Busy(), None, "").now() == {
        "gpu_utilization": 0.75,
        "gpu_memory_gib": 2.0,
        "gpu_power_w": 300.0,
    }
    assert Meter(Busy(broken=True), None, "").now() == {}
    assert Meter(None, None, "not measured: no GPU").now() == {}


def test_the_thread_looks_until_the_block_ends() -> None:
    seen = threading.Semaphore(0)
    with repeated(seen.release, 0.001):
        assert all(seen.acquire(timeout=10) for _ in range(3))
    assert "series" not in {t.name for t in threading.enumerate()}


def sampled(path: Path, count: int) -> tuple[SweepFolder, PointFolder]:
    sweep_folder = folder(
        path, replace(BASE, counters={"energy": {"reason": "not measured: none"}})
    )
    (planned,) = read_sweep(sweep_folder).plan.points
    files = sweep_folder.point(planned)
    for n in range(count):
        files.append_sample({"second": 2.0 * n, "requests_running": n % 4, "kv_cache_usage": 0.5})
    return sweep_folder, files


def test_a_series_is_a_stepped_metric_by_second(tmp_path: Path) -> None:
    sweep_folder, files = sampled(tmp_path, 3)
    with files.series.open("a") as file:
        file.write('{"second": 9')  # the process was killed
    judgement = judge(sweep_folder)
    run = child(sweep_folder, read_sweep(sweep_folder), judgement.comparisons[0], judgement)
    assert run.stepped == {
        "server/requests_running": ((0, 0), (2, 1), (4, 2)),
        "server/kv_cache_usage": ((0, 0.5), (2, 0.5), (4, 0.5)),
    }
    assert run.tags["not_measured.gpu/power_w"] == "none"
    assert run.tags["not_measured.server/requests_waiting"] == (
        "the server's /metrics were not read over time, or do not tell it"
    )


def test_a_long_series_is_thinned(tmp_path: Path) -> None:
    sweep_folder, _ = sampled(tmp_path, 1000)
    judgement = judge(sweep_folder)
    run = child(sweep_folder, read_sweep(sweep_folder), judgement.comparisons[0], judgement)
    steps = run.stepped["server/kv_cache_usage"]
    assert MOST_STEPS // 2 < len(steps) <= MOST_STEPS
    assert steps[1][0] == 8
