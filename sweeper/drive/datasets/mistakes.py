"""Words that the mistakes of prompt files have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from sweeper.values import Json

NAMES_ELSEWHERE = {
    "answer": "reference",
    "canonical_solution": "reference",
    "conversations": "messages",
    "question": "prompt",
    "question_id": "id",
    "task_id": "id",
    "text": "prompt",
    "turns": "messages",
}
"""Keys of well-known prompt files which no spelling distance leads to ours."""


def text_mistakes(where: str, value: Json) -> Iterator[str]:
    """What keeps a value from being a text with something in it."""
    if isinstance(value, list | dict):
        yield f"{where} is {kind_of(value)}, not a string; write the text itself"
    elif not isinstance(value, str):
        yield f"{where} is {kind_of(value)}, not a string; put quotes around it"
    elif not value.strip():
        yield f"{where} is empty; write a text or leave it out"
    elif any("\ud800" <= character <= "\udfff" for character in value):
        yield f"{where} holds half of a \\u surrogate pair; write both halves or the character"


def unknown_keys(entry: dict[str, Json], keys: tuple[str, ...], where: str = "") -> Iterator[str]:
    for key in entry:
        if key not in keys:
            yield f'unknown key "{key}"{where}; {meant(key, keys, "keys")}'


def meant(word: str, known: Iterable[str], noun: str) -> str:
    known = tuple(known)
    close = get_close_matches(word.lower(), known, n=1)
    guess = close[0] if close else NAMES_ELSEWHERE.get(word)
    if guess in known:
        return f'did you mean "{guess}"?'
    return f"the {noun} are {', '.join(known)}"


def kind_of(value: Json) -> str:
    """The JSON name of a value's type, numbers and booleans with the value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return "a string"
    return "a list" if isinstance(value, list) else "an object"
