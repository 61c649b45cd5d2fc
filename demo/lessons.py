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

from demo.llama import EMBEDDING, NORM, Weights, rms_norm
from demo.teacher import END, teacher_dir

SEED = 20252
FREQUENT = 8192  # tokens over which losses are taken; the rest hardly occur in the answers
KEPT_BACK = 64  # lessons never learnt from: the loop prints how well they are predicted
SOFT, HARD = 0.7, 0.3
WARM_UP = 40  # steps
CLIP = 1.0  # norm of the gradient


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

    def logits(self, states: Tensor) -> Tensor:
        """Of hidden states after the last layer, ``[positions, HIDDEN]``."""
        with torch.no_grad():
            return linear(rms_norm(states, self.norm).bfloat16(), self.output).float()

    def loss(self, normed: Tensor, teacher: Tensor) -> tuple[Tensor, Tensor]:
        """(mean loss, share of positions where both have the same first choice)."""
        student = linear(normed.bfloat16(), self.output).float().log_softmax(-1)
        best = teacher.argmax(-1, keepdim=True)
        soft = -(teacher.softmax(-1) * student).sum(-1).mean()
        hard = -student.gather(1, best).mean()
        same = (student.detach().argmax(-1, keepdim=True) == best).float().mean()
        return SOFT * soft + HARD * hard, same


def learning_rate(step: int, steps: int, peak: float) -> float:
    """Linear warm-up, then a cosine down to a fiftieth of the peak."""
    if step < WARM_UP:
        return peak * (step + 1) / WARM_UP
    share = (step - WARM_UP) / max(1, steps - WARM_UP)
    return peak * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * share)))


def learn(
    parameters: Weights,
    measure: Callable[[Batch], tuple[Tensor, list[Tensor]]],
    lessons: Sequence[Lesson],
    *,
    steps: int,
    size: int,
    peak: float,
) -> None:
    """Change ``parameters`` in place by ``steps`` of AdamW on the loss that ``measure`` returns."""
    optimizer = torch.optim.AdamW(parameters.values(), weight_decay=0.02, betas=(0.9, 0.98))
    training = epochs(lessons[KEPT_BACK:], size, SEED)
    began = time.monotonic()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps, peak)
        loss, _ = measure(next(training))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(list(parameters.values()), CLIP)
        optimizer.step()
        if step % 50 == 49 or step + 1 == steps:
            seconds = time.monotonic() - began
            print(f"step {step + 1}: {kept_back(measure, lessons)}, {seconds:.0f} s", flush=True)


@torch.no_grad()
def kept_back(
    measure: Callable[[Batch], tuple[Tensor, list[Tensor]]], lessons: Sequence[Lesson]
) -> str:
    """Loss and agreement on the lessons that are not learnt from."""
    rows = [measure(stack(lessons[i : i + 8])) for i in range(0, KEPT_BACK, 8)]
    loss = sum(float(row[0]) for row in rows) / len(rows)
    shares = [sum(map(float, column)) / len(rows) for column in zip(*(r[1] for r in rows), strict=True)]
    return f"kept-back loss {loss:.3f}, agreement {' '.join(f'{s:.3f}' for s in shares)}"
