"""The target's forward pass as plain functions on a dictionary of weights.

Teacher, draft and head share it. Small on purpose: no quantisation, no dropout, one shape of
model. Names of weights are those of the checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.functional import linear, scaled_dot_product_attention, silu

Weights = dict[str, Tensor]

HIDDEN, HEADS, KV_HEADS, HEAD_DIM = 576, 9, 3, 64
GROUP = HEADS // KV_HEADS
LAYERS, VOCABULARY = 30, 49152
EPS, THETA = 1e-5, 100_000.0
EMBEDDING = "model.embed_tokens.weight"  # also the output matrix: the two are tied
NORM = "model.norm.weight"


@dataclass(slots=True, kw_only=True)
class Cache:
    """Keys and values of one layer, ``[batch, KV_HEADS, capacity, HEAD_DIM]``, filled to a length
    that the caller keeps."""

    keys: Tensor
    values: Tensor


def target_weights(folder: Path) -> Weights:
    return load_file(folder / "model.safetensors")


def rms_norm(hidden: Tensor, weight: Tensor) -> Tensor:
    wide = hidden.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPS)
    return wide.to(hidden.dtype) * weight.to(hidden.dtype)


def angles(positions: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine of the rotary angles, ``[..., HEAD_DIM]``, for integer positions."""
    steps = torch.arange(0, HEAD_DIM, 2, dtype=torch.float32) / HEAD_DIM
    half = positions[..., None].float() * THETA**-steps
    both = torch.cat([half, half], dim=-1)
    return both.cos(), both.sin()


def rotate(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of ``[batch, heads, time, HEAD_DIM]``; cos and sin are [batch, time, …]."""
    first, second = heads.chunk(2, dim=-1)
    turned = torch.cat([-second, first], dim=-1)
    return heads * cos[:, None].to(heads.dtype) + turned * sin[:, None].to(heads.dtype)


def split_heads(rows: Tensor, count: int) -> Tensor:
    batch, time, _ = rows.shape
    return rows.view(batch, time, count, HEAD_DIM).transpose(1, 2)


def merge_heads(heads: Tensor) -> Tensor:
    batch, count, time, _ = heads.shape
    return heads.transpose(1, 2).reshape(batch, time, count * HEAD_DIM)


def attend(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """Grouped attention with the group folded into the query's time: no copies of the keys.

    ``mask`` is boolean ``[batch, 1, time, keys]``, true where a query may look.
    """
    batch, _, time, _ = query.shape
    folded = query.reshape(batch, KV_HEADS, GROUP * time, HEAD_DIM)
    wide = mask.expand(batch, 1, time, keys.shape[2]).repeat(1, 1, GROUP, 1)
    return scaled_dot_product_attention(folded, keys, values, attn_mask=wide).reshape(query.shape)


def mlp(hidden: Tensor, weights: Weights, prefix: str) -> Tensor:
    gate = silu(linear(hidden, weights[f"{prefix}gate_proj.weight"]))
    return linear(
        gate * linear(hidden, weights[f"{prefix}up_proj.weight"]),
        weights[f"{prefix}down_proj.weight"],
    )


def layer(
    hidden: Tensor,
    weights: Weights,
    prefix: str,
    turn: tuple[Tensor, Tensor],
    mask: Tensor,
    cache: tuple[Cache, int] | None = None,
) -> Tensor:
    """One decoder layer; with a cache, new keys go in at the given length."""
    normed = rms_norm(hidden, weights[f"{prefix}input_layernorm.weight"])
    attention = f"{prefix}self_attn."
    query = split_heads(linear(normed, weights[f"{attention}q_proj.weight"]), HEADS)
    keys = split_heads(linear(normed, weights[f"{attention}k_proj.weight"]), KV_HEADS)
    values = split_heads(linear(normed, weights[f"{attention}v_proj.weight"]), KV_HEADS)
    query, keys = rotate(query, *turn), rotate(keys, *turn)
    if cache is not None:
        keys, values = extend(*cache, keys, values)
    mixed = merge_heads(attend(query, keys, values, mask))
    hidden = hidden + linear(mixed, weights[f"{attention}o_proj.weight"])
    normed = rms_norm(hidden, weights[f"{prefix}post_attention_layernorm.weight"])
    return hidden + mlp(normed, weights, f"{prefix}mlp.")


def extend(cache: Cache, length: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    end = length + keys.shape[2]
    cache.keys[:, :, length:end] = keys
    cache.values[:, :, length:end] = values
    return cache.keys[:, :, :end], cache.values[:, :, :end]


def causal(time: int) -> Tensor:
    return torch.ones(time, time, dtype=torch.bool).tril()[None, None]
