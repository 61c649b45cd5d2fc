"""Engine settings as hypothesis draws them, and how a command line and a refusal are read."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st

from sweeper.errors import ConfigError
from sweeper.plan.legacy import RENAMED, is_old_flag
from sweeper.rollout import VLLMServerConfig


def given(**strategies: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Any]:
    """Hypothesis's, with fewer examples and no clock: machines that test are shared."""
    calm = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    return lambda test: calm(hypothesis_given(**strategies)(test))


FIELDS = {"model", "tensor_parallel_size", "gpu_memory_utilization", "dtype", "max_model_len"}
SHORTHAND = {"spec_method", "spec_model", "spec_tokens"}

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
numbers = st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False)
scalars = texts | numbers | st.booleans()
values = (
    scalars
    | st.lists(texts | numbers, max_size=3)
    | st.dictionaries(texts, scalars, min_size=1, max_size=3)
)
words = st.text("abcxyz019", min_size=1, max_size=6)
names = (
    st.lists(words, min_size=1, max_size=3)
    .map(lambda parts: "k" + "_".join(parts))
    .filter(lambda name: name not in FIELDS | SHORTHAND and not is_old_flag(name))
)
engine_args = st.dictionaries(names, values, max_size=5)
gammas = st.integers(1, 16)
lookups = st.fixed_dictionaries(
    {"method": st.just("ngram"), "num_speculative_tokens": gammas},
    optional={"prompt_lookup_min": st.integers(1, 3), "prompt_lookup_max": st.integers(4, 8)},
)
suffixes = st.fixed_dictionaries(
    {"method": st.just("suffix"), "num_speculative_tokens": gammas},
    optional={
        "suffix_decoding_max_tree_depth": st.integers(16, 64),
        "suffix_decoding_max_cached_requests": st.integers(0, 100),
        "suffix_decoding_min_token_prob": st.floats(0, 1),
    },
)
drafts = st.fixed_dictionaries(
    {
        "method": st.sampled_from(["eagle3", "eagle", "draft_model"]),
        "model": st.just("org/some-head"),
        "num_speculative_tokens": gammas,
    },
    optional={"draft_tensor_parallel_size": st.just(1), "max_model_len": st.integers(1, 10**6)},
)
speculation = lookups | suffixes | drafts
anything = st.dictionaries(
    names
    | st.sampled_from(sorted(RENAMED))
    | st.sampled_from(
        ["num_speculative_tokens", "speculative_config", "spec_tokens", "acceptance_method",
         "num_lookahead_slots", "max-num-seqs", "--max_num_seqs", "max num seqs"]
    ),
    values | gammas | st.none() | st.sampled_from(["ngram", "eagle3", "org/head"]),
    min_size=1,
    max_size=5,
)  # fmt: skip
"""Any mapping that a trainer's yaml may hold: right, old, gone, misspelt, valued as it happens."""


def flags_of(argv: Sequence[str]) -> dict[str, Any]:
    """What a parser of vLLM's kind makes of the argv: one value, several, or a switch."""
    found: dict[str, Any] = {}
    name = ""
    for token in argv:
        flag = re.fullmatch(r"--(no-)?([a-z0-9-]+)(?:=(.*))?", token, flags=re.DOTALL)
        if flag:
            name = flag[2].replace("-", "_")
            assert name not in found, f"{name} is there twice"
            found[name] = flag[3] if flag[3] is not None else not flag[1]
        elif isinstance(found[name], bool):
            found[name] = token
        else:
            found[name] = [
                *(found[name] if isinstance(found[name], list) else [found[name]]),
                token,
            ]
    return found


def as_text(value: Any) -> Any:
    """How a value looks on a command line."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, list) and len(value) > 1:
        return [str(item) for item in value]
    if isinstance(value, list):
        return str(value[0])
    return json.dumps(value, sort_keys=True) if isinstance(value, dict) else str(value)


def refusal(**settings: Any) -> list[str]:
    """The sentences with which the settings are refused, wherever that happens first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with pytest.raises(ConfigError) as caught:
            VLLMServerConfig.from_mapping({"model": "m", **settings}).to_vllm_kwargs()
    return str(caught.value).splitlines()


def quietly(settings: Mapping[str, Any]) -> VLLMServerConfig:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return VLLMServerConfig.from_mapping(settings)
