"""The training prompts: seeded combinations of templates and topics, none of them measured.

    python -m demo.prompts        # counts, and the check against the shipped data sets

``sweeper`` ships prompts to measure on. A draft trained on those would look better than it is, so
``training_prompts`` refuses to return any prompt that one of them contains, or that contains one.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.command import no_arguments
from demo.editing import editing_task
from demo.heldout import HELDOUT

SEED = 20250
TRAINING = {"code": 440, "edit": 240, "chat": 380}
SEEN_LIKE = 10  # unseen combinations of each kind, kept back to measure on
SHORT = 4  # words: a measured prompt shorter than this is no evidence of overlap
ROOT = Path(__file__).resolve().parent
MEASURED = ROOT.parent / "sweeper" / "drive" / "datasets" / "data"

CODE_TEMPLATES = (
    "Write a Python function to {}.",
    "Write a Python function to {}. Include a docstring and type hints.",
    "Show me Python code to {}, with a short example of how to call it.",
    "I need a small Python script to {}. Keep it simple.",
    "Implement a Python function to {} and write three assert statements that test it.",
    "Write a Python class with a method to {}.",
    "How would you {} in Python? Explain the code line by line.",
    "Write a JavaScript function to {}.",
    "Write pytest tests for a function that should {}.",
    "Give two different ways to {} in Python.",
    "Explain step by step how to {}, then give the Python code.",
    "Write a C function to {}.",
    "My Python code to {} does not work. Show me a correct version.",
    "Write a short Python program to {}. Use clear variable names and comments.",
)
CHAT_TEMPLATES = (
    "Explain {} to a beginner.",
    "Give me five tips about {}.",
    "Write a short paragraph about {}.",
    "What are common mistakes when it comes to {}?",
    "Write a short story that has to do with {}.",
    "Write a friendly email to a colleague about {}.",
    "What are the advantages and disadvantages of {}?",
    "Sum up in three sentences what one should know about {}.",
    "A friend asked me about {}. What should I answer?",
    "Write a poem about {}.",
    "Which questions should I ask an expert on {}?",
    "Write a dialogue between a teacher and a student about {}.",
    "Write the introduction of an essay about {}.",
    "Make a list of ten words related to {} and explain each of them.",
    "Why do people care about {}?",
    "Give me a step-by-step guide to {}.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A user's question; ``kind`` is ``code``, ``edit`` or ``chat``."""

    kind: str
    text: str


def training_prompts() -> tuple[Prompt, ...]:
    """All training prompts in a seeded order; ``SystemExit`` names an overlap."""
    training, _ = split()
    refuse_overlap(training, measured_texts())
    return training


def seen_like_prompts() -> tuple[Prompt, ...]:
    """Combinations of the same templates and topics that the training prompts leave out."""
    return split()[1]


def split() -> tuple[tuple[Prompt, ...], tuple[Prompt, ...]]:
    """(training, seen-like), disjoint, always the same."""
    dice = random.Random(SEED)
    pools = {
        "code": combinations(CODE_TEMPLATES, "code", dice),
        "edit": edits(TRAINING["edit"] + SEEN_LIKE, dice),
        "chat": combinations(CHAT_TEMPLATES, "chat", dice),
    }
    training, seen_like = [], []
    for kind, texts in pools.items():
        prompts = [Prompt(kind=kind, text=text) for text in texts]
        training += prompts[: TRAINING[kind]]
        seen_like += prompts[TRAINING[kind] : TRAINING[kind] + SEEN_LIKE]
    dice.shuffle(training)
    return tuple(training), tuple(seen_like)


def combinations(templates: Iterable[str], topics: str, dice: random.Random) -> list[str]:
    lines = (ROOT / "topics" / f"{topics}.txt").read_text(encoding="utf-8").splitlines()
    texts = [template.format(topic) for template in templates for topic in lines]
    dice.shuffle(texts)
    return texts


def edits(count: int, dice: random.Random) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        found[editing_task(dice)] = None
    return list(found)


def normalised(text: str) -> str:
    """Lower-case words and numbers, one space apart; punctuation and layout do not count."""
    return " ".join(re.findall(r"[^\W_]+", text.lower()))


def measured_texts() -> set[str]:
    """Normalised strings of the shipped data sets and of the held-out prompts."""
    rows: list[Any] = [prompt.text for prompt in HELDOUT]
    for file in sorted(MEASURED.glob("*.jsonl")):
        lines = file.read_text(encoding="utf-8").splitlines()
        rows += [json.loads(line) for line in lines if line.strip()]
    texts = {normalised(text) for text in strings(rows)}
    return {text for text in texts if text.count(" ") >= SHORT - 1}


def strings(value: Any) -> Iterator[str]:
    """Every string anywhere in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings(item)


def overlap(text: str, measured: set[str]) -> str | None:
    """The measured text that ``text`` contains or is part of, if there is one."""
    words = f" {normalised(text)} "
    if not words.strip():
        return None
    return next((m for m in sorted(measured) if f" {m} " in words or words in f" {m} "), None)


def refuse_overlap(prompts: Iterable[Prompt], measured: set[str]) -> None:
    for prompt in prompts:
        found = overlap(prompt.text, measured)
        if found is not None:
            raise SystemExit(f"training prompt {prompt.text!r} overlaps measured text {found!r}")


def main() -> None:
    training, seen_like = training_prompts(), seen_like_prompts()
    print("training", dict(Counter(p.kind for p in training)))
    print("kept back", dict(Counter(p.kind for p in seen_like)))
    print(f"no overlap with {len(measured_texts())} measured texts")


if __name__ == "__main__":
    no_arguments(__doc__)
    main()
