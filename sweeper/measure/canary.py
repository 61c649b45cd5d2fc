"""Requests with the exact fields before anything is measured: are they taken, and do they work?

A server may take a field and ignore it. What can be seen from outside is written down and must be
equal in every arm of a comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sweeper.drive.requests import CANARY_TEXT, PROBE_TEXT, Request, extra_prompts, requests_of
from sweeper.errors import RequestError, ServerError
from sweeper.measure.counters import Counters
from sweeper.values import Json, Point, Prompt, RequestRecord, Sampling

PROBE_TOKENS, PENALISED_TOKENS = 16, 64
"""A penalty needs words that would come again."""
CUTS = {"top_p": (1.0, 1e-6), "top_k": (0, 1), "min_p": (0.0, 1.0)}
"""Neutral, and so narrow that only the most likely token is left."""
PENALTIES = {"presence_penalty": (0.0, -2.0, 2.0), "frequency_penalty": (0.0, -2.0, 2.0),
             "repetition_penalty": (1.0, 0.5, 10.0)}  # fmt: skip
"""Neutral, and as far for repeating and against it as vLLM permits."""
PENALISED_TEXT = "Write the word hello twenty times."
"""Its answer repeats itself, and so depends on every penalty."""
Ask = Callable[[Sequence[Request]], list[RequestRecord]]
"""Sends requests one after another and gives their records in that order."""


def canary(point: Point, like: Prompt) -> Request:
    """One request with every field of the measured ones, on a prompt made to be drafted."""
    (request,) = requests_of(extra_prompts(like, [CANARY_TEXT], "canary"), point.sampling)
    return request


def facts(
    point: Point, body: Mapping[str, Json], answer: RequestRecord, probes: Json
) -> dict[str, Json]:
    """What two arms must agree on, of the canary's ``body`` and answer; ``None`` where it cannot be
    seen."""
    limit = point.sampling.max_tokens * point.sampling.n
    tokens = answer.completion_tokens or 0
    told = point.sampling.ignore_eos and answer.finish_reason
    to_the_end = answer.finish_reason == "length" if told else None
    return {
        "fields": ",".join(sorted(body)),
        "prompt_digest": answer.prompt_digest,
        "max_tokens": "kept" if tokens <= limit else "ignored",
        "ignore_eos": {True: "kept", False: "ignored", None: None}[to_the_end],
        **probes,
    }


def draft_warnings(point: Point, drafted: float | None, after: Counters | None) -> list[str]:
    """Whether drafts were made for the canary; ``after`` are the server's counters since.

    :raises ServerError: the server speculates where it must not, or does not know that it should.
    """
    if point.is_baseline:
        if drafted:
            raise ServerError("the baseline server speculates: its counters moved on the canary")
        return []
    if after and after.completion_tokens and after.verify_steps is None:
        raise ServerError("speculation was asked for, but the server counts none in its /metrics")
    if drafted is None:
        return ["whether drafts are made is unknown: the server reports no speculation counts"]
    return [] if drafted else ["the canary drew no draft from this server"]


def probe(point: Point, like: Prompt, ask: Ask) -> dict[str, Json]:
    """Do equal seeds repeat an answer, do other seeds change it, and is every cut-off and penalty
    that the point sets in force?

    Greedy answers must not change, which one other seed shows; sampled ones must, and must come
    again with their seed. A server that keeps a suffix tree of earlier answers drafts otherwise the
    second time, so that its draws differ too: there seeds and cut-offs cannot be seen.

    :raises RequestError: a probe failed.
    """
    sampling = replace(point.sampling, max_tokens=min(point.sampling.max_tokens, PROBE_TOKENS), n=1)
    (prompt,) = extra_prompts(like, [PROBE_TEXT], "probe")
    (first,) = requests_of([prompt], sampling)
    seeds = (11,) if point.sampling.greedy else (11, 12, 13)
    others = [replace(first, body=first.body | {"seed": seed}) for seed in seeds]
    again = [] if point.sampling.greedy else [first]
    said = _said(ask, [first, *again, *others])
    repeats, varies = said[0] == said[len(again)], len(set(said[len(again) :])) > 1
    return {
        "seed": None if point.warm or point.sampling.greedy else _word(repeats, "repeats"),
        "other_seeds": "change the answer" if varies else "give the same answer",
        **({} if point.sampling.greedy or point.warm else _cuts(first, ask)),
        **_penalties(first.body, like, sampling, ask),
    }


def _said(ask: Ask, requests: Sequence[Request]) -> list[tuple[int, ...] | str]:
    answers = ask(requests)
    for answer in answers:
        if answer.error:
            raise RequestError(f"a probe of the sampling fields failed: {answer.error}")
    return [answer.token_ids or answer.text for answer in answers]


def _cuts(first: Request, ask: Ask) -> dict[str, Json]:
    """Is each cut-off that the point sets obeyed? At its narrowest, no seed changes anything."""
    neutral = {name: at for name, (at, _) in CUTS.items()}
    found: dict[str, Json] = {}
    for name, (at, narrowest) in CUTS.items():
        if first.body.get(name) not in (None, at):
            # top_k alone ends the engine of vLLM's CPU build, which a sampling with both does not.
            kept = {"top_p": first.body["top_p"]} if name == "top_k" else {}
            hot = first.body | neutral | kept | {"temperature": 2.0, name: narrowest}
            one, other = _said(ask, [replace(first, body=hot | {"seed": n}) for n in (11, 12)])
            found[name] = "kept" if one == other else "ignored"
    return found


def _penalties(body: Json, like: Prompt, sampling: Sampling, ask: Ask) -> dict[str, Json]:
    """Does each penalty that the point sets do anything to a greedy answer that repeats itself?"""
    names = [name for name, (at, _, _) in PENALTIES.items() if body.get(name) not in (None, at)]
    if not names:
        return {}
    (prompt,) = extra_prompts(like, [PENALISED_TEXT], "probe")
    (sent,) = requests_of([prompt], replace(sampling, max_tokens=PENALISED_TOKENS))
    neutral = {name: at for name, (at, _, _) in PENALTIES.items()}
    plain = sent.body | neutral | {"temperature": 0.0}
    bodies = [plain | {name: far} for name in names for far in PENALTIES[name][1:]]
    said = _said(ask, [replace(sent, body=one) for one in bodies])
    pairs = zip(said[::2], said[1::2], strict=True)
    return {
        name: "in force" if one != other else "without effect"
        for name, (one, other) in zip(names, pairs, strict=True)
    }


def _word(holds: bool, word: str) -> str:
    return word if holds else f"never {word}"


def warnings(found: dict[str, Json], point: Point) -> list[str]:
    """Sentences on fields that this server ignores, whatever the other arms do."""
    said = [
        f"the canary shows that {name} is ignored" for name, v in found.items() if v == "ignored"
    ]
    said += [
        f"the canary shows no effect of {name}, however strong"
        for name in PENALTIES if found.get(name) == "without effect"
    ]  # fmt: skip
    if found.get("seed") == "never repeats":
        said.append("the same seed gave two different answers: sampling cannot be repeated here")
    varies = found.get("other_seeds") == "change the answer"
    if point.sampling.greedy and varies:
        said.append("greedy answers change with the seed: is temperature=0 ignored?")
    return said
