"""Defects planted in a real vLLM by a plugin of the tests, to see whether they are caught."""

from __future__ import annotations

from pathlib import Path

EVERY_DRAFT_SAMPLED = '''
import torch


def register():
    """Every draft token is accepted, whatever its probability."""
    from vllm.utils import cpu_triton_utils as kernels

    right = kernels._rejection_random_sample_kernel_impl

    def wrong(*args, **kwargs):
        args = list(args)
        args[7] = torch.full_like(args[7], -1.0)  # uniform_probs: below every ratio
        return right(*args, **kwargs)

    kernels._rejection_random_sample_kernel_impl = wrong
    print("test: every draft is accepted", flush=True)
'''
"""Above temperature 0: what is drafted is the answer."""

EVERY_DRAFT_GREEDY = '''
def register():
    """Every draft token is taken for the target's most likely one."""
    from vllm.utils import cpu_triton_utils as kernels

    right = kernels._rejection_greedy_sample_kernel_impl

    def wrong(*args, **kwargs):
        args = list(args)
        args[3] = args[2].to(args[3].dtype)  # target_argmax: the drafts
        return right(*args, **kwargs)

    kernels._rejection_greedy_sample_kernel_impl = wrong
    print("test: every draft is accepted", flush=True)
'''
"""At temperature 0."""

SAID = "test: every draft is accepted"


def planted(folder: Path, source: str) -> Path:
    """Write a plugin that is no work-around; the folder to put before a server's Python."""
    about = folder / "wrong_sampler-0.dist-info"
    about.mkdir(parents=True)
    (folder / "wrong_sampler.py").write_text(source)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: wrong-sampler\nVersion: 0\n")
    (about / "entry_points.txt").write_text(
        "[vllm.general_plugins]\nwrong-sampler = wrong_sampler:register\n"
    )
    return folder
