"""``vllm.LLM`` as TRL's own server uses it: drafts, and counts them unless told not to."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from prometheus_client import Counter

TOKENS = 12
"""Tokens of every answer: one from the prefill, then three to a step with γ=4 and half accepted."""


@dataclass
class SpeculativeConfig:
    """The resolved one; like vLLM's, with fields that are no JSON."""

    method: str
    num_speculative_tokens: int
    prompt_lookup_min: int = 5
    prompt_lookup_max: int = 5
    target_model_config: object = None


class LLM:
    def __init__(
        self,
        model: str,
        speculative_config: dict[str, Any] | None = None,
        disable_log_stats: bool = True,
    ) -> None:
        for line in json.loads(os.environ.get("FAKE_ENGINE") or "{}").get("start_log", ()):
            print(line, flush=True)
        spec = SpeculativeConfig(**speculative_config) if speculative_config else None
        config = SimpleNamespace(speculative_config=spec)
        self.llm_engine = SimpleNamespace(vllm_config=config)
        self.counts = None if disable_log_stats else _counters(spec is not None)

    def generate(self, prompts: list[Any], n: int) -> list[list[int]]:
        spec = self.llm_engine.vllm_config.speculative_config
        sequences = len(prompts) * n
        if self.counts:
            self.counts["generation_tokens"].inc(sequences * TOKENS)
        if self.counts and spec:
            self.counts["spec_decode_num_drafts"].inc(sequences * 4)
            self.counts["spec_decode_num_draft_tokens"].inc(sequences * 4 * 4)
            self.counts["spec_decode_num_accepted_tokens"].inc(sequences * 8)
        return [list(range(7, 7 + TOKENS)) for _ in range(sequences)]


def _counters(speculates: bool) -> dict[str, Counter]:
    """vLLM registers those of speculation only with speculation."""
    names = ["generation_tokens"]
    if speculates:
        names += [f"spec_decode_num_{what}" for what in ("drafts", "draft_tokens")]
        names += ["spec_decode_num_accepted_tokens"]
    return {name: Counter(f"vllm:{name}", name) for name in names}
