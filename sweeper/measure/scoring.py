"""A greedy baseline's answers scored by its own server, after everything that is timed.

Three readings of one text: token by token in a request alone, token by token among others, and all
at once as part of a prompt. How much they differ is how much numbers alone can change.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sweeper import store
from sweeper.drive.load import run_load
from sweeper.drive.requests import COMPLETIONS, Request, requests_of
from sweeper.errors import RequestError
from sweeper.scores import LIKELY, WITHIN_NATS, Check, Near, Scored, Scores
from sweeper.serve.session import Session
from sweeper.store import PointFolder
from sweeper.values import Json, Load, Point, Prompt, RequestRecord, Sampling

log = logging.getLogger(__name__)

TIMEOUT_S = 600.0
UNLIKE_VLLM = (LookupError, TypeError, ValueError, AttributeError)
"""What an answer of another shape than vLLM's raises when it is read."""


def score(
    session: Session, point: Point, prompts: Sequence[Prompt], home: PointFolder, check: Check
) -> Scores:
    """Score the answers in ``home`` and write ``scores.json``; a refused request is data."""
    answers = {r.prompt_id: r for r in home.records() if not r.error and not r.turn + r.repeat}
    asked = [p for p in prompts if p.id in answers][: check.prompts]
    problem = _impossible(point.sampling, list(answers.values()))
    scored: list[Scored] = []
    if not problem:
        batched = _batched(session, asked, point, check)
        for request in requests_of(asked, point.sampling):
            timed, among = answers[request.prompt_id], batched.get(request.prompt_id)
            try:
                scored.append(_scored(session, request, timed, among))
            except (RequestError, *UNLIKE_VLLM) as refused:
                problem = problem or f"{request.prompt_id}: {type(refused).__name__}: {refused}"
    if problem:
        log.warning("answers of the baseline were not scored: %s", problem)
    found = Scores(
        concurrency=check.concurrency,
        answers=tuple(scored),
        problem="" if scored else problem,
    )
    store.write_compact(home.scores, store.to_json(found))
    return found


def _impossible(sampling: Sampling, answers: Sequence[RequestRecord]) -> str:
    if (sampling.presence_penalty, sampling.frequency_penalty) != (0.0, 0.0) or (
        sampling.repetition_penalty != 1.0
    ):
        return "log-probabilities of a given text know no penalties"
    if not answers or any(r.token_ids is None for r in answers):
        return "the server gave no token ids"
    return ""


def _batched(
    session: Session, prompts: Sequence[Prompt], point: Point, check: Check
) -> dict[str, tuple[int, ...]]:
    """The answers with others under way."""
    found: list[RequestRecord] = []
    load = Load(name="closed", concurrency=check.concurrency, request_timeout_s=TIMEOUT_S)
    endpoint = session.endpoint
    requests = (replace(r, follow_ups=()) for r in requests_of(prompts, point.sampling))
    run_load(endpoint.base_url, endpoint.api_key, endpoint.model, requests, load, found.append)
    return {r.prompt_id: r.token_ids for r in found if r.token_ids is not None and not r.error}


def _scored(
    session: Session, request: Request, timed: RequestRecord, batched: tuple[int, ...] | None
) -> Scored:
    chat = request.path != COMPLETIONS
    wanted: dict[str, Json] = (
        {"logprobs": True, "top_logprobs": LIKELY} if chat else {"logprobs": LIKELY}
    )
    body = request.body | wanted | {"return_tokens_as_token_ids": True}
    answer = session.endpoint.complete(body, TIMEOUT_S, request.path)
    choice = answer["choices"][0]
    prompt_ids = answer.get("prompt_token_ids") or choice.get("prompt_token_ids")
    again = choice.get("token_ids")
    if not prompt_ids or again is None or not choice.get("logprobs"):
        raise RequestError("the server gave no token ids or no log-probabilities")
    token_ids = timed.token_ids or ()
    return Scored(
        prompt_id=request.prompt_id,
        token_ids=token_ids,
        near=_read_at_once(session, prompt_ids, token_ids),
        again=tuple(again),
        again_near=tuple(_near(one) for one in _decoded(choice["logprobs"], chat)),
        batched=batched,
    )


def _read_at_once(
    session: Session, prompt_ids: Sequence[int], token_ids: Sequence[int]
) -> tuple[Near, ...]:
    """The likely tokens at every token of an answer that is given as a part of the prompt."""
    body: dict[str, Json] = {
        "prompt": [*prompt_ids, *token_ids],
        "max_tokens": 1,
        "temperature": 0.0,
        "prompt_logprobs": LIKELY,
    }
    choice = session.endpoint.complete(body, TIMEOUT_S)["choices"][0]
    found = choice.get("prompt_logprobs")
    if not found or len(found) != len(prompt_ids) + len(token_ids):
        raise RequestError("the server gave no log-probabilities of the prompt's tokens")
    return tuple(
        _near({int(token): one["logprob"] for token, one in at.items()})
        for at in found[len(prompt_ids) :]
    )


def _decoded(logprobs: Json, chat: bool) -> list[dict[int, float]]:
    if chat:
        return [
            {_token_id(one["token"]): one["logprob"] for one in at["top_logprobs"]}
            for at in logprobs["content"]
        ]
    return [{_token_id(name): lp for name, lp in at.items()} for at in logprobs["top_logprobs"]]


def _token_id(name: str) -> int:
    """Of ``token_id:123``.

    :raises RequestError: for a token given as text: several may have the same.
    """
    if not name.startswith("token_id:"):
        raise RequestError("the server names tokens by their text, not by their ids")
    return int(name.removeprefix("token_id:"))


def _near(found: Mapping[int, float]) -> Near:
    ordered = sorted(found.items(), key=lambda item: -item[1])
    return tuple((t, round(lp, 4)) for t, lp in ordered if lp >= ordered[0][1] - WITHIN_NATS)
