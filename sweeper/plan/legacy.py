"""Names of earlier vLLM versions (and Arctic Inference's plug-in): today's name, or what to do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from sweeper.plan.arguments import flag_of
from sweeper.values import Json

RENAMED = {
    "speculative_model": "model",
    "speculative_method": "method",
    "speculative_draft_tensor_parallel_size": "draft_tensor_parallel_size",
    "speculative_max_model_len": "max_model_len",
    "speculative_model_quantization": "quantization",
    "ngram_prompt_lookup_max": "prompt_lookup_max",
    "ngram_prompt_lookup_min": "prompt_lookup_min",
    "suffix_cache_max_depth": "suffix_decoding_max_tree_depth",
    "suffix_cache_max_requests": "suffix_decoding_max_cached_requests",
    "suffix_max_spec_factor": "suffix_decoding_max_spec_factor",
    "suffix_min_token_prob": "suffix_decoding_min_token_prob",
}
"""Old name to the key of today that means the same."""

_BATCH = (
    "gone from vLLM; what replaced it is a schedule by batch size: "
    "method.schedule=[[1,{below},{gamma}],[{n},{n},0]] stops drafting at {n} requests"
)
_SAMPLER = (
    "gone from vLLM together with typical acceptance; the rejection sampler is the only one left "
    "(rejection_sample_method standard or block); remove it"
)
_GONE = {
    "speculative_disable_by_batch_size": _BATCH,
    "disable_by_batch_size": _BATCH,
    "spec_decoding_acceptance_method": _SAMPLER,
    "acceptance_method": _SAMPLER,
    "typical_acceptance_sampler_posterior_threshold": _SAMPLER,
    "typical_acceptance_sampler_posterior_alpha": _SAMPLER,
    "posterior_threshold": _SAMPLER,
    "posterior_alpha": _SAMPLER,
    "speculative_disable_mqa_scorer": "gone from vLLM: drafts are always scored in one pass; "
    "remove it",
    "disable_mqa_scorer": "gone from vLLM: drafts are always scored in one pass; remove it",
    "disable_logprobs_during_spec_decoding": "gone from vLLM: a request that asks for logprobs "
    "gets those of the target; remove it",
    "disable_logprobs": "gone from vLLM: a request that asks for logprobs gets those of the "
    "target; remove it",
    "num_lookahead_slots": "gone from vLLM, which counts the slots itself; remove it",
    "speculative_token_tree": "gone from vLLM, which drafts chains, not trees; remove it",
    "enable_suffix_decoding": "a key of Arctic Inference's plug-in; set method=suffix",
    "suffix_speculative_tokens": "a key of Arctic Inference's plug-in; set gamma",
    "suffix_max_spec_offset": "a key of Arctic Inference's plug-in that vLLM did not take over; "
    "set method.speculative.suffix_decoding_max_spec_factor",
}
_FLAGS_TODAY = {
    "num_speculative_tokens": "gamma",
    "num_speculative_tokens_per_batch_size": "method.schedule",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Translated:
    """The mapping with today's names, and the sentences about the old ones."""

    mapping: dict[str, Json]
    mistakes: tuple[str, ...]
    warnings: tuple[str, ...]


def is_old_flag(name: str) -> bool:
    """Whether earlier versions of vLLM took ``name`` as a flag of its own for speculation."""
    return name in _GONE or name in RENAMED or name in _FLAGS_TODAY


def translate(given: Mapping[str, Json], where: str) -> Translated:
    """Rename what has a name today; refuse what has none, and what is given in both."""
    mapping: dict[str, Json] = {}
    mistakes, warnings = [], []
    for key, value in given.items():
        today = RENAMED.get(key)
        if key in _GONE:
            mistakes.append(f"{where}.{key}: {_what_now(key, value, given)}")
        elif today is None:
            mapping[key] = value
        elif today in given:
            mistakes.append(f"{where}.{key}: the old name of {today}, which is given too; keep one")
        else:
            mapping[today] = value
            warnings.append(f"{where}.{key} is vLLM's old name of {today}; taken as that")
    return Translated(mapping=mapping, mistakes=tuple(mistakes), warnings=tuple(warnings))


def flag_mistakes(args: Mapping[str, Json], where: str) -> list[str]:
    """Old speculation flags among the server's arguments: vLLM's parser would end with status 2."""
    mistakes = []
    for key, value in args.items():
        name = flag_of(key).replace("-", "_")
        if name in _GONE:
            mistakes.append(f"{where}.{key}: {_what_now(name, value, args)}")
        elif name in RENAMED or name in _FLAGS_TODAY:
            today = _FLAGS_TODAY.get(name, f"method.speculative.{RENAMED.get(name)}")
            mistakes.append(
                f"{where}.{key}: vLLM has no such flag any more; set {today}={_shown(value)}"
            )
    return mistakes


def _what_now(key: str, value: Json, given: Mapping[str, Json]) -> str:
    size = value if isinstance(value, int) and value > 1 else 32
    gamma = given.get("num_speculative_tokens")
    tokens = gamma if isinstance(gamma, int) else 4
    return _GONE[key].format(below=size - 1, n=size, gamma=tokens)


def _shown(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value)
