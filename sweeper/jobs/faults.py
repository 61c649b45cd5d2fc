"""Starts that failed because of the machine and not because of the setting."""

from __future__ import annotations

import re

_FAULTS = (
    (r"No space left on device", "its disk is full"),
    (r"[Ff]ree memory on device .*is less than desired", "GPU memory is held by someone else"),
    (r"no CUDA-capable device|No CUDA GPUs are available", "no usable GPU"),
    (r"[Ff]ailed to infer device type|[Dd]evice string must not be empty", "no usable GPU"),
    (r"CUDA-capable device\(s\) is/are busy or unavailable", "the GPU is busy or unavailable"),
    (r"[Uu]ncorrectable (NVLink |ECC )?error|GPU has fallen off the bus", "the GPU is broken"),
    (r"NVML.*(version mismatch|Not Found)|Unknown NVML Error", "the GPU driver is broken"),
    (r"CUDA (driver )?initialization|unknown error.*cuInit", "the GPU driver does not start"),
    (r"[Ss]tale file handle|Transport endpoint is not connected", "a file system is not mounted"),
)
"""Pattern in a server's log, and what it says of the node. Running out of memory after the weights
are loaded is not here: that is a setting too large for the GPU."""


def node_fault(text: str) -> str:
    """What is wrong with the node, with the line that says so; empty for a fault of the setting."""
    for pattern, meaning in _FAULTS:
        found = re.search(rf"^.*({pattern}).*$", text, flags=re.MULTILINE)
        if found:
            return f"{meaning} ({' '.join(found[0].split())[-200:]})"
    return ""
