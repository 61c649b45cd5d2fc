"""Makes vllm#55005 right inside a server; loaded only where ``server.workarounds`` names it.

vLLM's CPU build without Triton expands temperature, top_k and top_p from requests to draft tokens
into an int64 copy and throws the copy away, so speculation at a temperature above 0 is verified
against uninitialised memory. This replaces that one function by one that writes the output.

vLLM loads ``register`` as a general plugin in each of its processes, before it binds its CPU
kernels. Needs nothing of sweeper: a copy of this file is put before the server's Python.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import torch


def expand(
    output: Any,
    input_val: Any,
    cu_num_tokens: Any,
    replace_from: float,
    replace_to: float,
    MAX_NUM_TOKENS: int | None = None,  # vLLM's name for it
) -> None:
    """``output[t]`` is the value of the request that draft token ``t`` belongs to.

    ``input_val`` has one value a request, ``cu_num_tokens`` the running total of its draft tokens;
    ``replace_from`` becomes ``replace_to`` on the way.
    """
    counts = torch.diff(cu_num_tokens, prepend=cu_num_tokens.new_zeros(1)).to(torch.int64)
    replacement = torch.full_like(input_val, replace_to)
    values = torch.where(input_val == replace_from, replacement, input_val)
    expanded = values.repeat_interleave(counts)
    output[: expanded.shape[0]].copy_(expanded)


def register() -> None:
    """Put :func:`expand` in vLLM's place and say so in the server's log."""
    from vllm.platforms import current_platform
    from vllm.triton_utils import HAS_TRITON

    if HAS_TRITON or not current_platform.is_cpu():
        _say("not needed here: this vLLM expands with Triton")
        return
    from vllm.utils import cpu_triton_utils as kernels

    kernels._expand_kernel_impl = expand
    if hasattr(kernels, "expand_kernel"):  # up to 0.31 or so a wrapper holds the function
        kernels.expand_kernel = type(kernels.expand_kernel)(expand)
    _say("in force")


def _say(what: str) -> None:
    line = f"sweeper: work-around vllm-55005 {what} (pid {os.getpid()})"
    print(line, file=sys.stderr, flush=True)
