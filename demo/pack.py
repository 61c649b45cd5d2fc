"""Trained weights as int8, one scale for each row: what the repository carries.

python -m demo.pack
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from demo.command import no_arguments
from demo.draft import draft_file
from demo.eagle3 import head_file
from demo.llama import Weights

SHIPPED = Path(__file__).resolve().parent / "weights"
DRAFT_PACKED = SHIPPED / "draft.safetensors"
HEAD_PACKED = SHIPPED / "head.safetensors"
SCALE = ".scale"


def packed(weights: Weights) -> Weights:
    """Matrices as int8 beside ``<name>.scale [rows]``; everything else as it is.

    The error of an entry is at most half its row's scale, which is the row's largest magnitude
    over 127.
    """
    small: Weights = {}
    for name, weight in weights.items():
        if weight.ndim != 2:
            small[name] = weight.contiguous()
            continue
        scale = (weight.abs().amax(1) / 127).clamp(min=torch.finfo(torch.float32).tiny)
        small[name] = (weight / scale[:, None]).round().to(torch.int8)
        small[name + SCALE] = scale
    return small


def unpacked(small: Weights) -> Weights:
    """Float32 weights from ``packed`` ones; integer vectors pass through."""
    return {
        name: scaled(tensor, small.get(name + SCALE))
        for name, tensor in small.items()
        if not name.endswith(SCALE)
    }


def scaled(tensor: Tensor, scale: Tensor | None) -> Tensor:
    return tensor if scale is None else tensor.float() * scale[:, None]


def pack_all() -> tuple[Path, Path]:
    """Write both files from the trained weights."""
    SHIPPED.mkdir(exist_ok=True)
    for source, place in ((draft_file(), DRAFT_PACKED), (head_file(), HEAD_PACKED)):
        save_file(packed(load_file(source)), place)
        place.chmod(0o644)
        print(f"{place.name}: {place.stat().st_size / 1e6:.1f} MB")
    return DRAFT_PACKED, HEAD_PACKED


if __name__ == "__main__":
    no_arguments(__doc__)
    pack_all()
