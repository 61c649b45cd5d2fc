"""Target and draft checkpoints against each other, from config.json and tokenizer files alone.

Works on a login node without vLLM and without network: what is neither a local folder nor in the
hub's cache is said to be unchecked.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from sweeper.plan.checkpoint import Absent, Checkpoint, context_length, find
from sweeper.plan.findings import Finding, Findings, mistake, warning
from sweeper.plan.heads import head_findings
from sweeper.plan.rules import RULES, MethodRule
from sweeper.plan.tokens import CANNOT_COUNT, difference, vocabulary
from sweeper.plan.validity import WHERE, split_mistake
from sweeper.values import Json, Point


def check_checkpoints(point: Point, longest_prompt_tokens: int | None) -> Findings:
    """Everything that the checkpoints' files say against ``point``.

    ``longest_prompt_tokens`` comes from ``prompts.count_prompt_tokens``; ``None`` where it could
    not be counted.
    """
    if point.server.kind == "external":
        return Findings()
    found = list(_findings(point, longest_prompt_tokens))
    return Findings(
        mistakes=tuple(one.text for one in found if one.fatal),
        warnings=tuple(one.text for one in found if not one.fatal),
    )


def target_folder(model: str, revision: str | None, env: Iterable[tuple[str, str]]) -> Path | None:
    """Where the target's files are on this machine, ``None`` where they are not."""
    target = find(model, revision, os.environ | dict(env))
    return None if isinstance(target, Absent) else target.folder


def environment(point: Point) -> Mapping[str, str]:
    """What decides where the server looks for checkpoints."""
    return os.environ | dict(point.server.env)


def _findings(point: Point, longest: int | None) -> Iterator[Finding]:
    spec = point.server
    target = find(spec.model, spec.revision, environment(point))
    if isinstance(target, Absent):
        yield _absent("target.model", target)
    else:
        yield from _target(target)
        yield from _too_long(point, longest, target_limit(point, target), "the target", "")
    settings = spec.resolved
    rule = RULES.get(str((settings or {}).get("method")))
    if settings is None or rule is None or not rule.loads_checkpoint:
        return
    draft = find(str(settings.get("model")), settings.get("revision"), environment(point))
    yield from _parallel(point, settings, rule)
    if isinstance(draft, Absent):
        yield _absent(f"{WHERE}.model", draft)
        return
    known = None if isinstance(target, Absent) else target
    if draft.folder != (known and known.folder):
        yield from _conditions("the draft", draft)
    yield from head_findings(rule.name, settings, draft, known)
    yield from _context(point, longest, draft, known)
    if rule.name == "draft_model" and known and not settings.get("use_heterogeneous_vocab"):
        yield from _same_tokens(known, draft)


def _absent(where: str, missing: Absent) -> Finding:
    if missing.certain:
        return mistake(f"{where}: {missing.reason}; give a checkpoint folder or a hub name")
    return warning(f"{where}: not checked: {missing.reason}")


def _target(target: Checkpoint) -> Iterator[Finding]:
    speculators = target.config.get("speculators_config")
    if speculators is not None:
        verifier = speculators.get("verifier") if isinstance(speculators, dict) else None
        named = verifier.get("name_or_path") if isinstance(verifier, dict) else None
        method = target.config.get("speculators_model_type")
        yield mistake(
            f"target.model: {target.name} is a speculators checkpoint: vLLM would serve its "
            f"verifier {named} and speculate ({method}), also for the baseline; set "
            f"target.model={named} and {WHERE}.model={target.name}"
        )
    yield from _conditions("the target", target)


def _conditions(whose: str, checkpoint: Checkpoint) -> Iterator[Finding]:
    """Not wrong, but to be known: quantised weights, weights one must ask for."""
    quantised = checkpoint.get("quantization_config", "compression_config")
    if isinstance(quantised, dict):
        how = quantised.get("quant_method", "method not named")
        yield warning(f"{whose} {checkpoint.name} is quantised ({how})")
    if checkpoint.cached and _gated(checkpoint):
        yield warning(
            f"{whose} {checkpoint.name} is gated on the hub: where this cache is not shared, the "
            f"server needs HF_TOKEN of someone who was granted access"
        )


def _gated(checkpoint: Checkpoint) -> bool:
    """Whether the model card's header asks for agreement before download."""
    try:
        card = (checkpoint.folder / "README.md").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    header = card.split("\n---", 1)[0] if card.startswith("---") else ""
    return any(line.startswith("extra_gated_") for line in header.splitlines())


def _parallel(point: Point, settings: Mapping[str, Json], rule: MethodRule) -> Iterator[Finding]:
    target = _whole(flag_of(point, "--tensor-parallel-size")) or 1
    draft = settings.get("draft_tensor_parallel_size") or target
    where = f"{WHERE}.draft_tensor_parallel_size: {draft}"
    if wrong := split_mistake(draft, target):
        yield mistake(wrong)
    elif draft != target and rule.name == "draft_model":
        yield warning(
            f"{where}: the V1 model runner refuses a draft_model that is not split like the target "
            f"({target})"
        )


def _context(
    point: Point, longest: int | None, draft: Checkpoint, target: Checkpoint | None
) -> Iterator[Finding]:
    """Past its context a draft is counted and never accepted, for the whole batch."""
    settings = point.server.resolved or {}
    made_for, asked = context_length(draft), settings.get("max_model_len")
    limit = None if target is None else target_limit(point, target)
    for whose, length in (("draft", made_for), ("target", limit)):
        if asked and length and asked > length:
            yield mistake(f"{WHERE}.max_model_len: {asked}: more than the {whose}'s {length}")
    if asked:
        shorter = min(asked, made_for or asked)
        if limit is None or shorter < limit:
            yield from _too_long(point, longest, shorter, "the draft", " (max_model_len)")
    elif made_for and (limit is None or made_for < limit):
        if settings.get("method") in ("eagle", "eagle3"):
            yield warning(
                f"{WHERE}.model: the head was made for {made_for} positions and vLLM stretches it "
                f"to the target's; look at acceptance by position past {made_for}"
            )
        else:
            yield from _too_long(point, longest, made_for, "the draft", "")


def _too_long(
    point: Point, longest: int | None, limit: int | None, whose: str, source: str
) -> Iterator[Finding]:
    if limit is None:
        return
    answer = point.sampling.max_tokens
    room = limit - (longest or 1)
    if answer <= room:
        if longest is None and whose == "the draft":
            yield warning(f"context of {whose} ({limit} tokens): not checked: {CANNOT_COUNT}")
        return
    prompt = "a prompt" if longest is None else f"the longest prompt ({longest} tokens)"
    fix = f"sampling.max_tokens={room} or shorter prompts" if room > 0 else "shorter prompts"
    lost = "drafts past it are never accepted" if whose == "the draft" else "vLLM would refuse it"
    yield mistake(
        f"sampling.max_tokens: {answer}: with {prompt} more than the context of {whose}, {limit} "
        f"tokens{source}; {lost}; use {fix}"
    )


def _same_tokens(target: Checkpoint, draft: Checkpoint) -> Iterator[Finding]:
    """Equal sizes do not prove equal tokens, and vLLM compares sizes only, at the start."""
    sizes = target.whole("vocab_size"), draft.whole("vocab_size")
    if None not in sizes and sizes[0] != sizes[1]:
        yield mistake(
            f"{WHERE}.model: vocab_size {sizes[1]} of {draft.name} differs from {sizes[0]} of "
            f"the target; use a draft of the same family and padding, or "
            f"{WHERE}.use_heterogeneous_vocab=true"
        )
    ours, theirs = vocabulary(target.folder), vocabulary(draft.folder)
    if ours is None or theirs is None:
        lacking = target if ours is None else draft
        yield warning(
            f"tokenizers of target and draft: not compared: no readable tokenizer.json in "
            f"{lacking.folder}"
        )
        return
    wrong, odd = difference(ours, theirs)
    if wrong:
        yield mistake(f"{WHERE}.model: the tokenizer of {draft.name} is another one: {wrong}")
    if odd:
        yield warning(f"tokenizers of target and draft: {odd}")


def target_limit(point: Point, target: Checkpoint) -> int | None:
    """Tokens of the context the server is to have."""
    return _whole(flag_of(point, "--max-model-len")) or context_length(target)


def flag_of(point: Point, flag: str) -> str | None:
    """The value of a flag of the server, where it has one."""
    args = point.server.args
    return args[args.index(flag) + 1] if flag in args[:-1] else None


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None
