"""A streamed answer after its end: its events, when each began to arrive, and what they say.

Nothing is parsed while bytes still arrive. An ordinary stream is then read by its outline: the
first and last events as JSON, text and token ids by their keys (``"text":`` with plain quotes can
only be a key, inside a JSON string the quotes would be escaped). Any other stream is read event by
event.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from sweeper.values import Json

# Each begins with letters only: such patterns are searched for ten times as fast.
_TEXT = re.compile(rb'"text":\s*"([^"\\]*(?:\\.[^"\\]*)*)"')
_CONTENT = re.compile(rb'"content":\s*"([^"\\]*(?:\\.[^"\\]*)*)"')
_IDS = re.compile(rb'"token_ids":\s*\[([^\]]+)\]')
_DONE = b"[DONE]"


@dataclass(slots=True)
class Streamed:
    """What a stream said.

    ``chunks_ns`` are the arrivals (``perf_counter_ns``) of the first byte of every event that
    brought tokens or the finish reason. ``answer`` has the shape of an answer that was not
    streamed: choices, usage, metrics.
    """

    chunks_ns: list[int] = field(default_factory=list)
    answer: dict[str, Json] = field(default_factory=dict)
    error: str = ""


def read_stream(body: bytes, times_ns: Sequence[int], sizes: Sequence[int]) -> Streamed:
    """The stream in ``body``, of which the first ``sizes[i]`` bytes were there at ``times_ns[i]``.

    An error event, a stream without an end, without usage or without tokens are in ``error``.
    """
    mark = b"\r\n\r\n" if b"\r\n\r\n" in body else b"\n\n"
    parts = body.split(mark)
    found = _outline(body, parts) if _ordinary(body, parts) else _one_by_one(parts)
    if found.error:
        return found.streamed()
    starts = accumulate((len(part) + len(mark) for part in parts), initial=0)
    began = np.fromiter(starts, np.int64, len(parts) + 1)[found.chunks]
    reads = np.searchsorted(np.asarray(sizes), began, side="right")
    arrived = np.asarray(times_ns)[np.minimum(reads, len(times_ns) - 1)]
    return found.streamed(arrived.tolist())


@dataclass(slots=True)
class _Found:
    """``chunks`` are positions among the events."""

    chunks: list[int] = field(default_factory=list)
    text: str = ""
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None
    finish_reason: str | None = None
    usage: Json = None
    metrics: Json = None
    error: str = ""

    def take(self, event: Json) -> None:
        """Note what only some events carry."""
        if not isinstance(event, dict):
            raise ValueError(f"not an object: {str(event)[:200]}")
        if event.get("error"):
            self.error = f"error event in the stream: {_message(event['error'])}"
        choice = _choice(event)
        ids = event.get("prompt_token_ids") or choice.get("prompt_token_ids")
        self.prompt_token_ids = self.prompt_token_ids or ids
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        self.usage = event.get("usage") or self.usage
        self.metrics = event.get("metrics") or self.metrics

    def streamed(self, chunks_ns: list[int] | None = None) -> Streamed:
        usage = self.usage if isinstance(self.usage, dict) else {}
        error = self.error
        if not error and not self.chunks:
            error = "the stream brought no tokens"
        elif not error and not isinstance(usage.get("completion_tokens"), int):
            error = "no usage in the stream; tokens are not guessed"
        choice = {
            "text": self.text, "token_ids": self.token_ids, "finish_reason": self.finish_reason,
        }
        answer = {
            "choices": [choice], "usage": usage, "metrics": self.metrics,
            "prompt_token_ids": self.prompt_token_ids,
        }
        return Streamed(chunks_ns=chunks_ns or [], answer=answer, error=error)


def _ordinary(body: bytes, parts: list[bytes]) -> bool:
    """Every event is one ``data:`` line with choices but the last, which is ``[DONE]``."""
    return (
        len(parts) > 2
        and parts[-1] == b""
        and parts[-2] == b"data: [DONE]"
        and b'"error"' not in body
        and body.count(b'"choices":') == len(parts) - 2
        and body.count(b"\ndata: ") == len(parts) - 2
        and body.startswith(b"data: ")
        and body.count(b"\n") == 2 * (len(parts) - 1)
        and b'"tool_calls":[{' not in body
    )


def _outline(body: bytes, parts: list[bytes]) -> _Found:
    found = _Found()
    first, last = 0, len(parts) - 3
    while first <= last and not _brings(event := json.loads(parts[first][6:])):
        found.take(event)
        first += 1
    while last > first and not _brings(event := json.loads(parts[last][6:])):
        found.take(event)
        last -= 1
    for at in dict.fromkeys((first, last)):
        if at <= last:
            found.take(json.loads(parts[at][6:]))
    found.chunks = list(range(first, last + 1))
    pattern = _CONTENT if b'"delta":' in parts[first] else _TEXT
    found.text = json.loads(b'"' + b"".join(pattern.findall(body)) + b'"')
    ids = _IDS.findall(body)
    found.token_ids = json.loads(b"[" + b",".join(ids) + b"]") if ids else None
    return found


def _one_by_one(parts: list[bytes]) -> _Found:
    """Any stream of server-sent events: comments, other fields, data over several lines."""
    found, texts, ended = _Found(), [], False
    for at, part in enumerate(parts):
        lines = [line for line in part.splitlines() if line.startswith(b"data:")]
        data = b"\n".join(line[5:].removeprefix(b" ") for line in lines)
        if data == _DONE:
            ended = True
        elif data:
            try:
                event = json.loads(data)
                found.take(event)
            except ValueError:
                found.error = found.error or f"not JSON in the stream: {_shown(data)}"
                return found
            if not found.error and _brings(event):
                found.chunks.append(at)
                texts.append(_text(_choice(event)))
                if (ids := _choice(event).get("token_ids")) is not None:
                    found.token_ids = [*(found.token_ids or ()), *ids]
    found.text = "".join(texts)
    if not ended and not found.error:
        found.error = "the stream ended without [DONE]"
    return found


def _brings(event: Json) -> bool:
    """Whether an event belongs to the answer: not the role alone, not usage alone."""
    choice = _choice(event)
    delta = choice.get("delta") or {}
    announces = "role" in delta and not any(v for k, v in delta.items() if k != "role")
    more = choice.get("token_ids") or choice.get("finish_reason")
    return bool(choice) and not (announces and not more)


def _choice(event: Json) -> dict[str, Json]:
    """The one choice of an event (``n`` is always 1), empty without one."""
    choices = event.get("choices") if isinstance(event, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else {}
    return first if isinstance(first, dict) else {}


def _text(choice: Json) -> str:
    return choice.get("text") or (choice.get("delta") or {}).get("content") or ""


def _message(error: Json) -> str:
    return str(error.get("message", error) if isinstance(error, dict) else error)[:300]


def _shown(data: bytes) -> str:
    return data[:200].decode("utf-8", "replace")
