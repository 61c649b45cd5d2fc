"""Editing tasks whose answer repeats most of the question: code, JSON and prose to change a little.

Each task is put together from a seeded generator, so there are many and none is copied from
anywhere. They teach a draft to copy, which is where a draft model saves most.
"""

from __future__ import annotations

import json
import random


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


NAMES = words(
    "total price width height score rate limit offset weight delay amount length speed level "
    "budget margin volume radius factor balance"
)
VERBS = words("scale combine adjust measure check update compute estimate combine convert")
FIRST = words("Anna Boris Clara David Elena Felix Greta Hugo Irene Jonas Karla Leon")
PLACES = words("Lisbon Oslo Quito Nairobi Hanoi Toronto Perth Warsaw Lima Dublin")
THINGS = words("lamp chair kettle jacket guitar notebook bicycle helmet camera blanket")

BODIES = (
    "    result = {a} + {b}\n    return result\n",
    "    if {a} > {b}:\n        return {a}\n    return {b}\n",
    "    {c} = 0\n    for value in {a}:\n        {c} += value * {b}\n    return {c}\n",
    "    {c} = []\n    for item in {a}:\n        if item != {b}:\n            {c}.append(item)\n"
    "    return {c}\n",
    "    {c} = {{}}\n    for key in {a}:\n        {c}[key] = {c}.get(key, 0) + {b}\n"
    "    return {c}\n",
    "    if {b} == 0:\n        return None\n    return {a} / {b}\n",
    "    {c} = {a}\n    while {c} > {b}:\n        {c} = {c} - {b}\n    return {c}\n",
    "    {c} = max({a}, {b}) - min({a}, {b})\n    print({c})\n    return {c}\n",
)
CODE_TASKS = (
    "Add type hints to this function.",
    "Add a docstring to this function.",
    "Rename the variable {a} to {d} everywhere in this function.",
    "Rename the function to {d}_{b} and change nothing else.",
    "Add a comment above each line of this function.",
    "Add a print statement at the start of this function that shows its arguments.",
    "Make this function raise a ValueError if {b} is negative.",
    "Give the second parameter the default value 1.",
    "Repeat this function and add two assert statements that test it.",
    "Turn this function into a method of a class named {D}.",
)
JSON_TASKS = (
    "Change the city to {place} in this JSON and return the whole JSON.",
    'Add a field "active" with the value true to every entry of this JSON.',
    "Sort the entries of this JSON by name and return the JSON.",
    "Return this JSON with every price raised by 1.",
    "Turn this JSON into a Markdown table.",
)
PROSE = (
    "{name} bought a {thing} in {place}. The {thing} was cheaper than expected, so {name} also "
    "paid for a train ticket. In the evening {name} wrote a letter about the day.",
    "Dear {name}, thank you for sending the {thing}. It arrived in {place} on Monday. One part "
    "was broken, but the shop promised a new one. We hope to see you soon.",
    "The shop in {place} sells every kind of {thing}. It opens at nine and closes at six. On "
    "Sundays {name} looks after the customers and answers the telephone.",
    "{name} has lived in {place} for ten years. Every morning {name} walks to work with an old "
    "{thing}. The walk takes twenty minutes and leads through the park.",
)
PROSE_TASKS = (
    "Rewrite this text in the past tense.",
    "Replace {name} by {other} in this text and change nothing else.",
    "Correct the punctuation of this text and return it.",
    "Rewrite this text so that each sentence stands on a line of its own.",
    "Make this text a little more formal.",
    "Repeat this text and add one closing sentence.",
)


def editing_task(dice: random.Random) -> str:
    """One task: six of ten change code, two JSON, two prose."""
    kind = dice.random()
    if kind < 0.6:
        return code_task(dice)
    return json_task(dice) if kind < 0.8 else prose_task(dice)


def code_task(dice: random.Random) -> str:
    a, b, c, d = dice.sample(NAMES, 4)
    body = dice.choice(BODIES).format(a=a, b=b, c=c)
    source = f"def {dice.choice(VERBS)}_{c}({a}, {b}):\n{body}"
    task = dice.choice(CODE_TASKS).format(a=a, b=b, d=d, D=d.capitalize())
    return f"{task}\n\n```python\n{source}```"


def json_task(dice: random.Random) -> str:
    rows = [
        {"name": name, "city": dice.choice(PLACES), "item": thing, "price": dice.randint(2, 90)}
        for name, thing in zip(dice.sample(FIRST, 2), dice.sample(THINGS, 2), strict=True)
    ]
    task = dice.choice(JSON_TASKS).format(place=dice.choice(PLACES))
    return f"{task}\n\n```json\n{json.dumps(rows, indent=2)}\n```"


def prose_task(dice: random.Random) -> str:
    name, other = dice.sample(FIRST, 2)
    text = dice.choice(PROSE).format(
        name=name, thing=dice.choice(THINGS), place=dice.choice(PLACES)
    )
    return f"{dice.choice(PROSE_TASKS).format(name=name, other=other)}\n\n{text}"
