"""Prompts against their target: its context, and what its chat template makes of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sweeper.plan.chat import ChatFlags
from sweeper.plan.checkpoint import Absent, Checkpoint, find
from sweeper.plan.checkpoints import environment, flag_of, target_limit
from sweeper.plan.findings import Findings
from sweeper.plan.tokens import beyond, count_tokens, refusals, unshown
from sweeper.values import Point, Prompt

OWN_RENDERING = ("GptOss", "DeepseekV32", "DeepseekV4", "KimiK3", "Inkling")
"""How the architectures begin for which vLLM 0.32 has code in place of a template."""
MISTRAL = ("tekken.json", "tokenizer.model.v*")
"""Files with which vLLM renders by Mistral's own library."""


def count_prompt_tokens(point: Point, prompts: Sequence[Prompt]) -> int | None:
    """Tokens of the longest prompt by the target's tokenizer; ``None`` where that is not here."""
    target = _target(point)
    if target is None:
        return None
    return count_tokens(target.folder, prompts, point.sampling.max_tokens, _flags(point, target))


def check_prompts(point: Point, prompts: Sequence[Prompt]) -> Findings:
    """``FILE:LINE: ...`` for every prompt that the target's chat template refuses, or that leaves
    no room for its answer in the target's context; and what the template does not show.

    Empty where prompts cannot be rendered or counted here.
    """
    target = _target(point)
    if target is None:
        return Findings()
    flags = _flags(point, target)
    return Findings(
        mistakes=(
            *_refused(point, target, flags, prompts),
            *_too_long(point, target, flags, prompts),
        ),
        warnings=tuple(
            f"the target's chat template does not show {what}: the model reads {count} of "
            f"{len(prompts)} prompts without theirs"
            for what, count in unshown(target.folder, prompts, flags)
        ),
    )


def _target(point: Point) -> Checkpoint | None:
    found = find(point.server.model, point.server.revision, environment(point))
    return None if isinstance(found, Absent) else found


def _flags(point: Point, target: Checkpoint) -> ChatFlags:
    return ChatFlags(
        template=flag_of(point, "--chat-template"),
        contents=flag_of(point, "--chat-template-content-format") or "auto",
        kwargs=flag_of(point, "--default-chat-template-kwargs") or "{}",
        other=bool(
            flag_of(point, "--tokenizer")
            or flag_of(point, "--tokenizer-mode") not in (None, "auto", "hf")
            or any(name.startswith(OWN_RENDERING) for name in target.architectures)
            or any(file for name in MISTRAL for file in target.folder.glob(name))
        ),
    )


def _refused(
    point: Point, target: Checkpoint, flags: ChatFlags, prompts: Sequence[Prompt]
) -> Iterator[str]:
    for prompt, reason in refusals(target.folder, prompts, flags):
        yield (
            f"{_place(point, prompt)}: the target's chat template refuses the messages: {reason}; "
            "change them, or give a template that takes them with +server.args.chat_template=FILE"
        )


def _too_long(
    point: Point, target: Checkpoint, flags: ChatFlags, prompts: Sequence[Prompt]
) -> Iterator[str]:
    limit, answer = target_limit(point, target), point.sampling.max_tokens
    if limit is None:
        return
    for prompt, tokens in beyond(target.folder, prompts, limit - answer, answer, flags):
        yield (
            f"{_place(point, prompt)}: {tokens} tokens and an answer of {answer} are more than the "
            f"target's context of {limit}; shorten the prompt or sampling.max_tokens"
        )


def _place(point: Point, prompt: Prompt) -> str:
    path = point.dataset.path
    return f"{path}:{prompt.line}" if prompt.line else f"{path}: prompt {prompt.id}"
