"""The EAGLE-3 head: one layer on the target's hidden states, trained on its own drafts.

    python -m demo.eagle3

Row t gets the embedding of token t + 1 beside the target's features of position t (hidden states
after layers 2, 15 and 27 through ``fc``) and predicts token t + 2. Step k of the training-time test
feeds the row its own output of step k - 1 and the next token: as vLLM does when it drafts k tokens
ahead. Queries of a later step look at the true features up to t and at the row's own earlier steps.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn.functional import linear

from demo.cache import cache_dir
from demo.command import no_arguments
from demo.generation import KEPT_LAYERS
from demo.lessons import Batch, Teacher, all_lessons, frequent_tokens, learn
from demo.llama import (
    EMBEDDING,
    GROUP,
    HEAD_DIM,
    HEADS,
    HIDDEN,
    KV_HEADS,
    NORM,
    Weights,
    angles,
    causal,
    merge_heads,
    mlp,
    rms_norm,
    rotate,
    split_heads,
    target_weights,
)
from demo.target import build_target

FEATURES = KEPT_LAYERS[:3]  # vLLM's default for 30 layers: 2, n / 2, n - 3
AHEAD = 4
STEPS, SIZE, PEAK = 650, 4, 1.5e-3
ATTENTION = "midlayer.self_attn."


def head_file() -> Path:
    return cache_dir() / "train" / "head.safetensors"


def starting_point(target: Weights) -> Weights:
    """Layer 29 for hidden states, layer 0 for embeddings, ``fc`` passes layer 27 through."""
    last, first = "model.layers.29.", "model.layers.0."
    weights = {
        "fc.weight": torch.zeros(HIDDEN, len(FEATURES) * HIDDEN),
        "norm.weight": target[NORM],
    }
    weights["fc.weight"][:, -HIDDEN:] = torch.eye(HIDDEN)
    for name in ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "post_attention_layernorm"):
        weights[f"midlayer.{name}.weight"] = target[f"{last}{name}.weight"]
    weights["midlayer.hidden_norm.weight"] = target[f"{last}input_layernorm.weight"]
    weights["midlayer.input_layernorm.weight"] = target[f"{first}input_layernorm.weight"]
    for name in ("q_proj", "k_proj", "v_proj"):
        halves = [target[f"{layer}self_attn.{name}.weight"] for layer in (first, last)]
        weights[f"{ATTENTION}{name}.weight"] = torch.cat(halves, dim=1)
    weights[f"{ATTENTION}o_proj.weight"] = target[f"{last}self_attn.o_proj.weight"]
    return {name: weight.float().clone().requires_grad_() for name, weight in weights.items()}


def head_steps(
    weights: Weights, embedding: Tensor, tokens: Tensor, features: Tensor
) -> list[Tensor]:
    """Normed outputs ``[batch, rows, HIDDEN]`` of each step ahead.

    ``tokens [batch, rows + 1]``, ``features [batch, rows, 3 * HIDDEN]``.
    """
    rows = features.shape[1]
    hidden = linear(features, weights["fc.weight"])
    seen: list[tuple[Tensor, Tensor]] = []
    outputs = []
    for step in range(AHEAD):
        following = tokens[:, 1:].roll(-step, dims=1)  # rows that wrap around are never wanted
        both = torch.cat(
            [
                rms_norm(embedding[following].float(), weights["midlayer.input_layernorm.weight"]),
                rms_norm(hidden, weights["midlayer.hidden_norm.weight"]),
            ],
            dim=-1,
        )
        hidden = hidden + look(weights, both, angles(torch.arange(rows)[None] + step), seen)
        normed = rms_norm(hidden, weights["midlayer.post_attention_layernorm.weight"])
        hidden = hidden + mlp(normed, weights, "midlayer.mlp.")
        outputs.append(rms_norm(hidden, weights["norm.weight"]))
    return outputs


def look(
    weights: Weights, both: Tensor, turn: tuple[Tensor, Tensor], seen: list[tuple[Tensor, Tensor]]
) -> Tensor:
    """Attention of one step; its keys and values are added to ``seen``."""
    query = rotate(split_heads(linear(both, weights[f"{ATTENTION}q_proj.weight"]), HEADS), *turn)
    keys = rotate(split_heads(linear(both, weights[f"{ATTENTION}k_proj.weight"]), KV_HEADS), *turn)
    values = split_heads(linear(both, weights[f"{ATTENTION}v_proj.weight"]), KV_HEADS)
    seen.append((keys, values))
    batch, rows = both.shape[:2]
    grouped = query.view(batch, KV_HEADS, GROUP, rows, HEAD_DIM) * HEAD_DIM**-0.5
    scores = grouped @ seen[0][0][:, :, None].transpose(-1, -2)
    scores = scores.masked_fill(~causal(rows)[:, :, None], float("-inf"))
    own = [(grouped * k[:, :, None]).sum(-1, keepdim=True) for k, _ in seen[1:]]
    shares = torch.cat([scores, *own], dim=-1).float().softmax(-1).to(values.dtype)
    mixed = shares[..., :rows] @ seen[0][1][:, :, None]
    for place, (_, own_values) in enumerate(seen[1:]):
        mixed = mixed + shares[..., rows + place, None] * own_values[:, :, None]
    merged = merge_heads(mixed.view(batch, HEADS, rows, HEAD_DIM))
    return linear(merged, weights[f"{ATTENTION}o_proj.weight"])


def train_head() -> Path:
    """Trained weights in float32; found, if they are there."""
    if head_file().exists():
        return head_file()
    target = target_weights(build_target())
    lessons = all_lessons()
    frequent = frequent_tokens(lessons)
    teacher = Teacher.of(target, frequent)
    torch.manual_seed(0)
    weights = starting_point(target)

    def outputs(batch: Batch) -> list[tuple[Tensor, Tensor]]:
        features = batch.states[:, :, : len(FEATURES)].flatten(2)
        with torch.autocast("cpu", torch.bfloat16):
            hidden = head_steps(weights, target[EMBEDDING], batch.tokens, features)
        wishes = teacher.wish(batch.states[:, :, -1][batch.wanted])
        numbers = batch.wanted.flatten().cumsum(0).view(batch.wanted.shape) - 1
        pairs = []
        for ahead, output in enumerate(hidden, start=1):
            # Row t predicts what follows position t + ahead.
            wanted = batch.wanted[:, ahead:]
            pairs.append((output[:, :-ahead][wanted], wishes[numbers[:, ahead:][wanted]]))
        return pairs

    learn(weights, outputs, teacher, lessons, steps=STEPS, size=SIZE, peak=PEAK)
    trained = {name: w.detach() for name, w in weights.items()}
    save_file(trained | {"frequent": frequent.int()}, head_file())
    return head_file()


if __name__ == "__main__":
    no_arguments(__doc__)
    torch.set_num_threads(1)
    print(train_head())
