"""What the server resolved against what was asked for."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from sweeper.errors import ServerError
from sweeper.serve.identity import check_counters, check_speculation, unverified
from sweeper.values import Json, ServerSpec


def spec(asked: dict[str, Any] | None, resolved: dict[str, Any] | None = None) -> ServerSpec:
    return ServerSpec(
        kind="vllm",
        command=("python",),
        model="org/model",
        speculative_config=json.dumps(asked) if asked else "",
        speculative_resolved=json.dumps(resolved) if resolved else "",
    )


def info(speculative: dict[str, Any] | None) -> Json:
    return {"vllm_config": {"speculative_config": speculative}}


NGRAM = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}
SERVED = {**NGRAM, "prompt_lookup_min": 4, "model": "ngram", "enforce_eager": None}


def wrong(asked: ServerSpec, served: dict[str, Any] | None) -> str:
    with pytest.raises(ServerError) as caught:
        check_speculation(asked, info(served))
    return str(caught.value)


def test_equal_in_every_asked_key() -> None:
    check_speculation(spec(NGRAM), info(SERVED))
    check_speculation(spec(None), info(None))
    check_speculation(spec(NGRAM), None)


def test_a_method_that_vllm_changed() -> None:
    draft = {"method": "draft_model", "model": "/m/my-eagle-draft", "num_speculative_tokens": 3}
    assert wrong(spec(draft), draft | {"method": "eagle"}) == (
        "the server resolved other settings: method: asked 'draft_model', server has 'eagle' "
        "(vLLM takes the method from the name or config of the draft; "
        "rename or replace /m/my-eagle-draft)"
    )


def test_another_gamma_and_another_window_at_once() -> None:
    assert wrong(spec(NGRAM), SERVED | {"num_speculative_tokens": 2, "prompt_lookup_max": 5}) == (
        "the server resolved other settings: num_speculative_tokens: asked 4, server has 2; "
        "prompt_lookup_max: asked 4, server has 5"
    )


def test_what_the_plan_said_vllm_would_resolve() -> None:
    planned = spec(NGRAM, NGRAM | {"prompt_lookup_min": 2, "suffix_decoding_max_tree_depth": 8})
    assert wrong(planned, SERVED) == (
        "the server resolved other settings: prompt_lookup_min: asked 2, server has 4"
    )


def test_a_key_the_server_does_not_have() -> None:
    assert wrong(spec(NGRAM | {"new_key": 1}), SERVED) == (
        "the server resolved other settings: new_key: asked 1, server has no such setting"
    )


def test_spellings_that_mean_the_same() -> None:
    asked = {
        "method": "deepseek_mtp",
        "num_speculative_tokens": 2,
        "attention_backend": "flash_attn",
        "num_speculative_tokens_per_batch_size": [[1, 4, 2], [5, 8, 0]],
    }
    served = asked | {"method": "mtp", "attention_backend": "FLASH_ATTN"}
    check_speculation(spec(asked), info(served))
    assert "[5, 8, 0]" in wrong(
        spec(asked), served | {"num_speculative_tokens_per_batch_size": [[1, 4, 2], [5, 8, 1]]}
    )


def test_a_synthetic_length_comes_back_as_rates() -> None:
    """vLLM 0.32 makes rates by position of it and forgets the length."""
    asked = NGRAM | {
        "rejection_sample_method": "synthetic",
        "synthetic_acceptance_length": 2.6,
    }
    rates = {"synthetic_acceptance_rates": [1.0, 0.6, 0.0, 0.0]}
    served = SERVED | asked | rates | {"synthetic_acceptance_length": None}
    check_speculation(spec(asked), info(served))
    other = served | {"synthetic_acceptance_rates": [1.0, 0.5, 0.0, 0.0]}
    assert "synthetic_acceptance_length: asked 2.6, server has None" in wrong(spec(asked), other)


def test_a_switch_is_not_a_number() -> None:
    asked = NGRAM | {"parallel_drafting": True}
    assert "parallel_drafting: asked True, server has 1" in wrong(
        spec(asked), SERVED | {"parallel_drafting": 1}
    )


def test_a_baseline_that_speculates_and_speculation_that_does_not() -> None:
    assert wrong(spec(None), SERVED) == (
        "the baseline server speculates by itself (method ngram): org/model is a speculators "
        "checkpoint; serve its verifier instead"
    )
    assert wrong(spec(NGRAM), None) == "speculation was asked for, but the server resolved none"
    assert wrong(replace(spec(None), kind="external"), SERVED) == (
        "the running server speculates (method ngram): attach to it with its method and γ, or "
        "start it without speculation for a baseline"
    )


def test_what_cannot_be_verified_of_a_running_server_is_said() -> None:
    asked = spec({"method": "ngram", "num_speculative_tokens": 4})
    known = {"vllm_config": {"model_config": {"model": "org/model"}}}
    assert list(unverified(asked, {"id": "n"}, known)) == []
    assert list(unverified(asked, {"id": "n", "root": "org/other"}, None)) == [
        "target.model is org/model, but the running server says that it serves org/other",
    ]
    assert list(unverified(asked, {"id": "n"}, {"vllm_config": {}})) == [
        "model not verified: the running server does not say what n is"
    ]


TOKENS = 'vllm:generation_tokens_total{engine="0",model_name="m"} 9.0\n'
NO_INFO = "the running server offers no /server_info (start it with VLLM_SERVER_DEV_MODE=1)"


def metrics(gamma: int) -> str:
    """Of two engines, each with a counter for every position of a draft."""
    name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    return TOKENS + "".join(
        f'{name}{{engine="{engine}",model_name="m",position="{at}"}} 0.0\n'
        for engine in (0, 1)
        for at in range(gamma)
    )


def test_without_server_info_the_counters_tell_gamma_and_the_rest_is_said() -> None:
    assert check_counters(spec(NGRAM), metrics(4)) == (
        f"only γ=4 is verified, by the server's counters, not the method: {NO_INFO}"
    )
    assert check_counters(spec(None), metrics(0)) == ""
    nothing = f"speculation not verified: {NO_INFO} and no counters of vLLM in /metrics"
    assert check_counters(spec(NGRAM), None) == nothing
    assert check_counters(spec(None), "python_info 1.0\n") == nothing


@pytest.mark.parametrize(
    ("asked", "gamma", "sentence"),
    [
        (NGRAM, 3, "the server resolved other settings: num_speculative_tokens: asked 4, "
                   "its /metrics count 3"),
        (NGRAM, 0, "speculation was asked for, but the server counts none in its /metrics"),
        (None, 2, "the baseline server speculates: its /metrics count γ=2"),
    ],
)  # fmt: skip
def test_counters_that_tell_something_else_fail_the_point(
    asked: dict[str, Any] | None, gamma: int, sentence: str
) -> None:
    with pytest.raises(ServerError) as caught:
        check_counters(spec(asked), metrics(gamma))
    assert str(caught.value) == sentence
