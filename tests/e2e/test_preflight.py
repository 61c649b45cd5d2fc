"""vLLM's own word on servers, asked without starting one."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from sweeper.serve.installed import installed
from sweeper.serve.preflight import preflight
from sweeper.values import ServerSpec

CACHE = Path(os.environ.get("SWEEPER_CACHE", Path.home() / ".cache" / "sweeper"))
MODEL = CACHE / "smollm2-135m-instruct"
PYTHON = os.environ.get("SWEEPER_TEST_SERVER_PYTHON", sys.executable)

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not MODEL.is_dir(), reason=f"{MODEL} is not there: make setup"),
]

NGRAM = {"method": "ngram", "num_speculative_tokens": 4}
WRONG = {
    "prompt_lookup_min=5 must be <= prompt_lookup_max=2": NGRAM
    | {"prompt_lookup_min": 5, "prompt_lookup_max": 2},
    "method.speculative.disable_by_batch_size: unexpected keyword argument": NGRAM
    | {"disable_by_batch_size": 8},
    "num_speculative_tokens was provided but without speculative model.": {
        "method": "eagle3",
        "num_speculative_tokens": 3,
    },
    "method.speculative.num_speculative_tokens: input should be greater than 0": NGRAM
    | {"num_speculative_tokens": 0},
}


def spec(speculative: dict[str, Any] | None, *args: str, **env: str) -> ServerSpec:
    return ServerSpec(
        kind="vllm",
        command=(PYTHON, "-m", "vllm.entrypoints.openai.api_server"),
        model=str(MODEL),
        speculative_config=json.dumps(speculative) if speculative else "",
        args=("--enforce-eager", "--max-model-len", "1024", *args),
        env=tuple(sorted(env.items())),
    )


def test_right_and_wrong_ones_in_one_process() -> None:
    here = installed((PYTHON,))
    if here is None or here.vllm is None:
        pytest.skip("no vLLM here")
    base, ngram = spec(None), spec(NGRAM)
    flag = spec(NGRAM, "--no-such-flag")
    wrong = {message: spec(speculative) for message, speculative in WRONG.items()}
    asked = preflight([base, ngram, flag, *wrong.values(), ngram])
    assert asked.unasked == ()
    assert len(asked.findings) == 3 + len(wrong)
    found = asked.findings
    assert (found[base.key].error, found[base.key].resolved) == ("", None)
    assert found[ngram.key].error == ""
    resolved = found[ngram.key].resolved or {}
    assert {k: resolved[k] for k in ("prompt_lookup_min", "prompt_lookup_max")} == {
        "prompt_lookup_min": 5,
        "prompt_lookup_max": 5,
    }
    assert "async scheduling is off with ngram" in found[ngram.key].warnings
    assert found[flag.key].error == "unrecognized arguments: --no-such-flag"
    assert {message: found[one.key].error for message, one in wrong.items()} == {
        message: message for message in wrong
    }
