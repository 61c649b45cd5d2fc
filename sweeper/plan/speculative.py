"""One mapping for ``--speculative-config``: what is passed, and what vLLM makes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from os.path import normpath

from sweeper.errors import did_you_mean
from sweeper.plan.legacy import translate
from sweeper.plan.rules import GAMMA, KEYS, MTP_SUFFIX, RULES, SCHEDULE, Key, MethodRule
from sweeper.plan.schedule import canonical
from sweeper.plan.validity import (
    WHERE,
    is_class_path,
    key_mistakes,
    method_by_path,
    rule_mistakes,
    rule_warnings,
)
from sweeper.values import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """``passed`` is the user's mapping, key by key, under today's names; ``mapping`` is what vLLM
    resolves it to: defaults filled in, no-ops left out, so that equal settings are equal.

    With ``mistakes`` the rest is only as far as it could be understood.
    """

    passed: Mapping[str, Json]
    mapping: Mapping[str, Json]
    rule: MethodRule | None
    mistakes: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def gamma(self) -> int | None:
        """γ as vLLM takes it; ``None`` where only the checkpoint knows it."""
        found = self.mapping.get(GAMMA)
        return found if isinstance(found, int) else None

    @property
    def text(self) -> str:
        """Canonical JSON of :attr:`mapping`."""
        return json.dumps(self.mapping, sort_keys=True)


def resolve(
    speculative: Mapping[str, Json],
    *,
    target_model: str | None = None,
    tensor_parallel_size: int = 1,
    default_gamma: int | None = None,
    control: bool = False,
) -> Resolved:
    """Read ``speculative`` as vLLM would, more strictly.

    ``target_model`` drafts for methods that have their weights in it, ``tensor_parallel_size`` is
    the target's, ``default_gamma`` what the draft checkpoint says (``n_predict``), where known.
    ``control`` permits synthetic acceptance. Nothing is read from disk here.
    """
    spelled, mistakes = _underscored(speculative)
    today = translate(spelled, WHERE)
    passed, warnings = today.mapping, list(today.warnings)
    mistakes += today.mistakes
    mistakes += [text for name, value in passed.items() for text in key_mistakes(name, value)]
    method = _method(passed, mistakes, warnings)
    rule = RULES.get(method)
    if mistakes or rule is None:
        return Resolved(
            passed=passed,
            mapping=dict(passed),
            rule=rule,
            mistakes=tuple(mistakes),
            warnings=tuple(warnings),
        )
    mapping = _filled(passed, rule, target_model, tensor_parallel_size, default_gamma)
    mistakes += rule_mistakes(rule, passed, mapping, control)
    warnings += rule_warnings(rule, passed, mapping)
    return Resolved(
        passed=passed,
        mapping=mapping if mistakes else _canonical(mapping),
        rule=rule,
        mistakes=tuple(mistakes),
        warnings=tuple(warnings),
    )


def _underscored(given: Mapping[str, Json]) -> tuple[dict[str, Json], list[str]]:
    """vLLM takes ``-`` for ``_``; null leaves a key to vLLM."""
    found: dict[str, Json] = {}
    mistakes = []
    for key, value in given.items():
        name = key.replace("-", "_")
        if name in found:
            mistakes.append(f"{WHERE}.{key}: given twice in two spellings; keep one")
        elif value is not None:
            found[name] = value
    return found, mistakes


def _method(passed: Mapping[str, Json], mistakes: list[str], warnings: list[str]) -> str:
    """vLLM's name of the method; empty with a mistake where there is none."""
    method, model = passed.get("method"), passed.get("model")
    if method is None:
        return _guessed(model, mistakes)
    if not isinstance(method, str):
        return ""
    if method.endswith(MTP_SUFFIX):
        warnings.append(f"{WHERE}.method: {method} is vLLM's old name of mtp; taken as that")
        return "mtp"
    if method not in RULES:
        known = did_you_mean(method, sorted(RULES))
        mistakes.append(f"{WHERE}.method: {json.dumps(method)}: no method of vLLM{known}")
        return ""
    return method


def _guessed(model: Json, mistakes: list[str]) -> str:
    """vLLM guesses a missing method from the model; only the two sure guesses are taken."""
    if model in ("ngram", "[ngram]"):
        return "ngram"
    if isinstance(model, str) and is_class_path(model):
        return "custom_class"
    guess = ""
    if isinstance(model, str):
        by_path = method_by_path(model)
        guess = f"; vLLM would guess {by_path[1] if by_path else 'draft_model'} from {model}"
    mistakes.append(f"{WHERE}.method: missing{guess}; write one of {', '.join(sorted(RULES))}")
    return ""


def _filled(
    passed: Mapping[str, Json],
    rule: MethodRule,
    target_model: str | None,
    tensor_parallel_size: int,
    default_gamma: int | None,
) -> dict[str, Json]:
    """Every value vLLM takes for a key that was left out."""
    mapping = dict(rule.fills) | dict(passed) | {"method": rule.name}
    if "prompt_lookup_min" in rule.allows:
        low, high = passed.get("prompt_lookup_min"), passed.get("prompt_lookup_max")
        mapping["prompt_lookup_min"] = low or high or 5
        mapping["prompt_lookup_max"] = high or low or 5
    if "model" in rule.allows and target_model:
        mapping.setdefault("model", target_model)
    if rule.loads_checkpoint:
        mapping.setdefault("draft_tensor_parallel_size", tensor_parallel_size)
    gamma = mapping.get(rule.gamma_from, default_gamma) if rule.gamma_from else None
    if gamma is not None:
        mapping.setdefault(GAMMA, gamma)
    return mapping


def _canonical(mapping: Mapping[str, Json]) -> dict[str, Json]:
    """No-ops left out and values in one spelling, so that equal settings are equal."""
    found = {}
    for name, value in mapping.items():
        key, rule = KEYS[name], RULES[mapping["method"]]
        if name == "model" and name not in rule.reads:
            continue
        if name not in dict(rule.fills) and value == key.default:
            continue
        found[name] = _spelled(key, value, mapping)
    if found.get("attention_backend") == "AUTO":
        del found["attention_backend"]
    return found


def _spelled(key: Key, value: Json, mapping: Mapping[str, Json]) -> Json:
    if key.name == SCHEDULE:
        return canonical(value, mapping.get(GAMMA))
    if key.name == "attention_backend":
        return value.upper()
    if key.name == "model" and value.startswith(("/", "./", "../")):
        return normpath(value)
    return float(value) if key.kind == "number" else value
