"""A streamed answer after its end: its events, when each began to arrive, and what they say.

Nothing is parsed while bytes still arrive. An ordinary stream, in which all events with tokens
begin with the same bytes up to the text, is then taken apart at those bytes, and only its first
and last events are read as JSON; any other stream is read event by event.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from sweeper.values import Json

_TEXT_KEY = re.compile(rb'"(?:text|content)":\s*"')
_TO_QUOTE = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*')
# A key with plain quotes is a key: inside a JSON string its quotes would be escaped.
_IDS = re.compile(rb'"token_ids":\s*\[([^\]]+)\]')
_FIRST, _SECOND = ((b'"index":%d,' % n, b'"index": %d,' % n) for n in (0, 1))
"""In the events of a first and of a second answer; inside a text the quotes would be escaped."""
_BACKSLASH = ord("\\")


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

    ``error`` says of a stream that it brought an error, no end, no usage or no tokens.
    """
    found = outline(body) or one_by_one(body)
    reads = np.searchsorted(np.asarray(sizes), np.asarray(found.starts, np.int64), side="right")
    arrived = np.asarray(times_ns, np.int64)[reads].tolist() if found.starts else []
    return Streamed(chunks_ns=arrived, answer=found.answer(), error=found.error or found.missing())


@dataclass(slots=True)
class Found:
    """What was gathered from events; ``starts`` are the offsets of those with tokens."""

    starts: list[int] = field(default_factory=list)
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
            raise ValueError("not an object")
        if event.get("error"):
            self.error = self.error or f"error event in the stream: {_message(event['error'])}"
        choice = _choice(event)
        ids = event.get("prompt_token_ids") or choice.get("prompt_token_ids")
        self.prompt_token_ids = self.prompt_token_ids or ids
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        self.usage = event.get("usage") or self.usage
        self.metrics = event.get("metrics") or self.metrics

    def missing(self) -> str:
        """What an answer cannot do without, empty when it is there."""
        usage = self.usage if isinstance(self.usage, dict) else {}
        if not self.starts:
            return "the stream brought no tokens"
        if not isinstance(usage.get("completion_tokens"), int):
            return "no usage in the stream; tokens are not guessed"
        return ""

    def answer(self) -> dict[str, Json]:
        choice = {
            "text": self.text,
            "token_ids": self.token_ids,
            "finish_reason": self.finish_reason,
        }
        return {
            "choices": [choice],
            "usage": self.usage,
            "metrics": self.metrics,
            "prompt_token_ids": self.prompt_token_ids,
        }


_REASONS = (b'"finish_reason":"', b'"finish_reason": "')


def outline(body: bytes) -> Found | None:
    """The reading of an ordinary stream; ``None`` for any other."""
    found = Found()
    try:
        start, end = _head(found, body)
        key = _TEXT_KEY.search(body, start, end)
        if key is None:
            return None
        opening = body[start : key.end()]
        if not any(mark in opening for mark in _FIRST) and any(mark in body for mark in _SECOND):
            return None
        *pieces, last = body[key.end() :].split(b"\n\n" + opening)
        if body.count(b"\n", start) != 2 * len(pieces) + last.count(b"\n"):
            return None
        piece, *tail = last.split(b"\n\n")
        pieces.append(piece)
        found.text = json.loads(b'"' + _inside(pieces) + b'"')
        found.take(_event(opening + piece))
        lengths = np.fromiter(map(len, pieces), np.int64, len(pieces)) + len(opening) + 2
        *found.starts, after = (start + np.append(0, np.cumsum(lengths))).tolist()
        _tail(found, tail, after)
    except ValueError:
        return None
    if sum(map(body.count, _REASONS)) > (found.finish_reason is not None):
        return None  # an event between the first and the last has one, and those were not read
    if ids := _IDS.findall(body):
        found.token_ids = json.loads(b"[" + b",".join(ids) + b"]")
    return found if len(ids) <= len(found.starts) else None  # else an event has several choices


def _head(found: Found, body: bytes) -> tuple[int, int]:
    """Take the events before the first one with tokens; where that starts and ends."""
    start = 0
    while True:
        end = body.index(b"\n\n", start)
        event = _event(body[start:end])
        found.take(event)
        if _brings(event):
            return start, end
        start = end + 2


def _tail(found: Found, parts: Sequence[bytes], start: int) -> None:
    """Take the events after the last one with text: a lone finish reason, usage, the end."""
    if list(parts[-2:]) != [b"data: [DONE]", b""]:
        raise ValueError("no end")
    for part in parts[:-2]:
        event = _event(part)
        found.take(event)
        if _brings(event):
            if _text(_choice(event)) or _choice(event).get("token_ids"):
                raise ValueError("more tokens")
            found.starts.append(start)
        start += len(part) + 2


def _inside(pieces: Sequence[bytes]) -> bytes:
    """All of :func:`_to_quote`, which is rarely needed: a quote after a backslash may be text."""
    texts = [text for text, _ in [piece.split(b'"', 1) for piece in pieces]]
    if b'\\"' in b'"'.join([*texts, b""]):
        texts = [_to_quote(piece) for piece in pieces]
    return b"".join(texts)


def _to_quote(piece: bytes) -> bytes:
    """A JSON string's inside, from the start of ``piece`` to its closing quote."""
    end = piece.index(b'"')
    if end and piece[end - 1] == _BACKSLASH:
        end = len(_TO_QUOTE.match(piece)[0])  # type: ignore[index]  # it matches anything
    return piece[:end]


def _event(part: bytes) -> Json:
    if not part.startswith(b"data: ") or b"\n" in part:
        raise ValueError("not an event of one line")
    return json.loads(part[6:])


def one_by_one(body: bytes) -> Found:
    """The reading of any stream of events: comments, other fields, data over several lines."""
    found, texts, ended, start = Found(), [], False, 0
    mark = b"\r\n\r\n" if b"\r\n\r\n" in body else b"\n\n"
    for part in body.split(mark):
        data = _data(part.splitlines())
        ended = ended or data == b"[DONE]"
        if data and data != b"[DONE]":
            try:
                found.take(event := json.loads(data))
            except ValueError:
                found.error = found.error or f"not a JSON object in the stream: {_shown(data)}"
                break
            if _brings(event):
                found.starts.append(start)
                if _choice(event).get("index"):  # of several answers the first is kept
                    start += len(part) + len(mark)
                    continue
                texts.append(_text(_choice(event)))
                if (ids := _choice(event).get("token_ids")) is not None:
                    found.token_ids = [*(found.token_ids or ()), *ids]
        start += len(part) + len(mark)
    found.text = "".join(texts)
    if not ended:
        found.error = found.error or "the stream ended without [DONE]"
    return found


def _data(lines: Iterable[bytes]) -> bytes:
    fields = (line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))
    return b"\n".join(fields)


def _brings(event: Json) -> bool:
    """Whether an event belongs to the answer: not the role alone, not usage alone."""
    choice = _choice(event)
    delta = choice.get("delta") or {}
    announces = "role" in delta and not any(v for k, v in delta.items() if k != "role")
    more = choice.get("token_ids") or choice.get("finish_reason")
    return bool(choice) and not (announces and not more)


def _choice(event: Json) -> dict[str, Json]:
    """The one choice of an event (several answers come in events of their own); or empty."""
    choices = event.get("choices") if isinstance(event, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else {}
    return first if isinstance(first, dict) else {}


def _text(choice: dict[str, Json]) -> str:
    return choice.get("text") or (choice.get("delta") or {}).get("content") or ""


def _message(error: Json) -> str:
    return str(error.get("message", error) if isinstance(error, dict) else error)[:300]


def _shown(data: bytes) -> str:
    return data[:200].decode("utf-8", "replace")
