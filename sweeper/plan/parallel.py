"""How many GPUs a server needs, by its flags."""

from __future__ import annotations

import math

from sweeper.values import Group

PARALLEL_FLAGS = ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size")
_SHORT = {"-tp": PARALLEL_FLAGS[0], "-pp": PARALLEL_FLAGS[1], "-dp": PARALLEL_FLAGS[2]}


def gpus(group: Group) -> int:
    """GPUs one server of this group needs: tensor × pipeline × data parallel size."""
    sizes = dict.fromkeys(PARALLEL_FLAGS, 1)
    args = group.server.args
    for token, value in zip(args, (*args, "")[1:], strict=True):
        name = _SHORT.get(token, token.removeprefix("--"))
        if name in sizes and value.isdigit():
            sizes[name] = int(value)
    return math.prod(sizes.values())
