"""A model that chooses between two answers, asked in both orders so that its habit cancels out."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

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


UNREADABLE_SHARE = 0.05
"""Share of replies that are no A, B or C above which the judge has not judged. Up to it the pairs
concerned are left out."""
REPLY = re.compile(
    r"\W*(?:answer\W+)?([ABC])(?:\s*$|[^\w ]| (?:is|because|since|as)\b)", re.IGNORECASE
)
"""One letter at the start, bare or dressed up: ``B``, ``**B**``, ``Answer: B``, ``B, because``; not
the article of a sentence."""
log = logging.getLogger(__name__)


def preferences(
    prompts: Sequence[Prompt],
    baseline: Sequence[RequestRecord],
    candidate: Sequence[RequestRecord],
    grader: Grader,
) -> tuple[Preference, ...]:
    """What the model prefers, prompt by prompt; equal answers are not shown to it.

    :raises ServerError: when it does not answer, or does not say A, B or C.
    """
    ours, theirs = _first(candidate), _first(baseline)
    key = os.environ.get(grader.api_key_env, "") if grader.api_key_env else ""
    url = (grader.base_url or "").rstrip("/").removesuffix("/v1")
    with Endpoint(url, key, grader.model or "") as endpoint:
        try:
            if not grader.model:
                endpoint.model = str(endpoint.models()[0]["id"])
            judge = _Judge(endpoint)
            found = [
                (p.id, judge.better(p, theirs[p.id], ours[p.id]))
                for p in prompts
                if p.id in ours and p.id in theirs
            ]
        except (RequestError, LookupError, TypeError) as problem:
            raise ServerError(f"judge_model: {url}: {problem}") from None
    judge.check()
    return tuple(
        Preference(prompt_id=p, better=better) for p, better in found if better is not None
    )


def _first(records: Sequence[RequestRecord]) -> dict[str, str]:
    """Answers to first turns, which are what is shown of a prompt."""
    return {r.prompt_id: r.text for r in records if not (r.error or r.repeat or r.turn)}


@dataclass(slots=True)
class _Judge:
    """The model, how often it was asked, and the replies that were no A, B or C."""

    endpoint: Endpoint
    asked: int = 0
    unreadable: list[str] = field(default_factory=list)

    def better(self, prompt: Prompt, baseline: str, candidate: str) -> float | None:
        """1, 0 or 0.5; a model that always likes the first answer says 0.5. ``None`` where a reply
        is no choice."""
        if baseline == candidate:
            return 0.5
        first = self.choice(prompt, candidate, baseline)
        second = self.choice(prompt, baseline, candidate)
        if first is None or second is None:
            return None
        return first if first == 1 - second else 0.5

    def choice(self, prompt: Prompt, a: str, b: str) -> float | None:
        """1 for A, 0 for B, 0.5 for C, ``None`` for anything else."""
        text = QUESTION.format(request=prompt.asked, a=a, b=b)
        body = {
            "messages": [{"role": "user", "content": text}],
            "max_tokens": 8,
            "temperature": 0.0,
        }
        answer = self.endpoint.complete(body, TIMEOUT_S, "/v1/chat/completions")
        said = str(answer["choices"][0]["message"]["content"] or "")
        self.asked += 1
        if (found := REPLY.match(said)) is None:
            self.unreadable.append(" ".join(said.split()))
            return None
        return {"A": 1.0, "B": 0.0, "C": 0.5}[found[1].upper()]

    def check(self) -> None:
        """Say what could not be read; too much of it is no judgement."""
        if not self.unreadable:
            return
        why = f"the judge's reply is no A, B or C in {len(self.unreadable)} of {self.asked}"
        if len(self.unreadable) > UNREADABLE_SHARE * self.asked:
            raise ServerError(f'{why}, first: "{self.unreadable[0]}"')
        log.warning("judge_model: %s; these pairs are left out", why)
