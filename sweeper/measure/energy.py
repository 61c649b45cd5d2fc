"""What NVML says of the GPUs a server runs on: energy, load, memory, power.

The meter of energy (``nvmlDeviceGetTotalEnergyConsumption``) counts millijoules since the driver
was loaded, of the whole board, whoever used it. Volta and later have one.
"""

from __future__ import annotations

import os
from typing import Any

from sweeper.values import Json, ServerSpec

NO_GPU = "not measured: no GPU"
_VISIBLE = "CUDA_VISIBLE_DEVICES"


class Meter:
    """Joules of the server's GPUs from now on; a reason where they cannot be read."""

    def __init__(self, nvml: Any, visible: str | None, reason: str) -> None:
        """``nvml`` is the module ``pynvml`` or ``None``, ``visible`` CUDA_VISIBLE_DEVICES."""
        self._nvml = nvml
        self._visible = visible
        self._reason = reason
        self._before = self._read()

    def used(self) -> dict[str, Json]:
        """``{"joules": …, "gpus": n}``, or ``{"reason": …}``."""
        after = self._read()
        if not self._before or not after:
            return {"reason": self._reason}
        pairs = zip(after, self._before, strict=True)
        return {"joules": sum(now - then for now, then in pairs) / 1000, "gpus": len(after)}

    def now(self) -> dict[str, float]:
        """Utilisation (mean share of time with work), memory and power (sums); empty where they
        cannot be read."""
        nvml = self._nvml
        try:
            boards = self._handles() if nvml is not None else []
            if not boards:
                return {}
            busy = [nvml.nvmlDeviceGetUtilizationRates(board).gpu for board in boards]
            used = [nvml.nvmlDeviceGetMemoryInfo(board).used for board in boards]
            drawn = [nvml.nvmlDeviceGetPowerUsage(board) for board in boards]
        except nvml.NVMLError:
            return {}
        return {
            "gpu_utilization": sum(busy) / len(busy) / 100,
            "gpu_memory_gib": sum(used) / 2**30,
            "gpu_power_w": sum(drawn) / 1000,
        }

    def _read(self) -> tuple[int, ...] | None:
        """Millijoules of each GPU."""
        if self._nvml is None:
            return None
        try:
            return tuple(
                int(self._nvml.nvmlDeviceGetTotalEnergyConsumption(handle))
                for handle in self._handles()
            )
        except self._nvml.NVMLError as problem:
            self._reason = f"not measured: NVML: {problem}"
            return None

    def _handles(self) -> list[Any]:
        if self._visible is None:
            count = self._nvml.nvmlDeviceGetCount()
            return [self._nvml.nvmlDeviceGetHandleByIndex(n) for n in range(count)]
        return [self._handle(name.strip()) for name in self._visible.split(",") if name.strip()]

    def _handle(self, name: str) -> Any:
        """Of an index, or of a UUID as Slurm may give it."""
        if name.isdigit():
            return self._nvml.nvmlDeviceGetHandleByIndex(int(name))
        return self._nvml.nvmlDeviceGetHandleByUUID(name)


def meter(spec: ServerSpec) -> Meter:
    """Of the GPUs that ``spec`` sees; those of a server we did not start may be anywhere."""
    if spec.kind == "external":
        return Meter(None, None, "not measured: the server was not started here")
    nvml, reason = _nvml()
    return Meter(nvml, dict(spec.env).get(_VISIBLE, os.environ.get(_VISIBLE)), reason)


def _nvml() -> tuple[Any, str]:
    """``pynvml`` of ``nvidia-ml-py`` where a driver answers it, else ``None`` and why."""
    try:
        import pynvml
    except ImportError:
        return None, "not measured: nvidia-ml-py is not installed, or there is no GPU"
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as problem:
        return None, f"not measured: NVML: {problem}"
    return pynvml, ""
