"""A second checkpoint of the target: the policy after some steps of training.

It learns to give its own rollouts in capitals, which stands for what a reward does to a policy. The
words stay, every token of them is another one: what a draft learnt of the old policy is worth
nothing for the new one.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn.functional import cross_entropy, linear

from demo.generation import END
from demo.llama import (
    EMBEDDING,
    LAYERS,
    NORM,
    Weights,
    angles,
    causal,
    layer,
    rms_norm,
    target_weights,
)
from demo.target import build_target

Line = tuple[tuple[int, ...], tuple[int, ...]]
"""Token ids of a prompt, and of the answer that the new policy should give."""

PEAK, SIZE, CLIP = 1e-4, 4, 1.0


def build_moved(folder: Path, lines: Sequence[Line], steps: int) -> Path:
    """The target's checkpoint after ``steps`` steps on ``lines``, as a folder that vLLM serves."""
    target = build_target()
    before = target_weights(target)
    torch.manual_seed(0)
    weights = {name: weight.float().requires_grad_() for name, weight in before.items()}
    _train(weights, lines, steps)
    after = {name: w.detach().to(before[name].dtype) for name, w in weights.items()}
    shutil.copytree(target, folder, ignore=shutil.ignore_patterns("*.safetensors", "README.md"))
    save_file(after, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def _train(weights: Weights, lines: Sequence[Line], steps: int) -> None:
    optimizer = torch.optim.AdamW(weights.values(), lr=PEAK, weight_decay=0.0)
    dice = random.Random(0)
    for step in range(steps):
        loss = _loss(weights, dice.sample(lines, SIZE))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(weights.values()), CLIP)
        optimizer.step()
        if step % 10 == 0 or step + 1 == steps:
            print(f"step {step + 1}: cross-entropy {loss.item():.3f}", flush=True)


def _loss(weights: Weights, lines: Sequence[Line]) -> Tensor:
    """Mean cross-entropy of the answers' tokens, their ends included."""
    whole = [(*prompt, *answer, END) for prompt, answer in lines]
    width = max(map(len, whole))
    tokens = torch.tensor([[*line, *[END] * (width - len(line))] for line in whole])
    wanted = torch.full((len(lines), width - 1), -100)  # what cross_entropy leaves out
    for row, ((prompt, _), line) in enumerate(zip(lines, whole, strict=True)):
        wanted[row, len(prompt) - 1 : len(line) - 1] = tokens[row, len(prompt) : len(line)]
    with torch.autocast("cpu", torch.bfloat16):
        logits = _logits(weights, tokens[:, :-1])
    return cross_entropy(logits.float().flatten(0, 1), wanted.flatten())


def _logits(weights: Weights, tokens: Tensor) -> Tensor:
    time = tokens.shape[1]
    turn, mask = angles(torch.arange(time)[None]), causal(time)
    hidden = weights[EMBEDDING][tokens]
    for number in range(LAYERS):
        hidden = layer(hidden, weights, f"model.layers.{number}.", turn, mask)
    return linear(rms_norm(hidden, weights[NORM]), weights[EMBEDDING])
