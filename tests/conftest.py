"""How tests share workers: servers of real vLLM one after another, beside the Slurm clusters."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep ``vllm`` on one worker and ``slurm`` on another; clusters wait more than they compute.

    A test that has both marks counts as ``slurm``. Only ``--dist loadgroup`` looks at this.
    """
    for item in items:
        for name in ("slurm", "vllm"):
            if item.get_closest_marker(name):
                item.add_marker(pytest.mark.xdist_group(name))
                break
