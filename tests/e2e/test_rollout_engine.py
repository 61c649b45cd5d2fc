"""What wrappers do with ``VLLMServerConfig``: engines in their own process, what they counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sweeper.rollout import VLLMServerConfig

pytestmark = [pytest.mark.long, pytest.mark.vllm, pytest.mark.timeout(900)]

CACHE = Path(os.environ.get("SWEEPER_CACHE", Path.home() / ".cache" / "sweeper"))
NGRAM = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 2}
CONFIG = VLLMServerConfig(
    model=str(CACHE / "smollm2-135m-instruct"),
    max_model_len=1024,
    speculative_config=NGRAM | {"prompt_lookup_max": 4},
    engine_args={"enforce_eager": True, "disable_log_stats": False},
)
TEXT = "red blue green red blue green red blue green red blue"

BOTH = """
import asyncio, json, sys, vllm
from vllm.v1.metrics.reader import get_metrics_snapshot
kwargs, text = json.loads(sys.argv[2]), sys.argv[3]
greedy = vllm.SamplingParams(temperature=0.0, max_tokens=24)

async def rollout():  # as OpenRLHF does it
    engine = vllm.AsyncLLMEngine.from_engine_args(vllm.AsyncEngineArgs(**kwargs))
    async for answer in engine.generate(text, greedy, "1"):
        pass
    return engine.vllm_config.speculative_config

def offline():
    engine = vllm.LLM(**kwargs)
    engine.generate([text], greedy)
    return engine.llm_engine.vllm_config.speculative_config

if __name__ == "__main__":
    config = asyncio.run(rollout()) if sys.argv[1] == "AsyncEngineArgs" else offline()
    ends = ("_draft_tokens", "_accepted_tokens")
    counts = {m.name: m.value for m in get_metrics_snapshot() if m.name.endswith(ends)}
    resolved = {name: getattr(config, name) for name in kwargs["speculative_config"]}
    print(json.dumps([resolved, counts]), flush=True)
"""


@pytest.mark.parametrize("way_in", ["LLM", "AsyncEngineArgs"])
def test_the_engine_has_what_was_set_and_drafts(tmp_path: Path, way_in: str) -> None:
    script = tmp_path / "engine.py"
    script.write_text(BOTH)
    argv = [sys.executable, str(script), way_in, json.dumps(CONFIG.to_vllm_kwargs()), TEXT]
    env = os.environ | {"VLLM_CPU_KVCACHE_SPACE": "1"}
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    resolved, counts = found
    assert resolved == CONFIG.speculative_config
    assert counts["vllm:spec_decode_num_draft_tokens"] > 0
    assert counts["vllm:spec_decode_num_accepted_tokens"] > 0
    print(way_in, counts)
