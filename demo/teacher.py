"""The target answers the training prompts; its hidden states are kept for the drafts to learn from.

    python -m demo.teacher

Every training prompt is answered greedily, every third also by sampling at temperature 0.7. A last
share has no prompt at all: the target writes the user's question itself at temperature 1, which
makes subjects that no list of topics has. Greedy answers follow.

The result is one file per batch under ``<cache>/train/teacher/``: token ids, lengths, the position
where learning starts, and the hidden states after layers 2, 15, 27 and 30 of every position.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor

from demo.cache import cache_dir
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
    target_weights,
)
from demo.prompts import measured_texts, overlap, training_prompts
from demo.target import build_target

SEED = 20251
KEPT_LAYERS = (2, 15, 27, 30)  # hidden states after so many layers, before the last norm
ANSWER_TOKENS = 144
QUESTION_TOKENS = 48
BATCH = 96
BATCHES = 18  # of 22: the rest would hold little but more of the templates
SAMPLED_EVERY = 5
TEMPERATURE = 0.7
END = 2  # <|im_end|>
SYSTEM = (
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
    "<|im_end|>\n<|im_start|>user\n"
)
ASSISTANT = "<|im_end|>\n<|im_start|>assistant\n"
OPENINGS = {  # how many questions the target writes itself, by the words they begin with
    "": 480,
    "Write a Python": 112,
    "Can you write code": 64,
    "I have the following code": 48,
    "Explain": 64,
    "Write": 64,
}


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


def teacher_dir() -> Path:
    return cache_dir() / "train" / "teacher"


@torch.inference_mode()
def teach() -> Path:
    """Answer everything; batches that are already on disk are kept."""
    target = build_target()
    tokenizer = Tokenizer.from_file(str(target / "tokenizer.json"))
    weights = target_weights(target)
    teacher_dir().mkdir(parents=True, exist_ok=True)
    requests = prompted(tokenizer)
    requests += own_questions(weights, tokenizer)
    for number, batch in enumerate(islice(batches(requests), BATCHES)):
        place = teacher_dir() / f"{number:03d}.safetensors"
        if place.exists():
            continue
        began = time.monotonic()
        answers = generate(weights, batch, ANSWER_TOKENS, seed=SEED + number)
        save_batch(batch, answers, place)
        made = sum(len(a.tokens) - len(r.tokens) for a, r in zip(answers, batch, strict=True))
        print(f"batch {number}: {made} tokens, {time.monotonic() - began:.0f} s", flush=True)
    return teacher_dir()


def prompted(tokenizer: Tokenizer) -> list[Request]:
    requests = []
    for number, prompt in enumerate(training_prompts()):
        ids = tuple(tokenizer.encode(SYSTEM + prompt.text + ASSISTANT).ids)
        warm = (TEMPERATURE,) if number % SAMPLED_EVERY == 0 else ()
        for temperature in (0.0, *warm):
            requests.append(Request(tokens=ids, temperature=temperature, start=len(ids)))
    return requests


def own_questions(weights: Weights, tokenizer: Tokenizer) -> list[Request]:
    """Questions that the target writes itself, those that overlap a measured text left out."""
    begun = []
    for opening, count in OPENINGS.items():
        ids = tuple(tokenizer.encode(SYSTEM + opening).ids)
        begun += [Request(tokens=ids, temperature=1.0, start=len(ids))] * count
    measured = measured_texts()
    requests = []
    for request, line in zip(begun, question_lines(weights, begun), strict=True):
        line = line[:-1] if line[-1] == END else line
        text = tokenizer.decode(line).rsplit("user\n", 1)[-1]
        if overlap(text, measured) is None:
            ids = (*line, *tokenizer.encode(ASSISTANT).ids)
            requests.append(Request(tokens=ids, temperature=0.0, start=request.start))
    return requests


def question_lines(weights: Weights, begun: Sequence[Request]) -> list[list[int]]:
    """The finished questions, opening included; kept in a file, since sampling them takes long."""
    place = teacher_dir() / "questions.json"
    if place.exists():
        lines: list[list[int]] = json.loads(place.read_text())
        return lines
    lines = []
    for first in range(0, len(begun), BATCH):
        batch = begun[first : first + BATCH]
        answers = generate(weights, batch, QUESTION_TOKENS, seed=SEED - first)
        lines += [answer.tokens for answer in answers]
    place.write_text(json.dumps(lines))
    return lines


def batches(requests: Sequence[Request]) -> Iterator[list[Request]]:
    """Requests of about the same length together, the batches in a seeded order."""
    ordered = sorted(requests, key=lambda r: len(r.tokens))
    groups = [ordered[i : i + BATCH] for i in range(0, len(ordered), BATCH)]
    random.Random(SEED).shuffle(groups)
    yield from groups


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
    logits = torch.nn.functional.linear(rms_norm(hidden, weights[NORM]), weights[EMBEDDING])
    best = logits.float().argmax(-1)  # bfloat16's own argmax is slow
    if not bool(heat.any()):
        return best
    warm = (heat > 0).nonzero().squeeze(1)
    shares = (logits[warm].float() / heat[warm, None]).softmax(-1)
    best[warm] = torch.multinomial(shares, 1, generator=dice).squeeze(1)
    return best


def save_batch(batch: Sequence[Request], answers: Sequence[Answer], place: Path) -> None:
    unfinished = place.with_suffix(".tmp")
    tokens = [token for answer in answers for token in answer.tokens]
    save_file(
        {
            "tokens": torch.tensor(tokens, dtype=torch.int32),
            "lengths": torch.tensor([len(answer.tokens) for answer in answers]),
            "starts": torch.tensor([request.start for request in batch]),
            "states": torch.cat([answer.states for answer in answers]),
        },
        unfinished,
    )
    unfinished.rename(place)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(teach())
