"""Prompts to measure on, unlike the training prompts in wording and subject."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """``kind`` is ``code`` or ``chat``."""

    kind: str
    text: str


CODE = (
    "Could you code up Pascal's triangle for me? Any depth should work.",
    "def bank_transfer(src, dst, amount):\n    # finish this function",
    "I'd like an iterator in Python that yields prime factors one after another.",
    "What does the `yield` keyword do? Show it with a countdown.",
    "Here's my loop:\n\nfor i in range(len(xs)):\n    print(xs[i])\n\nMake it more pythonic.",
    "Write SQL that finds customers without any invoice.",
    "Build a Stack class supporting push, pop and peek.",
    "Turn this into a list comprehension:\n\nsquares = []\nfor n in nums:\n"
    "    if n % 2 == 0:\n        squares.append(n * n)",
    "Please produce a bash one-liner that counts Python files below the current directory.",
    "Explain what a decorator is by building one which doubles a function's return value.",
)
CHAT = (
    "My neighbour's music keeps me awake. What can I do without starting a fight?",
    "Who was Marie Curie and why is she remembered?",
    "Translate 'good morning, how are you?' into Spanish and French.",
    "Is it healthier to eat butter or olive oil?",
    "I have eggs, spinach and cheese in the fridge. Suggest dinner.",
    "If a train leaves at 3 pm and travels 120 miles at 60 mph, when does it arrive?",
    "Describe the taste of a mango to someone who never had one.",
    "What's the difference between a cold and the flu?",
    "Come up with names for a coffee shop run by two sisters.",
    "Tell me something surprising about octopuses.",
)
HELDOUT = tuple(
    HeldOut(kind=kind, text=text)
    for kind, texts in (("code", CODE), ("chat", CHAT))
    for text in texts
)
