"""Tokenizer files: are two the same, and how many tokens is a prompt?"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from sweeper.plan.chat import ChatFlags, TemplateRefusal, chat_template
from sweeper.values import Json, Prompt

CANNOT_COUNT = (
    "prompts could not be counted here (that takes the package tokenizers, which comes with vLLM, "
    "and the target's tokenizer.json)"
)
DEFAULT = ChatFlags()
_A_MESSAGE = 8
"""Tokens taken for the frame of a message where there is no usable chat template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Token by id, and a hash of the merges; ``merges`` is empty for tokenizers without any."""

    tokens: Mapping[int, str]
    merges: str

    @property
    def digest(self) -> str:
        """SHA-256 over tokens and merges."""
        text = json.dumps([sorted(self.tokens.items()), self.merges], ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()


@cache
def vocabulary(folder: Path) -> Vocabulary | None:
    """The contents of ``tokenizer.json``; ``None`` where it is missing or of an unknown shape."""
    try:
        data = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
        model = data["model"]
        tokens = _by_id(model["vocab"])
        tokens |= {item["id"]: item["content"] for item in data.get("added_tokens") or ()}
        merges = [m if isinstance(m, str) else " ".join(m) for m in model.get("merges") or ()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return Vocabulary(tokens=tokens, merges=_hash("\n".join(merges)) if merges else "")


def difference(target: Vocabulary, draft: Vocabulary) -> tuple[str, str]:
    """``(mistake, warning)`` about two tokenizers, both empty for equal ones."""
    if target.digest == draft.digest:
        return "", ""
    shared = target.tokens.keys() & draft.tokens.keys()
    other = [i for i in sorted(shared) if target.tokens[i] != draft.tokens[i]]
    if other:
        first = other[0]
        return (
            f"{len(other)} token ids mean other text, the first is {first}: "
            f"{target.tokens[first]!r} for the target, {draft.tokens[first]!r} for the draft"
        ), ""
    if target.merges != draft.merges:
        return "the merges differ, so the draft was trained on text cut in other tokens", ""
    missing = len(target.tokens.keys() ^ draft.tokens.keys())
    return "", f"{missing} token ids are in only one of the two tokenizers"


def count_tokens(
    folder: Path, prompts: Sequence[Prompt], answer: int = 0, flags: ChatFlags = DEFAULT
) -> int | None:
    """Tokens of the longest prompt as the server would render it; ``None`` where it cannot be said.

    Of a prompt with several turns that is the last one, with ``answer`` tokens for each answer
    before it. Without a usable chat template the texts are counted, and some tokens more for
    each message.
    """
    coder = tokenizer(folder)
    if coder is None:
        return None
    rendered = (_rendered(folder, p, flags, answer) for p in prompts)
    longest = 0
    for one in sorted(rendered, key=_at_most, reverse=True):
        if _at_most(one) <= longest:
            break
        longest = max(longest, _length(one, coder))
    return longest


def beyond(
    folder: Path, prompts: Sequence[Prompt], room: int, answer: int, flags: ChatFlags = DEFAULT
) -> tuple[tuple[Prompt, int], ...]:
    """The prompts of more than ``room`` tokens, with their tokens, in their order."""
    coder = tokenizer(folder)
    if coder is None:
        return ()
    rendered = ((p, _rendered(folder, p, flags, answer)) for p in prompts)
    counted = ((p, _length(one, coder)) for p, one in rendered if _at_most(one) > room)
    return tuple((p, tokens) for p, tokens in counted if tokens > room)


def refusals(
    folder: Path, prompts: Sequence[Prompt], flags: ChatFlags
) -> Iterator[tuple[Prompt, str]]:
    """The prompts whose first turn the chat template refuses, with the template's own words.

    Later turns hold answers that nobody knows yet.
    """
    for prompt in prompts:
        template = chat_template(folder, flags, tools=bool(prompt.tools))
        if template is None or prompt.messages is None:
            continue
        try:
            template.render(prompt, [message.sent for message in prompt.messages])
        except TemplateRefusal as refused:
            yield prompt, " ".join(str(refused).split())
        except jinja2.UndefinedError:
            continue


def unshown(folder: Path, prompts: Sequence[Prompt], flags: ChatFlags) -> Iterator[tuple[str, int]]:
    """What prompts have that their chat template never reads, and how many of them have it."""
    found = Counter[str]()
    for prompt in prompts:
        template = chat_template(folder, flags, tools=bool(prompt.tools))
        if template is None:
            continue
        calls = any(message.sent.get("tool_calls") for message in prompt.messages or ())
        found["tools"] += bool(prompt.tools) and "tools" not in template.text
        found["tool calls"] += calls and "tool_calls" not in template.text
    yield from ((what, count) for what, count in found.items() if count)


def ordinary_ids(folder: Path) -> tuple[int, ...]:
    """Ids of the vocabulary without special and added tokens; empty where it cannot be read."""
    try:
        data = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
        added = {item["id"] for item in data.get("added_tokens") or ()}
        return tuple(sorted(_by_id(data["model"]["vocab"]).keys() - added))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rendered:
    """A prompt's text; ``more`` tokens are not in it."""

    text: str
    chat: bool
    more: int = 0


def _length(one: _Rendered, coder: Any) -> int:
    found = coder.encode(one.text, add_special_tokens=not one.chat) if one.text else None
    return (len(found.ids) if found else 0) + one.more


def _at_most(one: _Rendered) -> int:
    """An upper bound: a token is at least a byte, and a few special ones are added."""
    return len(one.text.encode()) + one.more + _A_MESSAGE


def _by_id(vocab: Json) -> dict[int, str]:
    """BPE and WordPiece keep ``{token: id}``, Unigram ``[[token, score], …]``."""
    if isinstance(vocab, dict):
        return {number: token for token, number in vocab.items()}
    return {number: str(entry[0]) for number, entry in enumerate(vocab)}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def tokenizer(folder: Path) -> Any:
    """The one of the package tokenizers; ``None`` without the package or a readable file."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        return None
    path = folder / "tokenizer.json"
    try:
        return Tokenizer.from_file(str(path)) if path.is_file() else None
    except Exception:  # the package raises bare Exception for files it cannot read
        return None


def _rendered(folder: Path, prompt: Prompt, flags: ChatFlags, answer: int) -> _Rendered:
    if prompt.messages is None:
        ids = len(prompt.token_ids or ())
        return _Rendered(text=prompt.text or "", chat=False, more=ids)
    messages = [message.sent for message in prompt.messages]
    for asked in prompt.follow_ups:
        messages += [{"role": "assistant", "content": ""}, {"role": "user", "content": asked}]
    answers = answer * len(prompt.follow_ups)
    plain = _Rendered(
        text="\n".join((*(m.content for m in prompt.messages), *prompt.follow_ups))
        + (prompt.tools or ""),
        chat=True,
        more=_A_MESSAGE * len(messages) + answers,
    )
    template = chat_template(folder, flags, tools=bool(prompt.tools))
    if template is None:
        return plain
    try:
        text = template.render(prompt, messages)
    except jinja2.TemplateError:
        return plain
    return _Rendered(text=text, chat=True, more=answers)
