"""One line of a prompt file, already parsed: what is wrong with it, or the prompt it is."""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Iterator

from jsonschema import Draft202012Validator, SchemaError

from sweeper.drive.datasets.messages import EXAMPLE, message_mistakes, to_message
from sweeper.drive.datasets.mistakes import kind_of, text_mistakes, unknown_keys
from sweeper.values import Json, Prompt

KEYS = (
    *("id", "category", "messages", "prompt", "tools"),
    *("reference", "expected", "entry_point", "tests", "schema"),
)
TEXT_KEYS = tuple(key for key in KEYS if key not in ("messages", "tools", "schema"))

A_TOOL = '{"type": "function", "function": {"name": "..."}}'


def to_prompt(entry: dict[str, Json], default_id: str) -> Prompt:
    """The prompt an entry without :func:`mistakes_of` describes."""
    messages = entry.get("messages")
    return Prompt(
        id=entry.get("id") or default_id,
        category=entry.get("category"),
        messages=None if messages is None else tuple(map(to_message, messages)),
        text=entry.get("prompt"),
        reference=entry.get("reference") or entry.get("expected"),
        entry_point=entry.get("entry_point"),
        tests=entry.get("tests"),
        schema=_as_text(entry.get("schema")),
        tools=_as_text(entry.get("tools") or None),
    )


def _as_text(value: Json) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


def mistakes_of(entry: Json) -> Iterator[str]:
    """Each mistake of a line as ``what is wrong; what would be right``.

    A key whose value is null counts as left out: exporters write all columns on every line.
    """
    if not isinstance(entry, dict):
        shapes = f'write {{"prompt": "..."}} or {{"messages": [{EXAMPLE}]}}'
        yield f"the line holds {kind_of(entry)}, not an object; {shapes}"
        return
    given = {key: value for key, value in entry.items() if value is not None}
    yield from unknown_keys(entry, KEYS)
    yield from _choice(given)
    for key in TEXT_KEYS:
        if key in given:
            yield from text_mistakes(f'"{key}"', given[key])
    if "messages" in given:
        yield from message_mistakes(given["messages"])
    if "tools" in given:
        yield from _tools(given["tools"], chat="messages" in given)
    yield from _code(given)
    if "schema" in given:
        yield from _schema(given["schema"])


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


def _tools(tools: Json, *, chat: bool) -> Iterator[str]:
    if not isinstance(tools, list) or not all(map(_is_tool, tools)):
        yield f'"tools" is not a list of functions; write [{A_TOOL}]'
    elif tools and not chat:
        yield '"tools" go with "messages": the chat template shows them; use "messages"'


def _is_tool(tool: Json) -> bool:
    function = tool.get("function") if isinstance(tool, dict) else None
    return isinstance(function, dict) and isinstance(function.get("name"), str)


def _schema(schema: Json) -> Iterator[str]:
    if not isinstance(schema, dict):
        yield f'"schema" is {kind_of(schema)}, not an object; write the JSON schema itself'
        return
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        yield f'"schema" is no JSON schema: {error.json_path}: {error.message}'


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
