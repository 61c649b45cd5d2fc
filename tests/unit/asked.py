"""Points as a configuration asks for them, and checkpoint folders made of two small files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir

from sweeper.config import config_dir, plain, register_resolvers, settings_from_mapping
from sweeper.errors import ConfigError
from sweeper.plan.points import point_of
from sweeper.values import Dataset, Point

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 30,
    "max_position_embeddings": 2048,
    "vocab_size": 6,
}
EAGLE3 = {
    **LLAMA,
    "architectures": ["LlamaForCausalLMEagle3"],
    "num_hidden_layers": 1,
    "draft_vocab_size": 4,
}
WORDS = ("<s>", "a", "b", "ab", "c", "d")


def point(method: str, /, *, speculative: Mapping[str, Any] | None = None, **changes: Any) -> Point:
    """The point of ``method=<method>`` with ``speculative`` merged in, and ``a__b`` for ``a.b``."""
    data = json.loads(_composed(method))
    data["method"]["speculative"] = (data["method"]["speculative"] or {}) | dict(speculative or {})
    for path, value in changes.items():
        *parents, last = path.split("__")
        node = data
        for part in parents:
            node = node[part]
        node[last] = value
    if method == "none":
        data["method"]["speculative"] = None
    dataset = Dataset(name="chat", path="/chat", digest="d1", prompts=12)
    return point_of(settings_from_mapping(data), dataset)


def refusal(method: str, /, **changes: Any) -> list[str]:
    """The sentences with which the configuration is refused."""
    with pytest.raises(ConfigError) as caught:
        point(method, **changes)
    return str(caught.value).splitlines()


@cache
def _composed(method: str) -> str:
    register_resolvers()
    drafts = "target.drafts={draft_model:/d,eagle:/d,eagle3:/d,medusa:/d,dflash:/d}"
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        own = ["target=own", "target.model=/t", "target.max_tokens=96", drafts]
        cfg = compose("config", [*own, f"method={method}"])
    return json.dumps(plain(cfg))


def checkpoint(folder: Path, config: Mapping[str, Any], words: tuple[str, ...] = WORDS) -> str:
    """A checkpoint folder without weights; the path as a server would be given it."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    model = {
        "type": "BPE",
        "vocab": {word: number for number, word in enumerate(words)},
        "merges": [["a", "b"]],
        "unk_token": "<s>",
    }
    (folder / "tokenizer.json").write_text(json.dumps({"added_tokens": [], "model": model}))
    return str(folder)
