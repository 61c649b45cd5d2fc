"""The body of every request: prompt and sampling, each field said explicitly."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count, islice
from typing import TypeVar

from sweeper.errors import RequestError
from sweeper.values import Json, Load, Message, Prompt, RequestRecord, Sampling

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request to send: ``body`` lacks only the model's name.

    ``follow_ups`` are the user's turns still to come and ``seed`` that of the sampling.
    """

    prompt_id: str
    category: str | None
    repeat: int
    turn: int
    path: str
    body: dict[str, Json]
    follow_ups: tuple[str, ...] = ()
    seed: int = 0

    def after(self, answer: RequestRecord) -> Request | None:
        """The next turn, with this answer before it; ``None`` after the last or a failed one."""
        if not self.follow_ups or answer.error:
            return None
        said = {"role": "assistant", "content": answer.text}
        asked = {"role": "user", "content": self.follow_ups[0]}
        drawn = _seed(self.seed, self.prompt_id, self.repeat, self.turn + 1)
        more = {"messages": [*self.body["messages"], said, asked], "seed": drawn}
        return replace(
            self, turn=self.turn + 1, body=self.body | more, follow_ups=self.follow_ups[1:]
        )


def asked_for(
    prompts: Sequence[Prompt], sampling: Sampling, repeats: int, load: Load, order: str = ""
) -> Iterator[Request]:
    """What a load may send: every prompt once a repeat, or ``load.requests`` of them.

    :raises RequestError: more requests than that were asked for, and ``load.cycle`` is off.
    """
    wanted = load.requests
    if load.cycle:
        return islice(requests_of(prompts, sampling, None, order), wanted)
    if problem := too_many(len(prompts), repeats, load):
        raise RequestError(problem)
    return islice(requests_of(prompts, sampling, repeats, order), wanted)


def total_of(prompts: Sequence[Prompt], repeats: int, load: Load, order: str = "") -> int:
    """Requests that :func:`asked_for` and the turns that follow make; 0: as many as there is
    time for."""
    if load.cycle and load.requests is None:
        return 0
    taken = (
        prompt
        for repeat in (count() if load.cycle else range(repeats))
        for prompt in shuffled(prompts, order, repeat)
    )
    return sum(prompt.turns for prompt in islice(taken, load.requests))


def too_many(prompts: int, repeats: int, load: Load) -> str:
    """Why a load cannot send what it was asked for, empty when it can."""
    there, wanted = prompts * repeats, load.requests
    if load.cycle or wanted is None or wanted <= there:
        return ""
    return (
        f"load.requests={wanted}, but there are {there} ({prompts} prompts, "
        f"repeats={repeats}); ask for fewer, or set load.cycle=true to send prompts again"
    )


def requests_of(
    prompts: Iterable[Prompt], sampling: Sampling, repeats: int | None = 1, order: str = ""
) -> Iterator[Request]:
    """Every prompt of the first repeat, then of the second, and so on.

    ``order`` shuffles each repeat in its own way; empty, prompts stay as they are. ``repeats`` of
    ``None`` never ends. Method and γ have no part in it: every arm gets the same
    bytes in the same order.
    """
    listed = tuple(prompts)
    for repeat in count() if repeats is None else range(repeats):
        for prompt in shuffled(listed, order, repeat):
            yield Request(
                prompt_id=prompt.id,
                category=prompt.category,
                repeat=repeat,
                turn=0,
                path=CHAT if prompt.messages is not None else COMPLETIONS,
                body=body_of(prompt, sampling, repeat),
                follow_ups=prompt.follow_ups,
                seed=sampling.seed,
            )


def shuffled(items: Sequence[T], order: str, repeat: int) -> Sequence[T]:
    """Prompts, or batches of them, in the order of this repeat; ``order`` and ``repeat`` determine
    it."""
    if not order:
        return items
    return random.Random(f"{order}/{repeat}").sample(items, k=len(items))


def body_of(prompt: Prompt, sampling: Sampling, repeat: int = 0) -> dict[str, Json]:
    """What vLLM gets. The seed is drawn from prompt and repeat, so that it is the same in every
    arm and differs between repeats."""
    fields = asdict(sampling)
    del fields["name"]
    fields["seed"] = _seed(sampling.seed, prompt.id, repeat)
    return prompt_fields(prompt) | fields | {"stream": False, "return_token_ids": True}


def prompt_fields(prompt: Prompt) -> dict[str, Json]:
    """What the answer is to; tools are shown to the model and its answer is left as it is."""
    if prompt.messages is None:
        return {"prompt": prompt.text if prompt.token_ids is None else list(prompt.token_ids)}
    found: dict[str, Json] = {"messages": [message.sent for message in prompt.messages]}
    if prompt.tools:
        found |= {"tools": json.loads(prompt.tools), "tool_choice": "none"}
    if prompt.template_kwargs:
        found["chat_template_kwargs"] = json.loads(prompt.template_kwargs)
    return found


def _seed(seed: int, prompt_id: str, repeat: int, turn: int = 0) -> int:
    drawn_from = f"{seed}/{prompt_id}/{repeat}" + (f"/{turn}" if turn else "")
    digest = hashlib.sha256(drawn_from.encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


WARMUP_TEXTS = (
    "Name three things one can see from a train window in autumn.",
    "Write a short note to a neighbour about a parcel left at the door.",
    "Explain in two sentences how a zip fastener works.",
    "List the steps for folding a paper boat.",
    "What is a good way to remember the order of the planets?",
    "Write a line of Python that counts the vowels in a word.",
    "Describe the smell of rain on warm stone.",
    "Give two reasons to label the shelves of a workshop.",
)
"""Sent before measuring; none of them is in a shipped dataset."""

CANARY_TEXT = "Repeat: a b c d e f g h i j a b c d e f g h i j a b c d e f g h i j a b c d e f g h"
"""Made to be drafted: any lookup finds the next words in the prompt, and even a small model
goes on with them."""


PROBE_TEXT = "Write the first two sentences of a story about a lighthouse keeper and a stray dog."
"""Open enough that other random numbers give another answer."""


def unused(texts: Sequence[str], prompts: Iterable[Prompt]) -> list[str]:
    """Those of ``texts`` that no prompt contains."""
    said = [p.text or "" for p in prompts]
    said += [m.content for p in prompts for m in p.messages or ()]
    return [text for text in texts if not any(text in one for one in said)]


def extra_prompts(like: Prompt, texts: Iterable[str], kind: str) -> tuple[Prompt, ...]:
    """Prompts of the same shape as ``like`` (chat or plain, tools) with other words."""
    chat = like.messages is not None
    return tuple(
        Prompt(
            tools=like.tools,
            template_kwargs=like.template_kwargs,
            id=f"{kind}-{number}",
            messages=(Message(role="user", content=text),) if chat else None,
            text=None if chat else text,
        )
        for number, text in enumerate(texts)
    )
