"""Engine settings of a rollout server: what is set arrives unchanged, or is refused by name."""

from __future__ import annotations

import copy
import json
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, fields
from typing import Any, Self

from sweeper.errors import ConfigError
from sweeper.plan.arguments import flag_of, tokens
from sweeper.plan.checkpoint import Absent, drafted_by_default, find
from sweeper.plan.legacy import RENAMED, is_old_flag, translate
from sweeper.plan.rules import GAMMA, MAX_GAMMA
from sweeper.plan.speculative import Resolved, resolve
from sweeper.plan.validity import WHERE, split_mistake
from sweeper.values import Json

SPECULATIVE = "speculative_config"
_SHORTHAND = {"spec_method": "method", "spec_model": "model", "spec_tokens": GAMMA}
"""Flags of today that vLLM would merge into the speculative config; here there is one way."""
_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class VLLMServerConfig:
    """Engine settings by vLLM's names; what is ``None`` is left to vLLM and not passed.

    ``speculative_config`` is vLLM's mapping, or its JSON text, under the keys of today or of
    earlier versions; ``None`` is no speculation. ``engine_args`` are any other engine arguments.
    The ``speculative_*`` arguments and ``num_speculative_tokens`` are flags of earlier versions:
    they become keys of ``speculative_config`` with a :class:`DeprecationWarning`, and so do others
    of their kind among ``engine_args``.

    :raises ConfigError: a key is given twice, was never known, or is gone from vLLM; all at once.
    """

    model: str
    tensor_parallel_size: int | None = None
    gpu_memory_utilization: float | None = None
    dtype: str | None = None
    max_model_len: int | str | None = None
    speculative_config: Mapping[str, Json] | str | None = None
    engine_args: Mapping[str, Any] = field(default_factory=dict)
    speculative_method: InitVar[str | None] = None
    speculative_model: InitVar[str | None] = None
    num_speculative_tokens: InitVar[int | None] = None
    speculative_draft_tensor_parallel_size: InitVar[int | None] = None

    def __post_init__(
        self,
        speculative_method: str | None,
        speculative_model: str | None,
        num_speculative_tokens: int | None,
        speculative_draft_tensor_parallel_size: int | None,
    ) -> None:
        flags = {
            "speculative_method": speculative_method,
            "speculative_model": speculative_model,
            GAMMA: num_speculative_tokens,
            "speculative_draft_tensor_parallel_size": speculative_draft_tensor_parallel_size,
        }
        mistakes: list[str] = []
        engine = _named(self.engine_args, mistakes)
        flags |= {name: engine.pop(name) for name in list(engine) if is_old_flag(name)}
        mistakes += _misplaced(engine)
        config = _today(self.speculative_config, _set(flags), mistakes)
        if mistakes:
            raise ConfigError("\n".join(mistakes))
        object.__setattr__(self, "engine_args", copy.deepcopy(engine))
        object.__setattr__(self, SPECULATIVE, copy.deepcopy(config))

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any]) -> Self:
        """From flat settings, old names included, as in a trainer's yaml or from
        :meth:`to_vllm_kwargs`; ``max-model-len`` and ``--max-model-len`` are ``max_model_len``."""
        mistakes: list[str] = []
        named = _named(settings, mistakes)
        if named.get("model") is None:
            mistakes.append("model: missing")
        if mistakes:
            raise ConfigError("\n".join(mistakes))
        own = {name: named.pop(name) for name in _FIELDS if name in named}
        return cls(**own, engine_args=named)

    def to_vllm_kwargs(self) -> dict[str, Any]:
        """For ``vllm.LLM(**kwargs)`` and ``AsyncEngineArgs(**kwargs)``; the caller's to change.

        :raises ConfigError: as :func:`validate_speculative`.
        """
        validate_speculative(self)
        own = {name: getattr(self, name) for name in _FIELDS}
        return _set(copy.deepcopy(own | dict(self.engine_args)))

    def to_cli(self, command: Sequence[str] = ("vllm", "serve")) -> list[str]:
        """The argv of a server, for a process that is started without a shell. vLLM's CPU build has
        no working ``vllm``: ``command=(sys.executable, "-m", "vllm.entrypoints.openai.api_server",
        "--model")``; the model is the word after it.

        :raises ConfigError: as :func:`validate_speculative`, and for values that have no form on a
            command line.
        """
        flags = self.to_vllm_kwargs()
        mistakes = [text for name, value in flags.items() for text in _unsayable(name, value)]
        if mistakes:
            raise ConfigError("\n".join(mistakes))
        argv, _ = tokens({k: v for k, v in flags.items() if k != "model"}, "engine_args", {})
        return [*command, self.model, *argv]


_FIELDS = tuple(f.name for f in fields(VLLMServerConfig) if f.name != "engine_args")


def validate_speculative(config: VLLMServerConfig) -> None:
    """Would vLLM speculate exactly as asked? Without speculation there is nothing to ask.

    A draft is there for methods that need one, draft tokens are 1 to 16, every key is read by the
    method, the draft is split like the target or not at all.

    :raises ConfigError: every mistake, one a line.
    """
    asked = config.speculative_config
    if not isinstance(asked, Mapping):
        return
    size = config.tensor_parallel_size or 1
    resolved = resolve(asked, target_model=config.model, tensor_parallel_size=size)
    mistakes = list(resolved.mistakes)
    if not mistakes:
        mistakes = [*_draft_mistakes(resolved, size), *_gamma_mistakes(resolved)]
    if mistakes:
        raise ConfigError("\n".join(map(_in_vllms_names, mistakes)))


def _draft_mistakes(resolved: Resolved, target_size: int) -> Iterator[str]:
    rule, draft = resolved.rule, resolved.mapping.get("model")
    if rule is None or not rule.loads_checkpoint:
        return
    found = _draft(resolved)
    if isinstance(found, Absent) and found.certain:
        yield f"{WHERE}.model: {found.reason}"
    if draft is not None:
        size = resolved.mapping.get("draft_tensor_parallel_size")
        if wrong := split_mistake(size, target_size):
            yield wrong


def _gamma_mistakes(resolved: Resolved) -> Iterator[str]:
    """A number that vLLM takes from the checkpoint is the checkpoint's own, however large."""
    gamma = resolved.gamma
    if gamma is None:
        found = _draft(resolved)
        if isinstance(found, Absent) or drafted_by_default(found) is None:
            yield f"{WHERE}.{GAMMA}: left out, and the draft does not say it here; set it"
    elif GAMMA in resolved.passed and not 1 <= gamma <= MAX_GAMMA:
        yield f"{WHERE}.{GAMMA}: {gamma}: between 1 and {MAX_GAMMA}; null for no speculation"


def _draft(resolved: Resolved) -> Any:
    revision = resolved.mapping.get("revision")
    return find(str(resolved.mapping.get("model")), revision, os.environ)


def _in_vllms_names(sentence: str) -> str:
    """The rules speak of a sweep's settings; here settings have vLLM's own names."""
    text = re.sub(r"target\.drafts\.\w+=PATH or ", "", sentence)
    text = text.replace(WHERE, SPECULATIVE).replace("; set gamma", "; set it")
    text = text.replace("; a sweep over it would compare equal points", "; remove it")
    return text.replace("method.schedule", f"{SPECULATIVE}.{GAMMA}_per_batch_size")


def _named(settings: Mapping[str, Any], mistakes: list[str]) -> dict[str, Any]:
    """By vLLM's field names; ``None`` is left out."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        name = flag_of(str(key)).replace("-", "_")
        if not _NAME.fullmatch(name):
            mistakes.append(f"{key}: no name of an engine argument; such as max_model_len")
        elif name in found:
            mistakes.append(f"{key}: given twice in two spellings; keep one")
        elif value is not None:
            found[name] = value
    return found


def _misplaced(engine: Mapping[str, Any]) -> list[str]:
    """What has a field of its own, and vLLM's second way to say a part of speculative_config."""
    own = [f"engine_args.{name}: set {name} itself" for name in engine if name in _FIELDS]
    return own + [
        f"{name}: set {SPECULATIVE}.{_SHORTHAND[name]}" for name in engine if name in _SHORTHAND
    ]


def _today(given: Any, flags: Mapping[str, Any], mistakes: list[str]) -> dict[str, Json] | None:
    """The speculative config under the names of today, flags of earlier versions taken in."""
    if given is None and not flags:
        return None
    inner = _set(_as_mapping(given, mistakes))
    mistakes += [f"{k}: given in {SPECULATIVE} too; keep one" for k in flags if k in inner]
    translated = translate(inner | dict(flags), SPECULATIVE)
    mistakes += map(_in_vllms_names, translated.mistakes)
    if _means_a_draft_model(flags, translated.mapping):
        translated.mapping["method"] = "draft_model"
        text = f"speculative_model without a method: taken as {SPECULATIVE}.method=draft_model"
        warnings.warn(text, DeprecationWarning, stacklevel=_levels_to_the_caller())
    for name in (*flags, *(k for k in inner if k in RENAMED)):
        now = RENAMED.get(name, name)
        if now in translated.mapping:
            text = f"{name} is vLLM's old name of {SPECULATIVE}.{now}; taken as that"
            warnings.warn(text, DeprecationWarning, stacklevel=_levels_to_the_caller())
    return translated.mapping


def _means_a_draft_model(flags: Mapping[str, Any], mapping: Mapping[str, Json]) -> bool:
    """The old flag alone named a smaller model; what it spelled in brackets is a method."""
    named = flags.get("speculative_model")
    return isinstance(named, str) and not named.startswith("[") and not mapping.get("method")


def _levels_to_the_caller() -> int:
    """As ``stacklevel`` counts from :func:`_today`, so that the user's own line is shown."""
    level, frame = 0, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals is globals():
        level, frame = level + 1, frame.f_back
    return level + 1


def _as_mapping(given: Any, mistakes: list[str]) -> Mapping[str, Json]:
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError as problem:
            mistakes.append(f"{SPECULATIVE}: not JSON: {problem}")
            return {}
    if given is None or (isinstance(given, Mapping) and given):
        return given or {}
    mistakes.append(f"{SPECULATIVE}: {given!r}: a mapping with method, or null for no speculation")
    return {}


def _set(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


def _unsayable(name: str, value: Any) -> Iterator[str]:
    """Why a value would not come out of vLLM's parser as it went in."""
    try:
        same = json.loads(json.dumps(value, allow_nan=False)) == value
    except (TypeError, ValueError):
        same = False
    if not same:
        yield f"{name}: {value!r}: has no form on a command line; use to_vllm_kwargs()"
    elif value == [] or (isinstance(value, list) and any(_flag_like(v) for v in value)):
        yield f"{name}: {value!r}: a command line cannot say this list; use to_vllm_kwargs()"


def _flag_like(value: Json) -> bool:
    return value in (None, "") or str(value).startswith("-") or isinstance(value, bool)
