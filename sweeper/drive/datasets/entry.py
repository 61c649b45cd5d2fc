"""One line of a prompt file, already parsed: what is wrong with it, or the prompt it is."""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from sweeper.values import Json, Message, Prompt

KEYS = (
    *("id", "category", "messages", "prompt", "tools"),
    *("reference", "expected", "entry_point", "tests"),
)
TEXT_KEYS = tuple(key for key in KEYS if key not in ("messages", "tools"))
ROLES = ("system", "user", "assistant")

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

EXAMPLE = '{"role": "user", "content": "..."}'
A_TOOL = '{"type": "function", "function": {"name": "..."}}'


def to_prompt(entry: dict[str, Json], default_id: str) -> Prompt:
    """The prompt an entry without :func:`mistakes_of` describes."""
    messages = entry.get("messages")
    return Prompt(
        id=entry.get("id") or default_id,
        category=entry.get("category"),
        messages=None if messages is None else tuple(Message(**fields) for fields in messages),
        text=entry.get("prompt"),
        reference=entry.get("reference") or entry.get("expected"),
        entry_point=entry.get("entry_point"),
        tests=entry.get("tests"),
        tools=json.dumps(entry["tools"], ensure_ascii=False) if entry.get("tools") else None,
    )


def mistakes_of(entry: Json) -> Iterator[str]:
    """Each mistake of a line as ``what is wrong; what would be right``.

    A key whose value is null counts as left out: exporters write all columns on every line.
    """
    if not isinstance(entry, dict):
        shapes = f'write {{"prompt": "..."}} or {{"messages": [{EXAMPLE}]}}'
        yield f"the line holds {kind_of(entry)}, not an object; {shapes}"
        return
    given = {key: value for key, value in entry.items() if value is not None}
    yield from _unknown_keys(entry, KEYS)
    yield from _choice(given)
    for key in TEXT_KEYS:
        if key in given:
            yield from text_mistakes(f'"{key}"', given[key])
    if "messages" in given:
        yield from _messages(given["messages"])
    if "tools" in given:
        yield from _tools(given["tools"], chat="messages" in given)
    yield from _code(given)


def _choice(given: dict[str, Json]) -> Iterator[str]:
    """Of each pair of keys that mean the same, one; the prompt itself must be there."""
    if "prompt" in given and "messages" in given:
        yield (
            'both "prompt" and "messages" are given; keep "messages" for the chat endpoint '
            'or "prompt" for the completions endpoint'
        )
    if "prompt" not in given and "messages" not in given:
        yield f'no prompt; add "messages": [{EXAMPLE}] or "prompt": "..."'
    if "reference" in given and "expected" in given:
        yield 'both "reference" and "expected" are given, which mean the same; keep one'


def _messages(messages: Json) -> Iterator[str]:
    if not isinstance(messages, list):
        yield f'"messages" is {kind_of(messages)}, not a list; write [{EXAMPLE}]'
        return
    if not messages:
        yield f'"messages" is empty; write [{EXAMPLE}]'
        return
    found = [mistake for n, m in enumerate(messages) for mistake in _message(f"messages[{n}]", m)]
    yield from found or _turns([message["role"] for message in messages])


def _message(where: str, message: Json) -> Iterator[str]:
    if not isinstance(message, dict):
        yield f"{where} is {kind_of(message)}, not an object; write {EXAMPLE}"
        return
    yield from _unknown_keys(message, ("role", "content"), f" in {where}")
    for key in ("role", "content"):
        if message.get(key) is None:
            yield f'{where} has no "{key}"; write {EXAMPLE}'
        else:
            yield from text_mistakes(f"{where}.{key}", message[key])
    role = message.get("role")
    if isinstance(role, str) and role.strip() and role not in ROLES:
        yield f'{where}.role is "{role}"; {_meant(role, ROLES, "roles")}'


def _turns(roles: list[str]) -> Iterator[str]:
    """The order of well-formed messages: what is left to answer must be a user's turn."""
    if "user" not in roles:
        yield f'"messages" has no user turn; add {EXAMPLE} at the end'
    elif roles[-1] != "user":
        yield f"the last message is from the {roles[-1]}; end with the user turn to be answered"


def _tools(tools: Json, *, chat: bool) -> Iterator[str]:
    if not isinstance(tools, list) or not all(map(_is_tool, tools)):
        yield f'"tools" is not a list of functions; write [{A_TOOL}]'
    elif tools and not chat:
        yield '"tools" go with "messages": the chat template shows them; use "messages"'


def _is_tool(tool: Json) -> bool:
    function = tool.get("function") if isinstance(tool, dict) else None
    return isinstance(function, dict) and isinstance(function.get("name"), str)


def _code(given: dict[str, Json]) -> Iterator[str]:
    """Mistakes that would otherwise look like wrong answers of the model."""
    name, tests = given.get("entry_point"), given.get("tests")
    if isinstance(name, str) and name.strip() and not name.isidentifier():
        yield f'"entry_point" is "{name}"; write the name of one Python function'
    if not isinstance(tests, str):
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(tests)
    except SyntaxError as error:
        yield f'"tests" is not Python: {error.msg} in its line {error.lineno}; write assertions'
    except ValueError as error:
        yield f'"tests" is not Python: {error}; write assertions'


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


def _unknown_keys(entry: dict[str, Json], keys: tuple[str, ...], where: str = "") -> Iterator[str]:
    for key in entry:
        if key not in keys:
            yield f'unknown key "{key}"{where}; {_meant(key, keys, "keys")}'


def _meant(word: str, known: Iterable[str], noun: str) -> str:
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
