"""A model that chooses between two answers, asked in both orders so that its habit cancels out."""

from __future__ import annotations

import os
from collections.abc import Sequence

from sweeper.errors import RequestError, ServerError
from sweeper.scores import Grader, Preference
from sweeper.serve.endpoint import Endpoint
from sweeper.values import Prompt, RequestRecord

QUESTION = """\
Two answers to the same request follow. Which one is better: more correct, more helpful, more to \
the point? Length does not count. Reply with one letter: A, B, or C if they are equally good.

[Request]
{request}

[Answer A]
{a}

[Answer B]
{b}
"""
TIMEOUT_S = 120.0


def preferences(
    prompts: Sequence[Prompt],
    baseline: Sequence[RequestRecord],
    candidate: Sequence[RequestRecord],
    grader: Grader,
) -> tuple[Preference, ...]:
    """What the model prefers, prompt by prompt; equal answers are not shown to it.

    :raises ServerError: when it does not answer.
    """
    ours, theirs = _first(candidate), _first(baseline)
    key = os.environ.get(grader.api_key_env, "") if grader.api_key_env else ""
    url = (grader.base_url or "").rstrip("/").removesuffix("/v1")
    with Endpoint(url, key, grader.model or "") as endpoint:
        try:
            if not grader.model:
                endpoint.model = str(endpoint.models()[0]["id"])
            return tuple(
                Preference(prompt_id=p.id, better=_better(endpoint, p, theirs[p.id], ours[p.id]))
                for p in prompts
                if p.id in ours and p.id in theirs
            )
        except (RequestError, LookupError, TypeError) as problem:
            raise ServerError(f"judge_model: {url}: {problem}") from None


def _first(records: Sequence[RequestRecord]) -> dict[str, str]:
    return {r.prompt_id: r.text for r in records if not r.error and r.repeat == 0}


def _better(endpoint: Endpoint, prompt: Prompt, baseline: str, candidate: str) -> float:
    """1, 0 or 0.5; a model that always likes the first answer says 0.5."""
    if baseline == candidate:
        return 0.5
    first = _choice(endpoint, prompt, candidate, baseline)
    second = 1 - _choice(endpoint, prompt, baseline, candidate)
    return first if first == second else 0.5


def _choice(endpoint: Endpoint, prompt: Prompt, a: str, b: str) -> float:
    """1 for A, 0 for B, 0.5 for anything else."""
    request = prompt.text or "\n\n".join(m.content for m in prompt.messages or ())
    text = QUESTION.format(request=request, a=a, b=b)
    body = {
        "messages": [{"role": "user", "content": text}],
        "max_tokens": 8,
        "temperature": 0.0,
    }
    answer = endpoint.complete(body, TIMEOUT_S, "/v1/chat/completions")
    said = str(answer["choices"][0]["message"]["content"] or "").strip().upper()[:1]
    return {"A": 1.0, "B": 0.0}.get(said, 0.5)
