"""Metrics with steps: survival by draft position, the server and its GPUs by second."""

from __future__ import annotations

from collections.abc import Collection

from sweeper.judge.compare import Comparison
from sweeper.store import PointFolder

SERIES = {
    "requests_running": "server/requests_running",
    "requests_waiting": "server/requests_waiting",
    "kv_cache_usage": "server/kv_cache_usage",
    "gpu_utilization": "gpu/utilization",
    "gpu_memory_gib": "gpu/memory_gib",
    "gpu_power_w": "gpu/power_w",
}
"""Metrics over the time of a point; MLflow groups names by what stands before the slash."""
SURVIVAL = "survival"
MOST_STEPS = 300
"""Of a series; a longer one is thinned, ``series.jsonl`` has all of it."""
Steps = tuple[tuple[int, float], ...]
"""(step, value) pairs."""


def stepped_of(one: Comparison, files: PointFolder) -> dict[str, Steps]:
    """All that a point has, by the names MLflow is told."""
    survival = enumerate(one.acceptance.survival, start=1)
    samples = files.samples_over_time()
    samples = samples[:: 1 + len(samples) // MOST_STEPS]
    found = {SURVIVAL: tuple((i, f.value) for i, f in survival if f.value is not None)}
    for ours, name in SERIES.items():
        found[name] = tuple((round(s["second"]), s[ours]) for s in samples if ours in s)
    return {name: steps for name, steps in found.items() if steps}


def no_series(one: Comparison, stepped: Collection[str]) -> dict[str, str]:
    """Why a completed point lacks some of :data:`SERIES`, by name."""
    missing = [name for name in SERIES.values() if name not in stepped and one.completed]
    return {name: _reason(name, one) for name in missing}


def _reason(name: str, one: Comparison) -> str:
    counters = one.result.counters if one.result else {}
    energy = counters.get("energy") if isinstance(counters, dict) else None
    if name.startswith("gpu/") and isinstance(energy, dict):
        return str(energy.get("reason", "NVML does not tell it")).removeprefix("not measured: ")
    return "the server's /metrics were not read over time, or do not tell it"
