"""Continuations of fixed texts, sampled many times: what a server's distribution looks like."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import asdict, replace

from sweeper import store
from sweeper.drive.rollout import body_of
from sweeper.errors import RequestError
from sweeper.measure.counters import parse
from sweeper.measure.scoring import UNLIKE_VLLM
from sweeper.scores import Check, Samples
from sweeper.serve.session import Session
from sweeper.store import PointFolder
from sweeper.values import ROLLOUT_PATHS, Json, Point, Sampling

log = logging.getLogger(__name__)

TEXTS = (
    "red blue green blue red green green blue red green blue red red green blue green red blue",
    "3 1 4 1 5 9 2 6 5 3 5 8 9 7 9 3 2 3 8 4 6 2 6 4 3 3 8 3 2 7 9 5 0 2 8 8 4 1 9 7 1 6 9 3 9 9",
    "She went to the market and bought apples. She went to the park and saw birds. She went to the",
    "one cat, two dogs, three birds, two cats, one dog, three cats, two birds, one bird, two",
    "north, south, east, south, west, north, west, east, north, south, south, west, east, north,",
    "He said yes. She said no. They said maybe. He said no. She said yes. They said no. He said",
    "A to B, B to C, C to A, A to C, B to A, C to B, A to B, B to A, C to A, A to",
    "up down left up right down up left right left up down right up left down up right",
)
"""Their ends are found again in their middles, so that lookup drafts, and what follows is open, so
that drafts are rejected: both ways through a sampler are taken at nearly every token."""
TIMEOUT_S = 600.0
LONGEST = 128
"""Tokens that none of the texts has more of, in any tokenizer that was looked at (91 at most)."""
STEP_TOKENS = 2048
"""What a step of vLLM reads at most where the server does not say."""


def draw(session: Session, point: Point, home: PointFolder, check: Check) -> Samples:
    """Sample and write ``samples.json``; a refused request is data."""
    texts = TEXTS[: check.texts]
    before = _drafted(session)
    try:
        draws = tuple(_continued(session, point, text, check) for text in texts)
        after = _drafted(session)
        drafted = None if before is None or after is None else round(after - before)
        found = Samples(texts=texts, draws=draws, drafted=drafted)
    except (RequestError, *UNLIKE_VLLM) as refused:
        log.warning("no continuations were sampled: %s", refused)
        found = Samples(texts=texts, problem=f"{type(refused).__name__}: {refused}")
    store.write_compact(home.samples, store.to_json(found))
    return found


def _continued(
    session: Session, point: Point, text: str, check: Check
) -> tuple[tuple[int, ...], ...]:
    """All continuations of one text; each arm draws with seeds of its own.

    As many at once as a step can read: vLLM gives each the seed of the request plus its number,
    and a CPU engine ends when it has to read a prompt with a seed in two parts.
    """
    digest = hashlib.sha256(f"{point.key}/{text}".encode()).digest()[:4]
    seed, each = int.from_bytes(digest, "big") >> 1, _at_once(session.info)
    ask = _of_completions if session.api == "completions" else _of_generate
    found: list[tuple[int, ...]] = []
    while (left := check.samples - len(found)) > 0:
        sampling = replace(
            point.sampling, n=min(each, left), max_tokens=check.tokens, seed=seed + len(found)
        )
        answers = ask(session, text, sampling)
        if len(answers) != sampling.n or any(ids is None for ids in answers):
            raise RequestError("the server gave no token ids, or not as many answers as asked for")
        found += map(tuple, answers)
    return tuple(found)


def _of_completions(session: Session, text: str, sampling: Sampling) -> list[Json]:
    body: dict[str, Json] = asdict(sampling)
    del body["name"]
    body |= {"prompt": text, "return_token_ids": True}
    choices = session.endpoint.complete(body, TIMEOUT_S)["choices"]
    return [choice.get("token_ids") for choice in choices]


def _of_generate(session: Session, text: str, sampling: Sampling) -> list[Json]:
    """From TRL's own server."""
    ids = session.endpoint.tokenize({"prompt": text})
    body = body_of("generate", session.endpoint.model, [ids], sampling)
    answer = session.endpoint.complete(body, TIMEOUT_S, ROLLOUT_PATHS["generate"])
    return list(answer["completion_ids"])


def _at_once(info: Json | None) -> int:
    """Continuations of the longest text that fit into one step; ``info`` is ``/server_info``."""
    config = info.get("vllm_config", {}) if isinstance(info, dict) else {}
    scheduler = config.get("scheduler_config", {}) if isinstance(config, dict) else {}
    limit = scheduler.get("max_num_batched_tokens") if isinstance(scheduler, dict) else None
    return max(1, (limit if isinstance(limit, int) else STEP_TOKENS) // LONGEST)


def _drafted(session: Session) -> float | None:
    text = session.endpoint.metrics()
    return parse(text).drafted if text else None
