"""The target answers the training prompts; its hidden states are kept for the drafts to learn from.

    python -m demo.teacher

Every training prompt is answered greedily, every fifth also by sampling at temperature 0.7. A last
share has no prompt of ours: the target writes the user's question itself at temperature 1, which
makes subjects that no list of topics has. Greedy answers follow.

The result is one file per batch under ``<cache>/train/teacher/``: token ids, lengths, the position
where learning starts, and the hidden states after layers 2, 15, 27 and 30 of every position.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer

from demo.cache import cache_dir
from demo.command import no_arguments
from demo.generation import END, Answer, Request, generate
from demo.llama import Weights, target_weights
from demo.prompts import measured_texts, overlap, training_prompts
from demo.target import build_target

SEED = 20251
ANSWER_TOKENS = 144
QUESTION_TOKENS = 48
BATCH = 96
BATCHES = 18  # of 22: the rest would hold little but more of the templates
SAMPLED_EVERY = 5
TEMPERATURE = 0.7
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
    no_arguments(__doc__)
    torch.set_num_threads(1)
    print(teach())
