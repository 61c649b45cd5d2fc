"""Rollout batches of ``engine.py``: lists of token ids, n samples each, logprobs, prompt logprobs.

A token's logprob depends on its id alone, so a re-score agrees unless the fault ``wrong_logprobs``
(nats) moves what is returned with samples.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

from tests.fakes import engine_core as core
from tests.fakes.engine_core import Core, Job
from tests.fakes.engine_flags import FAULTS

Admit = Callable[[dict[str, Any], bool, int], Job]


def is_batch(body: dict[str, Any]) -> bool:
    prompt = body.get("prompt")
    return isinstance(prompt, list) and bool(prompt) and isinstance(prompt[0], list)


def logprob(token: int) -> float:
    return -(token % 7) / 10


async def batch(engine: Core, admit: Admit, body: dict[str, Any], number: int) -> dict[str, Any]:
    """Choices prompt by prompt, n each, when the last sequence is done; no metrics with them."""
    jobs = []
    for prompt in body["prompt"]:
        for sample in range(body.get("n", 1)):
            seed = None if body.get("seed") is None else body["seed"] + sample
            jobs.append(admit(body | {"prompt": prompt, "seed": seed}, False, number))
    seen = engine.company.watched(len(jobs), FAULTS.get("batches_seen", 0))
    await asyncio.gather(*(_run(engine, job, seen) for job in jobs))
    prompts = sum(len(job.body["prompt"]) for job in jobs)
    answers = sum(len(job.tokens) for job in jobs)
    return {
        "choices": [_choice(index, job) for index, job in enumerate(jobs)],
        "usage": {"prompt_tokens": prompts, "completion_tokens": answers},
        "metrics": None,
    }


async def _run(engine: Core, job: Job, seen: asyncio.Event) -> None:
    async with aclosing(engine.run(job)) as running:
        async for _ in running:
            await seen.wait()


def _choice(index: int, job: Job) -> dict[str, Any]:
    ids, wrong = core.ids(job.tokens), FAULTS.get("wrong_logprobs", 0.0)
    return {
        "index": index,
        "text": job.text,
        "finish_reason": job.reason,
        "prompt_token_ids": job.body["prompt"],
        "token_ids": ids,
        "logprobs": {
            "tokens": [f"token_id:{token}" for token in ids],
            "token_logprobs": [logprob(token) + wrong for token in ids],
            "top_logprobs": [{f"token_id:{token}": logprob(token) + wrong} for token in ids],
        },
    }


def prompt_logprobs(prompt: list[int]) -> list[dict[str, Any] | None]:
    """vLLM's shape: none for the first token, then one entry by id."""
    scored = [{str(token): {"logprob": logprob(token), "rank": 1}} for token in prompt[1:]]
    return [None, *scored]
