"""Requests with the exact fields before anything is measured: are they taken, and do they work?

A server may take a field and ignore it. What can be seen from outside is written down and must be
equal in every arm of a comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from sweeper.drive.requests import CANARY_TEXT, PROBE_TEXT, Request, extra_prompts, requests_of
from sweeper.errors import RequestError
from sweeper.values import Json, Point, Prompt, RequestRecord

PROBE_TOKENS = 16
Ask = Callable[[Iterable[Request]], list[RequestRecord]]
"""Sends requests one after another and gives their records in that order."""


def canary(point: Point, like: Prompt) -> Request:
    """One request with every field of the measured ones, on a prompt made to be drafted."""
    (request,) = requests_of(extra_prompts(like, [CANARY_TEXT], "canary"), point.sampling)
    return request


def facts(point: Point, sent: Request, answer: RequestRecord, probes: Json) -> dict[str, Json]:
    """What two arms must agree on; ``None`` where it cannot be seen."""
    limit = point.sampling.max_tokens * point.sampling.n
    tokens = answer.completion_tokens or 0
    to_the_end = answer.finish_reason == "length" if point.sampling.ignore_eos else None
    return {
        "fields": ",".join(sorted(sent.body)),
        "prompt_digest": answer.prompt_digest,
        "max_tokens": "kept" if tokens <= limit else "ignored",
        "ignore_eos": {True: "kept", False: "ignored", None: None}[to_the_end],
        **probes,
    }


def probe(point: Point, like: Prompt, ask: Ask) -> dict[str, Json]:
    """Do equal seeds repeat an answer, and do other seeds change it?

    Greedy answers must not change, which one other seed shows; sampled ones must, and must come
    again with their seed. A server
    that keeps a suffix tree of earlier answers drafts otherwise the second time, so that its draws
    differ too: there it cannot be seen.

    :raises RequestError: a probe failed.
    """
    sampling = replace(point.sampling, max_tokens=min(point.sampling.max_tokens, PROBE_TOKENS), n=1)
    (prompt,) = extra_prompts(like, [PROBE_TEXT], "probe")
    (first,) = requests_of([prompt], sampling)
    seeds = (11,) if point.sampling.greedy else (11, 12, 13)
    others = [replace(first, body=first.body | {"seed": seed}) for seed in seeds]
    again = [] if point.sampling.greedy else [first]
    answers = ask([first, *again, *others])
    for answer in answers:
        if answer.error:
            raise RequestError(f"a probe of the sampling fields failed: {answer.error}")
    said = [answer.token_ids or answer.text for answer in answers]
    repeats, varies = said[0] == said[len(again)], len(set(said[len(again) :])) > 1
    return {
        "seed": None if point.warm or point.sampling.greedy else _word(repeats, "repeats"),
        "other_seeds": "change the answer" if varies else "give the same answer",
    }


def _word(holds: bool, word: str) -> str:
    return word if holds else f"never {word}"


def warnings(found: dict[str, Json], point: Point) -> list[str]:
    """Sentences on fields that this server ignores, whatever the other arms do."""
    said = [
        f"the canary shows that {name} is ignored" for name, v in found.items() if v == "ignored"
    ]
    if found.get("seed") == "never repeats":
        said.append("the same seed gave two different answers: sampling cannot be repeated here")
    varies = found.get("other_seeds") == "change the answer"
    if point.sampling.greedy and varies:
        said.append("greedy answers change with the seed: is temperature=0 ignored?")
    return said
