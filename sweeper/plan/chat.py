"""The chat template of a target, found and rendered as vLLM does (its ``renderers``, 0.32)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from sweeper.plan.contents import walks_parts
from sweeper.values import Json, Prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatFlags:
    """What a server's flags say of its template.

    ``template`` is a file or the text itself, ``contents`` ``string`` or ``openai`` (``auto``: by
    the template), ``kwargs`` JSON text. ``other``: the server renders with another tokenizer than
    the target's own, so that a template here says nothing of it.
    """

    template: str | None = None
    contents: str = "auto"
    kwargs: str = "{}"
    other: bool = False


class TemplateRefusal(jinja2.TemplateError):
    """What a template says by ``raise_exception``, or how it fails on messages: the server answers
    such a request with HTTP 400."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTemplate:
    """``parts``: contents reach it as lists of parts. ``special`` are the tokenizer's tokens by
    the names that templates have for them."""

    compiled: jinja2.Template
    text: str
    parts: bool
    special: Mapping[str, str]
    defaults: Mapping[str, Json]

    def render(self, prompt: Prompt, messages: Sequence[Mapping[str, Json]]) -> str:
        """The text of ``messages``, and of the prompt's tools, up to where the answer begins.

        :raises TemplateRefusal: the template does not take them.
        :raises jinja2.UndefinedError: it asks for something that is not known here.
        """
        said = [_message(message, self.parts) for message in messages]
        if not any(word in self.text for word in ('"developer"', "'developer'")):
            said = _without_developer(said)
        given = {**self.special, **self.defaults, **json.loads(prompt.template_kwargs or "{}")}
        tools = [_tool(tool) for tool in json.loads(prompt.tools)] if prompt.tools else None
        known = {"tools": tools, "documents": None, "add_generation_prompt": True} | given
        try:
            return self.compiled.render(messages=said, **known)
        except TemplateRefusal:
            raise
        except Exception as failure:  # templates are programs, and may fail in any way
            if str(failure).endswith(" is undefined"):  # by a name that only the server may have
                raise
            raise TemplateRefusal(f"{type(failure).__name__}: {failure}") from None


@cache
def chat_template(folder: Path, flags: ChatFlags, tools: bool) -> ChatTemplate | None:
    """The one for prompts with or without tools; ``None`` where there is none to be read."""
    if flags.other:
        return None
    try:
        settings = _settings(folder)
        text = _given(flags.template) if flags.template else _own(folder, settings, tools)
        compiled, parts = _environment().from_string(text), flags.contents == "openai"
        if flags.contents == "auto":
            parts = walks_parts(_environment().parse(text))
        defaults = dict(json.loads(flags.kwargs))
    except (OSError, ValueError, KeyError, TypeError, jinja2.TemplateError):
        return None
    special = {k: t for k, v in settings.items() if k.endswith("_token") and (t := _token(v))}
    return ChatTemplate(
        compiled=compiled, text=text, parts=parts, special=special, defaults=defaults
    )


def _settings(folder: Path) -> dict[str, Json]:
    path = folder / "tokenizer_config.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def _token(value: Json) -> str:
    """A token stands alone or as an object with its settings."""
    found = value.get("content") if isinstance(value, dict) else value
    return found if isinstance(found, str) else ""


def _given(template: str) -> str:
    """vLLM's reading of ``--chat-template``: a file, else the template itself."""
    if not set("{}\n") & set(template):
        return Path(template).read_text(encoding="utf-8")
    return template.encode().decode("unicode_escape")


def _own(folder: Path, settings: Mapping[str, Json], tools: bool) -> str:
    """The checkpoint's; of several with names, prompts with tools take ``tool_use``."""
    files = [folder / "chat_template.jinja"]
    if tools:
        files.insert(0, folder / "additional_chat_templates" / "tool_use.jinja")
    if file := next((f for f in files if f.is_file()), None):
        return file.read_text(encoding="utf-8")
    processor = folder / "chat_template.json"
    if processor.is_file() and not tools:
        return str(json.loads(processor.read_text(encoding="utf-8"))["chat_template"])
    found = settings["chat_template"]
    if isinstance(found, list):
        found = {each["name"]: each["template"] for each in found}
    if isinstance(found, dict):
        found = found.get("tool_use" if tools else "default", found["default"])
    return str(found)


def _environment() -> ImmutableSandboxedEnvironment:
    """What transformers gives a template."""
    found = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
    )
    found.filters["tojson"] = _tojson
    found.globals |= {"raise_exception": _raise, "strftime_now": _now}
    return found


class _Generation(Extension):
    """``{% generation %}`` marks what a model said; to the text it adds nothing."""

    tags = {"generation"}  # noqa: RUF012 - Jinja declares it so

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


def _tojson(value: Json, ensure_ascii: bool = False, **how: Json) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, **how)


def _raise(message: str) -> None:
    raise TemplateRefusal(message)


def _now(format: str) -> str:
    return datetime.now().strftime(format)


def _message(message: Mapping[str, Json], parts: bool) -> dict[str, Json]:
    role, content = message["role"], message.get("content")
    texts = [content] if isinstance(content, str) else [part["text"] for part in content or ()]
    listed = [{"type": "text", "text": text} for text in texts]
    found = {"role": role, "content": listed if parts and role != "tool" else "\n".join(texts)}
    if role == "assistant" and message.get("tool_calls"):
        found["tool_calls"] = [_call(call) for call in message["tool_calls"]]
    if role == "tool":
        found["tool_call_id"] = message.get("tool_call_id")
    if "name" in message:
        found["name"] = message["name"]
    return found | ({"tools": None} if role == "developer" else {})


def _call(call: Mapping[str, Json]) -> dict[str, Json]:
    """Templates read arguments as an object, which are sent as JSON text."""
    function = call["function"]
    return {**call, "function": {**function, "arguments": json.loads(function["arguments"])}}


def _without_developer(messages: list[dict[str, Json]]) -> list[dict[str, Json]]:
    """Developers speak as the system where a template does not know them, and all that the system
    says stands first."""
    if not any(message["role"] == "developer" for message in messages):
        return messages
    system = [m for m in messages if m["role"] in ("system", "developer")]
    others = [m for m in messages if m["role"] not in ("system", "developer")]
    if len(system) == 1 and system[0] is messages[0]:
        said = {k: v for k, v in system[0].items() if k != "tools"} | {"role": "system"}
    else:
        texts = (_joined(message["content"]) for message in system)
        said = {"role": "system", "content": "\n\n".join(filter(None, texts))}
    return [said, *others]


def _joined(content: Json) -> str:
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content)


def _tool(tool: Mapping[str, Json]) -> dict[str, Json]:
    """With the fields that vLLM knows, null where a tool leaves one out."""
    function = tool["function"]
    known = {key: function.get(key) for key in ("name", "description", "parameters")}
    more = {k: function[k] for k in ("strict", "defer_loading") if function.get(k) is not None}
    return {"type": "function", "function": known | more}
