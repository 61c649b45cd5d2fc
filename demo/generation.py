"""The target continues many lines at once, in one batch with a cache, and keeps hidden states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import linear

from demo.llama import (
    EMBEDDING,
    HEAD_DIM,
    HIDDEN,
    KV_HEADS,
    LAYERS,
    NORM,
    Cache,
    Weights,
    angles,
    layer,
    rms_norm,
)

KEPT_LAYERS = (2, 15, 27, 30)  # hidden states after so many layers, before the last norm
END = 2  # <|im_end|>


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the target continues: token ids and the temperature.

    ``start`` is the first position whose token a draft should learn to predict.
    """

    tokens: tuple[int, ...]
    temperature: float
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """All tokens of one line, and ``[tokens - 1, len(KEPT_LAYERS), HIDDEN]``: the last token has
    no hidden states because nothing follows it."""

    tokens: list[int]
    states: Tensor


def generate(weights: Weights, batch: Sequence[Request], limit: int, *, seed: int) -> list[Answer]:
    """Each request continued by up to ``limit`` tokens; an answer's end token is kept.

    Rows are padded on the left, so that all of them write at the same place of the cache; rows
    that are done leave the batch when they are a quarter of it.
    """
    dice = torch.Generator().manual_seed(seed)
    width = max(len(r.tokens) for r in batch)
    lines = [list(r.tokens) for r in batch]
    padding = torch.tensor([width - len(r.tokens) for r in batch])
    heat = torch.tensor([r.temperature for r in batch])
    new = torch.tensor([[END] * (width - len(line)) + line for line in lines])
    caches = [empty_cache(len(batch), width + limit) for _ in range(LAYERS)]
    states = torch.zeros(len(batch), width + limit, len(KEPT_LAYERS), HIDDEN, dtype=torch.bfloat16)
    alive = torch.arange(len(batch))  # which line a row of the batch belongs to
    done = [False] * len(batch)
    length = 0
    for _ in range(limit):
        kept = forward(weights, new, caches, length, padding[alive])
        states[alive, length : length + new.shape[1]] = kept
        length += new.shape[1]
        tokens = choose(weights, kept[:, -1, -1], heat[alive], dice)
        for line, token in zip(alive.tolist(), tokens.tolist(), strict=True):
            if not done[line]:
                lines[line].append(token)
                done[line] = token == END
        if all(done):
            break
        new = tokens[:, None]
        going = torch.tensor([i for i, line in enumerate(alive.tolist()) if not done[line]])
        if len(going) <= 0.75 * len(alive):
            alive, new = alive[going], new[going]
            caches = [Cache(keys=c.keys[going], values=c.values[going]) for c in caches]
    return [
        Answer(tokens=line, states=states[row, skip : skip + len(line) - 1])
        for row, (line, skip) in enumerate(zip(lines, padding.tolist(), strict=True))
    ]


def empty_cache(batch: int, capacity: int) -> Cache:
    shape = (batch, KV_HEADS, capacity, HEAD_DIM)
    return Cache(
        keys=torch.zeros(shape, dtype=torch.bfloat16),
        values=torch.zeros(shape, dtype=torch.bfloat16),
    )


def forward(
    weights: Weights, tokens: Tensor, caches: Sequence[Cache], length: int, padding: Tensor
) -> Tensor:
    """``[batch, time, len(KEPT_LAYERS), HIDDEN]`` for new tokens behind ``length`` cached ones."""
    end = length + tokens.shape[1]
    places, seen = torch.arange(length, end), torch.arange(end)[None, None]
    turn = angles((places[None] - padding[:, None]).clamp(min=0))
    mask = (seen <= places[None, :, None]) & (seen >= padding[:, None, None])
    mask = mask | (seen == places[None, :, None])  # padding looks at itself: no NaN
    hidden = weights[EMBEDDING][tokens]
    kept = []
    for number, cache in enumerate(caches):
        prefix = f"model.layers.{number}."
        hidden = layer(hidden, weights, prefix, turn, mask[:, None], (cache, length))
        if number + 1 in KEPT_LAYERS:
            kept.append(hidden)
    return torch.stack(kept, dim=2)


def choose(weights: Weights, hidden: Tensor, heat: Tensor, dice: torch.Generator) -> Tensor:
    """The next token of each row: the likeliest at temperature 0, a sample otherwise."""
    logits = linear(rms_norm(hidden, weights[NORM]), weights[EMBEDDING])
    best = logits.float().argmax(-1)  # bfloat16's own argmax is slow
    if not bool(heat.any()):
        return best
    warm = (heat > 0).nonzero().squeeze(1)
    shares = (logits[warm].float() / heat[warm, None]).softmax(-1)
    best[warm] = torch.multinomial(shares, 1, generator=dice).squeeze(1)
    return best
