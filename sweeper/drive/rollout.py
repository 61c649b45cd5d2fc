"""Rollout batches as GRPO sends them: several prompts, several samples each, one request.

Token ids go in, token ids and the logprobs of the sampled tokens come back, nothing is streamed, as
``VLLMClient.generate`` of TRL does it: ``/v1/completions`` of vLLM's own server, or ``/generate/``
of the server that TRL up to 1.10 brings along. While a batch is under way the server's own count of
running sequences is read, because the answer does not tell when which sequence ended.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import aiohttp

from sweeper.errors import RequestError
from sweeper.values import ROLLOUT_PATHS, Json, RolloutApi, Sampling

_UNDER_WAY = re.compile(
    r"^vllm:num_requests_(?:running|waiting)(?:\{[^}]*\})? (\S+)$", re.MULTILINE
)
_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_tokens")
_FURTHER = ("presence_penalty", "frequency_penalty", "seed", "ignore_eos")
"""What TRL passes to its old server as ``generation_kwargs``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One sample: ``logprobs[i]`` is that of ``token_ids[i]`` as the server returned it."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...] | None
    finish_reason: str | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A batch that came back: ``sequences`` prompt by prompt, n each.

    Times count from ``origin_ns``. ``under_way`` are (seconds since sending, sequences that still
    ran or waited); empty where the server does not say. ``error`` is empty on success.
    """

    sent_ns: int
    done_ns: int
    sequences: tuple[Sample, ...]
    under_way: tuple[tuple[float, int], ...]
    error: str

    @property
    def seconds(self) -> float:
        return (self.done_ns - self.sent_ns) / 1e9


def body_of(
    api: RolloutApi, model: str, prompts: Sequence[Sequence[int]], sampling: Sampling
) -> Json:
    """The JSON of one batch; every sampling field is said."""
    fields = asdict(sampling)
    own = {name: fields[name] for name in _SAMPLING} | {"n": sampling.n, "logprobs": 0}
    further = {name: fields[name] for name in _FURTHER}
    listed = [list(prompt) for prompt in prompts]
    if api == "generate":
        own["top_k"] = own["top_k"] or -1  # up to vLLM 0.8 zero was refused; -1 is no limit always
        return {"prompts": listed, **own, "generation_kwargs": further}
    ids = {"return_token_ids": True, "return_tokens_as_token_ids": True}
    return {"model": model, "prompt": listed, **own, **further, **ids}


def send_batch(
    base_url: str,
    api_key: str,
    api: RolloutApi,
    body: Json,
    *,
    sequences: int,
    timeout_s: float,
    poll_s: float,
    origin_ns: int,
) -> Answer:
    """Send one batch and wait for its last sequence; a failure is the answer's ``error``."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    work = _batch(base_url, headers, api, body, timeout_s, poll_s)
    sent, done, raw, under_way, error = asyncio.run(work)
    found: tuple[Sample, ...] = ()
    if not error:
        try:
            found = _PARSED[api](json.loads(raw))
            error = _wrong_number(len(found), sequences)
        except RequestError as problem:
            error = str(problem)
        except (ValueError, KeyError, TypeError, IndexError) as problem:
            error = f"not a batch of completions: {type(problem).__name__}: {problem}"
    return Answer(
        sent_ns=sent - origin_ns,
        done_ns=done - origin_ns,
        sequences=found,
        under_way=under_way,
        error=error,
    )


async def _batch(
    base_url: str,
    headers: dict[str, str],
    api: RolloutApi,
    body: Json,
    timeout_s: float,
    poll_s: float,
) -> tuple[int, int, bytes, tuple[tuple[float, int], ...], str]:
    payload, error, raw = json.dumps(body).encode(), "", b""
    headers = headers | {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(
        base_url, headers=headers, timeout=aiohttp.ClientTimeout(total=timeout_s)
    ) as http:
        seen: list[tuple[float, int]] = []
        sent = time.perf_counter_ns()
        watch = asyncio.create_task(_watch(http, sent, poll_s, seen))
        try:
            async with http.post(ROLLOUT_PATHS[api], data=payload) as answer:
                raw = await answer.read()
                if answer.status != 200:
                    error = f"HTTP {answer.status}: {raw[:300].decode('utf-8', 'replace')}"
        except TimeoutError:
            error = f"no answer within {timeout_s:g} s"
        except (aiohttp.ClientError, OSError) as problem:
            error = f"{type(problem).__name__}: {problem}"
        done = time.perf_counter_ns()
        watch.cancel()
        await asyncio.wait([watch])
    return sent, done, raw, tuple(seen), error


async def _watch(
    http: aiohttp.ClientSession, sent_ns: int, poll_s: float, seen: list[tuple[float, int]]
) -> None:
    """Note how many sequences the server has under way, until cancelled; until it shows no count.

    A poll that fails is left out: a busy server may close a connection, and answers the next one.
    """
    while True:
        await asyncio.sleep(poll_s)
        at = (time.perf_counter_ns() - sent_ns) / 1e9
        try:
            async with http.get("/metrics") as answer:
                text, found = await answer.text(), answer.status == 200
        except (aiohttp.ClientError, OSError, TimeoutError):
            continue
        counts = _UNDER_WAY.findall(text)
        if found and not counts:
            return
        if counts:
            seen.append((at, round(sum(map(float, counts)))))


def _wrong_number(found: int, wanted: int) -> str:
    return "" if found == wanted else f"{found} sequences came back, {wanted} were asked for"


def _of_completions(answer: Json) -> tuple[Sample, ...]:
    """vLLM's choices: prompt by prompt, n each."""
    choices = sorted(answer["choices"], key=lambda choice: int(choice["index"]))
    found = tuple(map(_of_choice, choices))
    said = (answer.get("usage") or {}).get("completion_tokens")
    if said != (counted := sum(len(one.token_ids) for one in found)):
        raise RequestError(f"usage says {said} tokens, {counted} token ids came back")
    return found


def _of_choice(choice: Json) -> Sample:
    if choice.get("token_ids") is None:
        raise RequestError("no token ids in the answer; the server ignores return_token_ids")
    logprobs = (choice.get("logprobs") or {}).get("token_logprobs")
    return Sample(
        token_ids=tuple(choice["token_ids"]),
        logprobs=tuple(logprobs) if logprobs is not None else None,
        finish_reason=choice.get("finish_reason"),
        text=choice.get("text") or "",
    )


def _of_generate(answer: Json) -> tuple[Sample, ...]:
    """TRL's: one list a sequence; the sampled token's logprob is the only one of its position."""
    ids, logprobs = answer["completion_ids"], answer.get("logprobs")
    if not ids:
        raise RequestError("no completion_ids in the answer")
    rows: list[Json] = logprobs if logprobs is not None else [None] * len(ids)
    return tuple(
        Sample(
            token_ids=tuple(tokens),
            logprobs=tuple(_first(at) for at in row) if row is not None else None,
            finish_reason=None,
            text="",
        )
        for tokens, row in zip(ids, rows, strict=True)
    )


def _first(position: Json) -> float:
    """TRL before 1.0 has a number here, later ones a list of the k most probable."""
    return float(position[0] if isinstance(position, list) else position)


_PARSED: dict[RolloutApi, Callable[[Json], tuple[Sample, ...]]] = {
    "completions": _of_completions,
    "generate": _of_generate,
}
