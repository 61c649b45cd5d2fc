"""What is wrong with a mapping for ``--speculative-config``, one sentence each."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sweeper.errors import did_you_mean
from sweeper.plan.rules import (
    GAMMA,
    KEEPS_ITS_NAME,
    KEYS,
    NOT_YOURS,
    PATH_RULES,
    SCHEDULE,
    V1_ONLY,
    Key,
    MethodRule,
)
from sweeper.plan.schedule import schedule_mistakes
from sweeper.values import Json

WHERE = "method.speculative"

_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "whole": ((int,), "a whole number"),
    "number": ((int, float), "a number"),
    "bool": ((bool,), "true or false"),
    "text": ((str,), "text"),
    "list": ((list,), "a list"),
    "mapping": ((dict,), "a mapping"),
}


def key_mistakes(name: str, value: Json) -> list[str]:
    """What is wrong with one key whatever the method."""
    if name in NOT_YOURS:
        return [f"{WHERE}.{name}: not yours to set: {NOT_YOURS[name]}"]
    key = KEYS.get(name)
    if key is None:
        return [f"{WHERE}.{name}: unknown key{did_you_mean(name, sorted(KEYS))}"]
    if name == SCHEDULE:
        return schedule_mistakes(value, "method.schedule")
    wrong = _value_mistake(key, value)
    return [f"{WHERE}.{name}: {json.dumps(value)}: {wrong}"] if wrong else []


def _value_mistake(key: Key, value: Json) -> str:
    types, words = _KINDS[key.kind]
    if type(value) not in types:  # exactly: True is an int to isinstance
        return words
    if key.choices and value not in key.choices:
        return f"one of {', '.join(key.choices)}"
    if key.at_least is not None and value < key.at_least:
        return f"at least {key.at_least:g}"
    if key.at_most is not None and value > key.at_most:
        return f"at most {key.at_most:g}"
    return ""


def rule_mistakes(
    rule: MethodRule,
    passed: Mapping[str, Json],
    mapping: Mapping[str, Json],
    control: bool = False,
) -> list[str]:
    if rule.refused:
        return [f"{WHERE}.method: {rule.name}: {rule.refused}"]
    mistakes = [_needed(rule, key) for key in sorted(rule.needs - set(mapping))]
    mistakes += [
        f"{WHERE}.{k}: {rule.name} ignores it; a sweep over it would compare equal points"
        for k in sorted(rule.ignores & set(passed))
        if not (k == "model" and str(passed[k]).strip("[]") == rule.name)
    ]
    if rule.no_schedule and SCHEDULE in passed:
        mistakes.append(f"method.schedule: {rule.name} allows none: {rule.no_schedule}")
    if GAMMA not in mapping and not rule.gamma_from:
        mistakes.append(f"{WHERE}.{GAMMA}: {rule.name} needs it; set gamma")
    mistakes += _contradictions(rule, mapping) + _synthetic(mapping, control)
    return mistakes + _renaming_path(rule, mapping)


def split_mistake(draft: Json, target: int) -> str:
    """vLLM splits a draft like its target or not at all; empty when it is one of these."""
    if draft in (1, target):
        return ""
    return (
        f"{WHERE}.draft_tensor_parallel_size: {draft}: 1 or the target's "
        f"tensor_parallel_size={target}"
    )


def _needed(rule: MethodRule, key: str) -> str:
    if rule.loads_checkpoint:
        return (
            f"{WHERE}.{key}: {rule.name} needs a draft checkpoint made for the target; set "
            f"target.drafts.{rule.name}=PATH or {WHERE}.{key}=PATH"
        )
    return f"{WHERE}.{key}: {rule.name} needs the proposer's class; set {WHERE}.{key}=pkg.Class"


def _contradictions(rule: MethodRule, m: Mapping[str, Json]) -> list[str]:
    """Values that do not go together."""
    low, high = m.get("prompt_lookup_min"), m.get("prompt_lookup_max")
    depth, gamma = m.get("suffix_decoding_max_tree_depth"), m.get(GAMMA, 0)
    other_vocab, parallel = m.get("use_heterogeneous_vocab"), m.get("parallel_drafting")
    by_chance = m.get("draft_sample_method") == "probabilistic"
    own_class = rule.name == "custom_class" and "model" in m
    rules = [
        (low and high and low > high,
         f"prompt_lookup_min: {low}: more than prompt_lookup_max={high}"),
        (depth is not None and gamma > depth,
         f"num_speculative_tokens: {gamma}: more than suffix_decoding_max_tree_depth={depth}; no "
         f"draft is longer than the tree is deep"),
        (other_vocab and by_chance,
         "draft_sample_method: probabilistic: use_heterogeneous_vocab drafts greedily only"),
        (m.get("use_local_argmax_reduction") and by_chance,
         "draft_sample_method: probabilistic: needs the logits that use_local_argmax_reduction "
         "does not make"),
        (parallel and m.get("disable_padded_drafter_batch"),
         "disable_padded_drafter_batch: true: parallel_drafting works with padded batches only"),
        (own_class and not is_class_path(str(m.get("model"))),
         f"model: {m.get('model')}: custom_class needs an import path such as pkg.Class"),
        (rule.name in V1_ONLY and m.get("rejection_sample_method") == "block",
         f"rejection_sample_method: block: {rule.name} runs on the V1 model runner, which would "
         f"verify as standard without a word"),
    ]  # fmt: skip
    return [f"{WHERE}.{text}" for wrong, text in rules if wrong]


def _synthetic(m: Mapping[str, Json], control: bool) -> list[str]:
    """Acceptance by a fixed rate is a control that has to be asked for."""
    given = [k for k in ("synthetic_acceptance_rates", "synthetic_acceptance_length") if k in m]
    if m.get("rejection_sample_method") != "synthetic":
        only = "read with rejection_sample_method=synthetic only; remove it"
        return [f"{WHERE}.{key}: {only}" for key in given]
    if not control:
        return [
            f"{WHERE}.rejection_sample_method: synthetic acceptance is not a measurement of the "
            f"model; remove it, or measure a control with control=synthetic"
        ]
    if len(given) != 1:
        return [
            f"{WHERE}.rejection_sample_method: synthetic: give one of synthetic_acceptance_rates "
            f"and synthetic_acceptance_length"
        ]
    return []


def _renaming_path(rule: MethodRule, mapping: Mapping[str, Json]) -> list[str]:
    """Whatever ``method`` says, vLLM takes another one from certain words in the draft's path."""
    model = mapping.get("model")
    if not rule.loads_checkpoint or rule.name in KEEPS_ITS_NAME or not isinstance(model, str):
        return []
    found = method_by_path(model)
    if found is None:
        return []
    word, taken = found
    return [
        f"{WHERE}.model: {model}: vLLM sees '{word}' in the path and changes the method from "
        f"{rule.name} to {taken}; give the checkpoint another name (ln -s), or set "
        f"{WHERE}.method={taken} if it is one"
    ]


def rule_warnings(
    rule: MethodRule, passed: Mapping[str, Json], mapping: Mapping[str, Json]
) -> list[str]:
    warnings = []
    if GAMMA not in passed and rule.gamma_from and GAMMA in mapping:
        warnings.append(f"γ was left out; vLLM takes {mapping[GAMMA]} from {rule.gamma_from}")
    if mapping.get("rejection_sample_method") == "block" and rule.name not in V1_ONLY:
        warnings.append(
            f"{WHERE}.rejection_sample_method: block works on the V2 model runner only; V1 (on a "
            f"CPU, without Triton, with VLLM_USE_V2_MODEL_RUNNER=0) verifies as standard"
        )
    return warnings


def method_by_path(model: str) -> tuple[str, str] | None:
    """The word in a draft's path from which vLLM takes the method, and that method."""
    return next(((word, m) for word, m in PATH_RULES if word in model.lower()), None)


def is_class_path(model: str) -> bool:
    """``pkg.module.Class``: what vLLM takes for a proposer of the user's own."""
    parts = model.split(".")
    return "/" not in model and len(parts) > 1 and all(part.isidentifier() for part in parts)
