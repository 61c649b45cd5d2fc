"""Which GPUs this process may use, and who holds which of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sweeper.errors import UserError


def visible(environ: Mapping[str, str], root: Path = Path("/dev")) -> tuple[str, ...]:
    """``CUDA_VISIBLE_DEVICES`` as it is set, indices or UUIDs, else every NVIDIA GPU there is."""
    named = environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return tuple(name.strip() for name in named.split(",") if name.strip() not in ("", "-1"))
    found = (path.name.removeprefix("nvidia") for path in root.glob("nvidia[0-9]*"))
    return tuple(sorted((name for name in found if name.isdigit()), key=int))


def asked(devices: object, there: Sequence[str]) -> tuple[str, ...]:
    """``auto``, a list, or one device as the command line gives it.

    :raises UserError: for something else, or a device twice.
    """
    if devices in (None, "auto"):
        return tuple(there)
    listed = devices if isinstance(devices, list | tuple) else [devices]
    names = tuple(str(one) for one in listed)
    if len(set(names)) < len(names) or not all(names):
        raise UserError(
            f"hydra.launcher.backend.devices: {devices!r}: auto, or a list of different GPUs such "
            "as [0,1]"
        )
    return names


def login_node(environ: Mapping[str, str], which: Callable[[str], str | None]) -> bool:
    """A machine that belongs to Slurm, outside of any job?"""
    return "SLURM_JOB_ID" not in environ and which("sbatch") is not None
