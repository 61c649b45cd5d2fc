"""What a wrapper passes on, as vLLM's own parser and its own dataclass understand it."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest

from sweeper.rollout import VLLMServerConfig

CHILD = """
import dataclasses, json, sys
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = AsyncEngineArgs.add_cli_args(FlexibleArgumentParser())
def read(argv):
    return AsyncEngineArgs.from_cli_args(parser.parse_args(argv))
def same(one, other):
    return one == other or repr(one) == repr(other)
plain = read(["--model", "m"])
for argv, kwargs in json.load(sys.stdin):
    parsed, given = read(["--model", argv[2], *argv[3:]]), AsyncEngineArgs(**kwargs)
    names = [f.name for f in dataclasses.fields(AsyncEngineArgs)]
    # What is not set keeps the default of its way in; vLLM's two ways differ in some of them.
    wanted = {n: getattr(given if n in kwargs else plain, n) for n in names}
    differing = [n for n in names if not same(getattr(parsed, n), wanted[n])]
    print(json.dumps([differing, parsed.speculative_config]))
"""
SETTINGS: list[dict[str, Any]] = [
    {},
    {"speculative_config": {"method": "ngram", "num_speculative_tokens": 4}},
    {
        "tensor_parallel_size": 2,
        "gpu_memory_utilization": 0.5,
        "dtype": "bfloat16",
        "max_model_len": 1024,
        "speculative_config": {
            "method": "eagle3",
            "model": "org/a head",
            "num_speculative_tokens": 3,
            "draft_tensor_parallel_size": 1,
        },
        "enable_prefix_caching": False,
        "enforce_eager": True,
        "max_logprobs": -1,
        "logprobs_mode": "processed_logprobs",
        "weight_transfer_config": {"backend": "nccl"},
        "max_num_seqs": 8,
    },
]


@pytest.mark.vllm
@pytest.mark.timeout(300)
@pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed")
def test_both_ways_give_vllm_the_same_settings() -> None:
    configs = [VLLMServerConfig.from_mapping({"model": "m", **settings}) for settings in SETTINGS]
    asked = json.dumps([[c.to_cli(), c.to_vllm_kwargs()] for c in configs])
    done = subprocess.run(
        [sys.executable, "-c", CHILD], input=asked, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[[")]
    assert [differing for differing, _ in found] == [[], [], []]
    assert [config for _, config in found] == [s.get("speculative_config") for s in SETTINGS]
