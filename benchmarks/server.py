"""A server of streams that costs little: protocol level, answers prepared beforehand.

    python -m benchmarks.server --port 8100 --first-ms 50 --spread-ms 100 --step-ms 10

``POST /v1/completions`` streams ``max_tokens`` chunks of one token, as vLLM words them, then usage
and ``[DONE]``. The first chunk is due ``first-ms`` after the request and up to ``spread-ms`` more,
drawn from the prompt, so that streams do not march in step; the others follow ``step-ms`` apart,
with 0 as fast as the loop turns. ``GET /timings`` tells, by prompt, when chunks were
really written: ``[first, last]`` in ns after the request was read.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
import zlib
from typing import Any

import uvloop

HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
TIMINGS: dict[str, list[int]] = {}


def framed(data: bytes) -> bytes:
    """One event as one chunk of a chunked HTTP body."""
    event = b"data: " + data + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(event), event)


def event(model: str, choices: list[dict[str, Any]], **more: Any) -> bytes:
    body = {"id": "cmpl-8f3e2b1c9d4a4f5e", "object": "text_completion", "created": 1764440000}
    body |= {"model": model, "choices": choices} | more
    return framed(json.dumps(body, separators=(",", ":")).encode())


def choice(reason: str | None) -> dict[str, Any]:
    return {
        "index": 0, "text": " word", "logprobs": None, "finish_reason": reason,
        "stop_reason": None, "token_ids": [1234], "prompt_token_ids": None,
    }  # fmt: skip


CHUNK, LAST = event("model", [choice(None)]), event("model", [choice("length")])
END = framed(b"[DONE]") + b"0\r\n\r\n"


class Connection(asyncio.Protocol):
    """One connection: requests one after another."""

    def __init__(self, first_s: float, spread_s: float, step_s: float) -> None:
        self.first_s, self.spread_s, self.step_s = first_s, spread_s, step_s
        self.loop = asyncio.get_running_loop()
        self.buffer = b""
        self.gone = False

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone = True

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, found, body = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        size = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                size = int(line[15:])
        if len(body) >= size:
            self.buffer = body[size:]
            self.answer(head.split(b" ", 2)[1].decode(), body[:size])

    def answer(self, path: str, body: bytes) -> None:
        if path == "/timings":
            self.whole(TIMINGS)
            TIMINGS.clear()
        elif body:
            self.begin(json.loads(body))
        else:
            self.whole({"data": [{"id": "model", "object": "model"}]})

    def whole(self, value: Any) -> None:
        data = json.dumps(value).encode()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        self.transport.write(head % len(data) + data)

    def begin(self, request: dict[str, Any]) -> None:
        self.left = self.total = int(request["max_tokens"])
        self.prompt = str(request["prompt"])
        self.began_ns, self.began = time.perf_counter_ns(), self.loop.time()
        self.transport.write(HEAD)
        share = zlib.crc32(self.prompt.encode()) / 2**32
        self.later(self.first_s + share * self.spread_s)

    def later(self, due: float) -> None:
        """The next chunk at ``due`` seconds after the request."""
        if self.step_s or due:
            self.due = due
            self.loop.call_at(self.began + due, self.step)
        else:
            self.due = 0.0
            self.loop.call_soon(self.step)

    def step(self) -> None:
        if self.gone:
            return
        now = time.perf_counter_ns() - self.began_ns
        if self.left == self.total:
            self.first_ns = now
        self.left -= 1
        if self.left:
            self.transport.write(CHUNK)
            self.later(self.due + self.step_s)
            return
        usage = {"prompt_tokens": 5, "completion_tokens": self.total}
        self.transport.write(LAST)
        self.transport.write(event("model", [], usage=usage) + END)
        TIMINGS[self.prompt] = [self.first_ns, now]


async def serve(port: int, *delays: float) -> None:
    loop = asyncio.get_running_loop()
    await loop.create_server(lambda: Connection(*delays), "127.0.0.1", port, backlog=1024)
    print("listening", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--first-ms", type=float, default=0.0)
    parser.add_argument("--spread-ms", type=float, default=0.0)
    parser.add_argument("--step-ms", type=float, default=0.0)
    args = parser.parse_args()
    delays = (args.first_ms, args.spread_ms, args.step_ms)
    uvloop.run(serve(args.port, *(delay / 1000 for delay in delays)))


if __name__ == "__main__":
    main()
