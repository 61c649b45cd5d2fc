"""The draft model: three of the target's thirty layers, taught to give the target's answers.

    python -m demo.draft

Layers 0, 1 and 29 at full width learn; embedding, output matrix and last norm's input stay the
target's, so that only the layers and the norm have to be shipped.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from demo.cache import cache_dir
from demo.command import no_arguments
from demo.lessons import Batch, Teacher, all_lessons, frequent_tokens, learn
from demo.llama import EMBEDDING, NORM, Weights, angles, causal, layer, rms_norm, target_weights
from demo.target import build_target

FROM_LAYERS = (0, 1, 29)
STEPS, SIZE, PEAK = 1000, 4, 1.5e-3


def draft_file() -> Path:
    return cache_dir() / "train" / "draft.safetensors"


def starting_point(target: Weights) -> Weights:
    """The target's chosen layers, numbered anew, in float32."""
    chosen = {NORM: target[NORM]}
    for new, old in enumerate(FROM_LAYERS):
        prefix = f"model.layers.{old}."
        chosen |= {
            f"model.layers.{new}.{name.removeprefix(prefix)}": weight
            for name, weight in target.items()
            if name.startswith(prefix)
        }
    return {name: weight.float().requires_grad_() for name, weight in chosen.items()}


def draft_hidden(weights: Weights, embedding: Tensor, tokens: Tensor) -> Tensor:
    """Normed hidden states ``[batch, time, HIDDEN]``, ready for the output matrix."""
    time = tokens.shape[1]
    turn, mask = angles(torch.arange(time)[None]), causal(time)
    hidden = embedding[tokens].float()
    for number in range(len(FROM_LAYERS)):
        hidden = layer(hidden, weights, f"model.layers.{number}.", turn, mask)
    return rms_norm(hidden, weights[NORM])


def train_draft() -> Path:
    """Trained weights in float32; found, if they are there."""
    if draft_file().exists():
        return draft_file()
    target = target_weights(build_target())
    lessons = all_lessons()
    teacher = Teacher.of(target, frequent_tokens(lessons))
    torch.manual_seed(0)
    weights = starting_point(target)

    def outputs(batch: Batch) -> list[tuple[Tensor, Tensor]]:
        with torch.autocast("cpu", torch.bfloat16):
            hidden = draft_hidden(weights, target[EMBEDDING], batch.tokens[:, :-1])
        return [(hidden[batch.wanted], teacher.wish(batch.states[:, :, -1][batch.wanted]))]

    learn(weights, outputs, teacher, lessons, steps=STEPS, size=SIZE, peak=PEAK)
    save_file({name: w.detach() for name, w in weights.items()}, draft_file())
    return draft_file()


if __name__ == "__main__":
    no_arguments(__doc__)
    torch.set_num_threads(1)
    print(train_draft())
