"""The command line of ``engine.py``, what vLLM resolves it to, and the faults asked for."""

from __future__ import annotations

import argparse
import json
import os
import sys
from itertools import pairwise
from typing import Any


def asked_faults() -> dict[str, Any]:
    """The faults asked for; ``engine.py`` lists them. With ``when_gamma`` only one server of a
    sweep has them: the one with that many draft tokens, 0 for the baseline."""
    faults: dict[str, Any] = json.loads(os.environ.get("FAKE_ENGINE") or "{}")
    flag = "--speculative-config"
    text = sys.argv[sys.argv.index(flag) + 1] if flag in sys.argv else "{}"
    wanted = faults.pop("when_gamma", None)
    ours = json.loads(text).get("num_speculative_tokens", 0)
    return faults if wanted in (None, ours) else {}


FAULTS = asked_faults()

LOOKUP = {"ngram": (0.4, 0.6), "suffix": (0.6, 0.6)}
"""Methods that do not always find a draft: share of steps with one, acceptance a position."""
BLOCK = 16
"""Tokens in a block of the prefix cache."""


SPEC_DEFAULTS: dict[str, Any] = {
    "method": None,
    "model": None,
    "num_speculative_tokens": None,
    "enforce_eager": None,
    "draft_tensor_parallel_size": 1,
    "quantization": None,
    "max_model_len": None,
    "revision": None,
    "prompt_lookup_max": None,
    "prompt_lookup_min": None,
    "parallel_drafting": False,
    "disable_padded_drafter_batch": False,
    "num_speculative_tokens_per_batch_size": None,
    "suffix_decoding_max_tree_depth": 24,
    "suffix_decoding_max_cached_requests": 10000,
    "suffix_decoding_max_spec_factor": 1.0,
    "suffix_decoding_min_token_prob": 0.1,
    "rejection_sample_method": "standard",
    "synthetic_acceptance_rates": None,
    "synthetic_acceptance_length": None,
    "draft_sample_method": "greedy",
}
INVALID = "pydantic_core._pydantic_core.ValidationError: 1 validation error for"


def hit(fault: str, request: int) -> bool:
    """Whether ``fault`` applies to the ``request``-th request, counted from 1."""
    value = FAULTS.get(fault, False)
    return value if isinstance(value, bool) else request > value


def fatal(message: str, code: int = 1) -> SystemExit:
    """vLLM's way out of a start that failed: the cause is the end of stderr."""
    print(message, file=sys.stderr, flush=True)
    return SystemExit(code)


def resolve(text: str | None) -> dict[str, Any] | None:
    """vLLM's resolved ``speculative_config``; exits as vLLM does when it is not valid."""
    if text is None:
        return None
    try:
        asked = {key.replace("-", "_"): value for key, value in json.loads(text).items()}
    except ValueError:
        flag = "argument --speculative-config/-sc"
        reason = "cannot be converted to <function loads at 0x7f>."
        raise fatal(f"vllm serve: error: {flag}: Value {text} {reason}", 2) from None
    for key in asked.keys() - SPEC_DEFAULTS.keys():
        raise fatal(f"{INVALID} SpeculativeConfig\n{key}\n  Unexpected keyword argument")
    return with_defaults(SPEC_DEFAULTS | asked)


def with_defaults(config: dict[str, Any]) -> dict[str, Any]:
    """Fill in what vLLM derives: the method, gamma of suffix, the lookup windows."""
    lookup = config["model"] in (None, "ngram", "[ngram]")
    config["method"] = config["method"] or ("ngram" if lookup else "draft_model")
    if config["method"] == "suffix" and config["num_speculative_tokens"] is None:
        config["num_speculative_tokens"] = config["suffix_decoding_max_tree_depth"]
    if config["num_speculative_tokens"] is None:
        reason = "num_speculative_tokens must be provided with speculative model"
        raise fatal(f"{INVALID} SpeculativeConfig\n  Value error, {reason}")
    low, high = config["prompt_lookup_min"], config["prompt_lookup_max"]
    windows = (low or high or 5, high or low or 5) if "ngram" in config["method"] else (0, 0)
    config["prompt_lookup_min"], config["prompt_lookup_max"] = windows
    if FAULTS.get("synthetic"):
        config |= {"rejection_sample_method": "synthetic", "synthetic_acceptance_length": 2.0}
    if length := config["synthetic_acceptance_length"]:  # as vLLM does
        accepted = [min(1.0, max(0.0, length - 1 - n)) for n in range(_gamma(config))]
        config |= {"synthetic_acceptance_rates": accepted, "synthetic_acceptance_length": None}
    if "wrong_gamma" in FAULTS:
        config["num_speculative_tokens"] = int(FAULTS["wrong_gamma"])
    return config


def _gamma(config: dict[str, Any]) -> int:
    return int(config["num_speculative_tokens"])


def parse(argv: list[str]) -> tuple[argparse.Namespace, dict[str, Any]]:
    """The flags that matter here, and all others by name with ``_`` for ``-``."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--model")
    parser.add_argument("--host", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--served-model-name")
    parser.add_argument("--speculative-config", "-sc")
    parser.add_argument("--per-request-spec-decode-metrics", default="none")
    parser.add_argument("--max-model-len", type=int, default=8192)
    parser.add_argument("--max-num-seqs", type=int, default=256)
    parser.add_argument("--fake-step-ms", type=float, default=2.0)
    if argv[:1] == ["serve"]:
        argv = ["--model", *argv[1:]]
    args, rest = parser.parse_known_args(argv)
    flags: dict[str, Any] = {}
    for token, following in pairwise([*rest, "--"]):
        if token.startswith("--"):
            name, equals, value = token[2:].partition("=")
            bare = True if following.startswith("--") else following
            flags[name.replace("-", "_")] = value if equals else bare
    return args, flags


def describe(
    args: argparse.Namespace, flags: dict[str, Any], spec: dict[str, Any] | None
) -> dict[str, Any]:
    """The resolved ``vllm_config``, its keys that matter."""
    method = (spec or {}).get("method")
    dtype = "torch." + str(flags.get("dtype", "auto")).replace("auto", "bfloat16")
    overlap = method not in LOOKUP and "no_async_scheduling" not in flags
    return {
        "model_config": {
            "model": args.model,
            "dtype": dtype,
            "max_model_len": args.max_model_len,
            "quantization": flags.get("quantization"),
            "revision": flags.get("revision"),
            "seed": int(flags.get("seed", 0)),
            "enforce_eager": "enforce_eager" in flags,
        },
        "cache_config": {
            "block_size": BLOCK,
            "enable_prefix_caching": "no_enable_prefix_caching" not in flags,
        },
        "parallel_config": {"tensor_parallel_size": int(flags.get("tensor_parallel_size", 1))},
        "scheduler_config": {
            "max_num_seqs": args.max_num_seqs,
            "async_scheduling": overlap,
        },
        "speculative_config": spec,
    }
