"""What draft and head have in common when they learn: data, loss, learning rate, the loop."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.functional import linear

from demo.generation import END
from demo.llama import EMBEDDING, NORM, Weights, rms_norm
from demo.teacher import teacher_dir

SEED = 20252
FREQUENT = 8192  # tokens over which losses are taken; the rest hardly occur in the answers
KEPT_BACK = 64  # lessons never learnt from: the loop prints how well they are predicted
SOFT, HARD = 0.7, 0.3
WARM_UP = 40  # steps
CLIP = 1.0  # norm of the gradient
DECAY = 0.8  # weight of each further step ahead


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """One line of the teacher: ``tokens [T]`` and ``states [T - 1, layers, HIDDEN]``.

    A draft should predict the tokens from position ``start`` on.
    """

    tokens: Tensor
    states: Tensor
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Right-padded lessons: ``tokens [B, T]``, ``states [B, T - 1, layers, HIDDEN]``.

    ``wanted [B, T - 1]`` is true at positions whose *next* token should be predicted.
    """

    tokens: Tensor
    states: Tensor
    wanted: Tensor


def all_lessons() -> list[Lesson]:
    """Every lesson on disk in a seeded order."""
    lessons = []
    for place in sorted(teacher_dir().glob("*.safetensors")):
        data = load_file(place)
        lengths = data["lengths"].tolist()
        tokens = data["tokens"].long().split(lengths)
        states = data["states"].split([length - 1 for length in lengths])
        starts = data["starts"].tolist()
        lessons += [
            Lesson(tokens=t, states=s, start=start)
            for t, s, start in zip(tokens, states, starts, strict=True)
        ]
    random.Random(SEED).shuffle(lessons)
    return lessons


def frequent_tokens(lessons: Sequence[Lesson]) -> Tensor:
    """The ids of the most frequent tokens, sorted."""
    counts = torch.bincount(torch.cat([lesson.tokens for lesson in lessons]), minlength=49152)
    return counts.topk(FREQUENT).indices.sort().values


def stack(lessons: Sequence[Lesson]) -> Batch:
    width = max(len(lesson.tokens) for lesson in lessons)
    tokens = torch.full((len(lessons), width), END)
    states = torch.zeros(len(lessons), width - 1, *lessons[0].states.shape[1:])
    wanted = torch.zeros(len(lessons), width - 1, dtype=torch.bool)
    for row, lesson in enumerate(lessons):
        end = len(lesson.tokens)
        tokens[row, :end] = lesson.tokens
        states[row, : end - 1] = lesson.states.float()
        wanted[row, lesson.start - 1 : end - 1] = True
    return Batch(tokens=tokens, states=states, wanted=wanted)


def epochs(lessons: Sequence[Lesson], size: int, seed: int) -> Iterator[Batch]:
    """Batches without end; lessons of about the same length share one."""
    dice = random.Random(seed)
    while True:
        ordered = sorted(lessons, key=lambda lesson: len(lesson.tokens) + dice.uniform(0, 24))
        groups = [ordered[i : i + size] for i in range(0, len(ordered), size)]
        dice.shuffle(groups)
        for group in groups:
            yield stack(group)


@dataclass(frozen=True, slots=True, kw_only=True)
class Teacher:
    """The frozen output of the target over the frequent tokens."""

    output: Tensor  # [FREQUENT, HIDDEN]
    norm: Tensor

    @classmethod
    def of(cls, weights: Weights, frequent: Tensor) -> Teacher:
        return cls(output=weights[EMBEDDING][frequent], norm=weights[NORM].float())

    @torch.no_grad()
    def wish(self, states: Tensor) -> Tensor:
        """What a draft should give ``[positions, FREQUENT]``, from states after the last layer:
        mostly the target's own distribution, and some more weight on its first choice."""
        logits = linear(rms_norm(states, self.norm).bfloat16(), self.output).float()
        best = logits.argmax(-1, keepdim=True)
        shares = logits.softmax(-1).mul_(SOFT)
        return shares.scatter_add_(1, best, torch.full_like(shares[:, :1], HARD))

    def slope(self, normed: Tensor, wish: Tensor) -> Tensor:
        """A scalar with the *gradient* of the mean cross-entropy; its value means nothing.

        The gradient by the logits is softmax minus wish: cheaper than to differentiate a
        log-softmax of thousands of columns.
        """
        logits = linear(normed.bfloat16(), self.output)
        with torch.no_grad():
            gradient = logits.float().softmax(-1).sub_(wish).div_(len(wish)).bfloat16()
        return (logits * gradient).sum()

    @torch.no_grad()
    def agreement(self, normed: Tensor, wish: Tensor) -> tuple[float, float]:
        """(cross-entropy, share of positions where both have the same first choice)."""
        logits = linear(normed.bfloat16(), self.output).float()
        entropy = -(wish * logits.log_softmax(-1)).sum(-1).mean()
        same = (logits.argmax(-1) == wish.argmax(-1)).float().mean()
        return float(entropy), float(same)


def learning_rate(step: int, steps: int, peak: float) -> float:
    """Linear warm-up, then a cosine down to a fiftieth of the peak."""
    if step < WARM_UP:
        return peak * (step + 1) / WARM_UP
    share = (step - WARM_UP) / max(1, steps - WARM_UP)
    return peak * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * share)))


Outputs = Callable[[Batch], list[tuple[Tensor, Tensor]]]
"""A draft's normed outputs and the wishes for them: one pair for each step ahead."""


def learn(
    parameters: Weights,
    outputs: Outputs,
    teacher: Teacher,
    lessons: Sequence[Lesson],
    *,
    steps: int,
    size: int,
    peak: float,
) -> None:
    """Change ``parameters`` in place by ``steps`` of AdamW; step k ahead weighs DECAY ** k."""
    optimizer = torch.optim.AdamW(parameters.values(), weight_decay=0.02, betas=(0.9, 0.98))
    training = epochs(lessons[KEPT_BACK:], size, SEED)
    began = time.monotonic()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps, peak)
        pairs = outputs(next(training))
        loss = sum(DECAY**k * teacher.slope(*pair) for k, pair in enumerate(pairs))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(parameters.values()), CLIP)
        optimizer.step()
        if step % 100 == 99 or step + 1 == steps:
            seconds = time.monotonic() - began
            print(
                f"step {step + 1}: {kept_back(outputs, teacher, lessons)}, {seconds:.0f} s",
                flush=True,
            )


@torch.no_grad()
def kept_back(outputs: Outputs, teacher: Teacher, lessons: Sequence[Lesson]) -> str:
    """Cross-entropy and agreement, step by step ahead, on the lessons that are not learnt from."""
    ahead: dict[int, list[tuple[float, float]]] = {}
    for first in range(0, KEPT_BACK, 8):
        for k, pair in enumerate(outputs(stack(lessons[first : first + 8]))):
            ahead.setdefault(k, []).append(teacher.agreement(*pair))
    means = [
        [sum(column) / len(rows) for column in zip(*rows, strict=True)] for rows in ahead.values()
    ]
    return "kept-back entropy, agreement: " + "; ".join(f"{e:.3f} {s:.3f}" for e, s in means)
