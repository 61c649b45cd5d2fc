"""One streamed request and what came back; a failure becomes data in the record."""

from __future__ import annotations

import asyncio
import json
import time
from itertools import pairwise

import aiohttp

from sweeper.drive.client import record_of
from sweeper.drive.connection import Arrivals, arrivals
from sweeper.drive.events import Streamed, read_stream
from sweeper.drive.requests import Request
from sweeper.values import Json, RequestRecord

STREAMING = {"stream": True, "stream_options": {"include_usage": True}}
UNBOUNDED = 2**30
"""aiohttp's read buffer in bytes: an answer is read when it is complete, so it must all fit."""


class _Refused(Exception):
    """An answer that is no stream."""


async def send_streamed(
    http: aiohttp.ClientSession, model: str, request: Request, origin_ns: int, timeout_s: float
) -> RequestRecord:
    """Send one request and wait for the end of its stream, ``timeout_s`` at most.

    ``http`` must be built on a :class:`~sweeper.drive.connection.WatchedConnector`, which notes
    when bytes arrive; this task sleeps until the stream ends, and only then is it read.
    """
    payload = json.dumps({"model": model} | request.body | STREAMING, ensure_ascii=False).encode()
    sent = time.perf_counter_ns()
    found, done = Streamed(), 0
    try:
        async with asyncio.timeout(timeout_s):
            body, seen = await _body(http, request.path, payload)
        done = seen.times_ns[-1] if body else 0
        found = read_stream(body, seen.times_ns, seen.sizes)
    except TimeoutError:
        found.error = f"no end within {timeout_s:g} s{_so_far(sent)}"
    except _Refused as problem:
        found.error = str(problem)
    except (aiohttp.ClientError, OSError) as problem:
        found.error = f"{type(problem).__name__}: {problem}{_so_far(sent)}"
    done = done or time.perf_counter_ns()
    gaps = tuple(b - a for a, b in pairwise([sent, *found.chunks_ns])) or None
    answer: Json = found.answer
    return record_of(request, answer, found.error, sent - origin_ns, done - origin_ns, gaps)


async def _body(http: aiohttp.ClientSession, path: str, payload: bytes) -> tuple[bytes, Arrivals]:
    async with http.post(path, data=payload, read_bufsize=UNBOUNDED) as answer:
        seen = arrivals() or Arrivals()
        seen.attach(answer.content)
        if answer.status != 200:
            raise _Refused(f"HTTP {answer.status}: {(await answer.text(errors='replace'))[:300]}")
        if (problem := answer.content.exception()) is not None:
            raise problem
        await answer.content.wait_eof()
        return _all_of(answer.content), seen


def _all_of(content: aiohttp.StreamReader) -> bytes:
    """The whole body at once; taking it read by read costs as much as receiving it did."""
    body = b"".join(getattr(content, "_buffer", ()))
    return body if len(body) == content.total_bytes else content.read_nowait()


def _so_far(sent_ns: int) -> str:
    """How much of the answer had come, for an error message."""
    seen = arrivals()
    if seen is None or not seen.times_ns:
        return ""
    seconds = (seen.times_ns[-1] - sent_ns) / 1e9
    return f" ({seen.sizes[-1]} bytes had come, the last after {seconds:.2f} s)"
