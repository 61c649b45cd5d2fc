"""What a trainer or a server wrapper imports: engine settings that arrive, or are refused by name.

    from sweeper.rollout import VLLMServerConfig

    config = VLLMServerConfig.from_mapping(settings)
    llm = vllm.LLM(**config.to_vllm_kwargs())      # in this process
    subprocess.Popen(config.to_cli())              # or a server

Importing this costs milliseconds: neither vLLM nor Hydra nor MLflow comes with it.
"""

from __future__ import annotations

from sweeper.judge.policy import Version, by_version
from sweeper.rollout.log import RolloutLog
from sweeper.rollout.server_config import VLLMServerConfig, validate_speculative
from sweeper.values import RolloutBatch

__all__ = [
    "RolloutBatch",
    "RolloutLog",
    "VLLMServerConfig",
    "Version",
    "by_version",
    "validate_speculative",
]
