"""One request and what came back; a failure becomes data in the record."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence

import aiohttp

from sweeper.drive.requests import Request
from sweeper.values import Json, RequestRecord, SpecCounts


async def send(
    http: aiohttp.ClientSession, model: str, request: Request, origin_ns: int
) -> RequestRecord:
    """Send one request, not streamed; times count from ``origin_ns`` (``perf_counter_ns``).

    The clock is read before the first byte goes out and after the last byte came in; parsing is
    not timed.
    """
    payload = json.dumps({"model": model} | request.body, ensure_ascii=False).encode()
    sent = time.perf_counter_ns()
    error, raw, status = "", b"", 0
    try:
        async with http.post(request.path, data=payload) as answer:
            raw = await answer.read()
            status = answer.status
    except TimeoutError:
        error = f"no answer within {http.timeout.total:g} s"
    except (aiohttp.ClientError, OSError) as problem:
        error = f"{type(problem).__name__}: {problem}"
    done = time.perf_counter_ns()
    answer_json: Json = None
    if not error:
        answer_json, error = _parse(raw, status)
    return record_of(request, answer_json, error, sent - origin_ns, done - origin_ns)


def _parse(raw: bytes, status: int) -> tuple[Json, str]:
    """The answer's JSON, or why it cannot be used."""
    text = raw.decode("utf-8", "replace")
    if status != 200:
        return None, f"HTTP {status}: {text[:300]}"
    try:
        answer = json.loads(text)
    except json.JSONDecodeError:
        return None, f"not JSON: {text[:200]}"
    if not isinstance(answer, dict) or not answer.get("choices"):
        return None, f"no choices: {text[:200]}"
    usage = answer.get("usage") or {}
    if not isinstance(usage.get("completion_tokens"), int):
        return None, "no usage in the answer; tokens are not guessed"
    return answer, ""


def record_of(
    request: Request,
    answer: Json,
    error: str,
    sent_ns: int,
    done_ns: int,
    chunk_ns: tuple[int, ...] | None = None,
) -> RequestRecord:
    """The record of an answer, whole or gathered from its stream; ``None`` where there is none."""
    usage = (answer or {}).get("usage") or {}
    choices = (answer or {}).get("choices") or [{}]
    choice = next((c for c in choices if not c.get("index")), choices[0])
    prompt_ids = (answer or {}).get("prompt_token_ids") or choice.get("prompt_token_ids")
    details = usage.get("prompt_tokens_details") or {}
    message = choice.get("message") or {}
    server = (answer or {}).get("metrics") or {}
    return RequestRecord(
        prompt_id=request.prompt_id,
        category=request.category,
        repeat=request.repeat,
        turn=request.turn,
        sent_ns=sent_ns,
        first_ns=sent_ns + chunk_ns[0] if chunk_ns else None,
        done_ns=done_ns,
        prompt_tokens=usage.get("prompt_tokens"),
        cached_tokens=details.get("cached_tokens"),
        completion_tokens=usage.get("completion_tokens"),
        finish_reason=choice.get("finish_reason"),
        spec=spec_counts(answer),
        decode_steps=None,
        text=_writable(message.get("content") or choice.get("text") or ""),
        token_ids=_integers(choice.get("token_ids")),
        prompt_digest=digest_of(prompt_ids),
        error=_writable(error),
        chunk_ns=chunk_ns,
        queue_ms=server.get("queue_time_ms"),
        prefill_ms=server.get("time_to_first_token_ms"),
        decode_ms=server.get("generation_time_ms"),
        answers=request.body.get("n", 1),
    )


def spec_counts(answer: Json) -> SpecCounts | None:
    """vLLM's per-request counts, ``None`` where the server gives none."""
    metrics = (answer or {}).get("metrics") or {}
    found = metrics.get("speculative_decoding")
    if not found:
        return None
    return SpecCounts(
        verify_steps=found["num_spec_steps"],
        drafted=found["num_draft_tokens"],
        accepted=found["num_accepted_draft_tokens"],
        histogram=_integers(found.get("acceptance_histogram")),
        per_step_drafted=_integers(found.get("per_step_drafted")),
        per_step_accepted=_integers(found.get("per_step_accepted")),
    )


def _writable(text: str) -> str:
    """Without halves of surrogate pairs, which JSON can carry and a file cannot."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _integers(values: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if values is None else tuple(values)


def digest_of(token_ids: Sequence[int] | None) -> str | None:
    """Of the prompt as the server rendered and tokenised it."""
    if token_ids is None:
        return None
    return hashlib.sha256(json.dumps(list(token_ids)).encode()).hexdigest()[:16]
