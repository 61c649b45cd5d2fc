"""The messages of a conversation as OpenAI writes them, tool calls included."""

from __future__ import annotations

import json
from collections.abc import Iterator

from sweeper.drive.datasets.mistakes import kind_of, meant, text_mistakes, unknown_keys
from sweeper.values import Json, Message

ROLES = ("system", "developer", "user", "assistant", "tool")
KEYS = ("role", "content", "name", "tool_calls", "tool_call_id")
UNSET = ("refusal", "audio", "function_call", "annotations")
"""What OpenAI's client writes into every answer, null or an empty list where there is nothing."""

EXAMPLE = '{"role": "user", "content": "..."}'
A_PART = '{"type": "text", "text": "..."}'
A_CALL = '{"id": "...", "type": "function", "function": {"name": "...", "arguments": "{}"}}'


def to_message(fields: dict[str, Json]) -> Message:
    """The message that fields without :func:`message_mistakes` describe."""
    role, content = fields["role"], fields.get("content")
    if fields.keys() == {"role", "content"} and isinstance(content, str):
        return Message(role=role, content=content)
    said = content or ""
    texts = [said] if isinstance(said, str) else [part["text"] for part in said]
    texts += map(_as_text, fields.get("tool_calls") or ())
    return Message(
        role=role,
        content="\n".join(text for text in texts if text),
        given=json.dumps(fields, ensure_ascii=False),
    )


def _as_text(call: dict[str, Json]) -> str:
    return f"{call['function']['name']}({call['function']['arguments']})"


def message_mistakes(messages: Json) -> Iterator[str]:
    """Each mistake of ``"messages"`` as ``what is wrong; what would be right``."""
    if not isinstance(messages, list):
        yield f'"messages" is {kind_of(messages)}, not a list; write [{EXAMPLE}]'
        return
    if not messages:
        yield f'"messages" is empty; write [{EXAMPLE}]'
        return
    found = [mistake for n, m in enumerate(messages) for mistake in _message(f"messages[{n}]", m)]
    found += _answers(messages)
    yield from found or _turns([message["role"] for message in messages])


def _message(where: str, message: Json) -> Iterator[str]:
    if not isinstance(message, dict):
        yield f"{where} is {kind_of(message)}, not an object; write {EXAMPLE}"
        return
    named = {key: value for key, value in message.items() if key not in UNSET or value}
    yield from unknown_keys(named, KEYS, f" in {where}")
    role = message.get("role")
    if role is None:
        yield f'{where} has no "role"; write {EXAMPLE}'
    else:
        yield from text_mistakes(f"{where}.role", role)
    if isinstance(role, str) and role.strip() and role not in ROLES:
        yield f'{where}.role is "{role}"; {meant(role, ROLES, "roles")}'
    if "name" in message:
        yield from text_mistakes(f"{where}.name", message["name"])
    yield from _content(where, message)
    if message.get("tool_calls") is not None:
        yield from _calls(f"{where}.tool_calls", role, message["tool_calls"])


def _content(where: str, message: dict[str, Json]) -> Iterator[str]:
    """A call needs no text beside it, and a tool may have had nothing to say."""
    role, content, calls = message.get("role"), message.get("content"), message.get("tool_calls")
    blank = role == "tool" or (role == "assistant" and bool(calls))
    if content is None and role == "assistant":
        if not calls:
            yield f'{where} has neither "content" nor "tool_calls"; write what was said'
    elif content is None:
        right = 'the result, "" for none' if role == "tool" else EXAMPLE
        yield f'{where} has no "content"; write {right}'
    elif isinstance(content, list):
        yield from _parts(f"{where}.content", content, blank)
    elif not (blank and isinstance(content, str) and not content.strip()):
        yield from text_mistakes(f"{where}.content", content)


def _parts(where: str, parts: list[Json], blank: bool) -> Iterator[str]:
    found = [mistake for n, part in enumerate(parts) for mistake in _part(f"{where}[{n}]", part)]
    yield from found
    if not (found or blank or any(part["text"].strip() for part in parts)):
        yield f"{where} is empty; write [{A_PART}]"


def _part(where: str, part: Json) -> Iterator[str]:
    if not isinstance(part, dict):
        yield f"{where} is {kind_of(part)}, not an object; write {A_PART}"
    elif not isinstance(kind := part.get("type"), str):
        yield f'{where} has no "type"; write {A_PART}'
    elif kind != "text":
        yield f'{where} is of type "{kind}"; only text is measured here: leave out what is not text'
    else:
        yield from unknown_keys(part, ("type", "text"), f" in {where}")
        text = part.get("text")
        if text is None:
            yield f'{where} has no "text"; write {A_PART}'
        elif not isinstance(text, str) or text.strip():
            yield from text_mistakes(f"{where}.text", text)


def _calls(where: str, role: Json, calls: Json) -> Iterator[str]:
    if role != "assistant":
        yield f"{where}: only an assistant message calls tools; remove it"
    elif not isinstance(calls, list):
        yield f"{where} is {kind_of(calls)}, not a list; write [{A_CALL}]"
    elif not calls:
        yield f"{where} is empty; leave it out"
    else:
        for number, call in enumerate(calls):
            yield from _call(f"{where}[{number}]", call)


def _call(where: str, call: Json) -> Iterator[str]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or call.get("type") != "function":
        yield f"{where} is not the call of a function; write {A_CALL}"
        return
    yield from unknown_keys(call, ("id", "type", "function"), f" in {where}")
    yield from unknown_keys(function, ("name", "arguments"), f" in {where}.function")
    for path, named in (("id", call.get("id")), ("function.name", function.get("name"))):
        if named is None:
            yield f"{where}.{path} is missing; write {A_CALL}"
        else:
            yield from text_mistakes(f"{where}.{path}", named)
    yield from _arguments(f"{where}.function.arguments", function.get("arguments"))


def _arguments(where: str, arguments: Json) -> Iterator[str]:
    """vLLM shows the model no arguments at all where these are not an object as JSON text."""
    if not isinstance(arguments, str):
        yield f"{where} is {kind_of(arguments)}, not a string; write the object as JSON text"
        return
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        yield f'{where} is not JSON text; write that of an object, "{{}}" for no arguments'
        return
    if isinstance(value, dict):
        yield from text_mistakes(where, arguments)
    else:
        yield f'{where} is {kind_of(value)} as JSON text; write an object, "{{}}" for no arguments'


def _answers(messages: list[Json]) -> Iterator[str]:
    """A tool's message answers a call that was made before it."""
    called: list[str] = []
    for number, message in enumerate(m if isinstance(m, dict) else {} for m in messages):
        where, name = f"messages[{number}]", message.get("tool_call_id")
        if message.get("role") == "assistant":
            called += _ids(message.get("tool_calls"))
        if message.get("role") != "tool":
            if name is not None:
                yield f"{where}.tool_call_id: only a tool message answers a call; remove it"
        elif name is None:
            yield f'{where} has no "tool_call_id"; write the id of the call it answers'
        elif name not in called:
            known = f"those before it are {', '.join(called)}" if called else "none is before it"
            yield f"{where}.tool_call_id: no earlier call has the id {json.dumps(name)}; {known}"


def _ids(calls: Json) -> list[str]:
    listed = calls if isinstance(calls, list) else []
    found = (call.get("id") for call in listed if isinstance(call, dict))
    return [name for name in found if isinstance(name, str)]


def _turns(roles: list[str]) -> Iterator[str]:
    """The order of well-formed messages: what is left to answer is a user's turn or a result."""
    if "user" not in roles:
        yield f'"messages" has no user turn; add {EXAMPLE} at the end'
    elif roles[-1] not in ("user", "tool"):
        yield (
            f"the last message is from the {roles[-1]}; end with the user turn or the tool's "
            "result to be answered"
        )
