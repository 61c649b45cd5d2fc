"""Target, draft and head as folders that vLLM serves; seconds, and nothing if they are there.

    python -m demo.build

The draft takes its embedding from the target; the head takes the rows of the target's output
matrix for the tokens it drafts (``d2t`` says which), and shares the embedding at run time.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demo.cache import DRAFT, HEAD, building, cache_dir, checkpoint
from demo.command import no_arguments
from demo.target import build_target, write_json

if TYPE_CHECKING:
    from demo.llama import Weights

WEIGHTS = Path(__file__).resolve().parent / "weights"
STAMP = "packed.sha256"  # which packed file a folder was built from
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "generation_config.json")
NOTE = """# {name}

Built by `python -m demo.build` from `demo/weights/{packed}` and the target's own matrices. Derived
from SmolLM2-135M-Instruct by HuggingFaceTB, Apache License 2.0 (text in LICENSE). Only for use as a
draft of that model.
"""


def build_all() -> tuple[Path, Path, Path]:
    """The folders of target, draft and head."""
    return build_target(), build_draft(), build_head()


def build_draft() -> Path:
    return build(DRAFT, WEIGHTS / "draft.safetensors", draft_config, draft_state)


def build_head() -> Path:
    return build(HEAD, WEIGHTS / "head.safetensors", head_config, head_state)


def build(
    name: str,
    source: Path,
    config: Callable[[dict[str, Any]], dict[str, Any]],
    state: Callable[[Weights, Weights], Weights],
) -> Path:
    """The folder of that name; built anew if its packed file has changed."""
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    place = cache_dir() / name
    if checkpoint(name) is not None:
        if (place / STAMP).is_file() and (place / STAMP).read_text() == digest:
            return place
        shutil.rmtree(place)
    target = build_target()
    with building(name) as folder:
        write_state(source, target, state, folder / "model.safetensors")
        for file in (*TOKENIZER, "LICENSE"):
            shutil.copyfile(target / file, folder / file)
        (folder / "README.md").write_text(NOTE.format(name=name, packed=source.name))
        (folder / STAMP).write_text(digest)
        base = json.loads((target / "config.json").read_text())
        write_json(folder / "config.json", config(base))
    return place


def write_state(
    source: Path, target: Path, state: Callable[[Weights, Weights], Weights], place: Path
) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    from demo.pack import unpacked

    weights = state(unpacked(load_file(source)), load_file(target / "model.safetensors"))
    bf16 = {
        name: (w if w.dtype == torch.int64 else w.to(torch.bfloat16)).contiguous()
        for name, w in weights.items()
    }
    save_file(bf16, place, metadata={"format": "pt"})


def draft_config(target: dict[str, Any]) -> dict[str, Any]:
    return target | {"num_hidden_layers": 3}


def draft_state(weights: Weights, target: Weights) -> Weights:
    embedding = "model.embed_tokens.weight"
    return weights | {embedding: target[embedding]}


def head_config(target: dict[str, Any]) -> dict[str, Any]:
    return target | {
        "architectures": ["LlamaForCausalLMEagle3"],
        "num_hidden_layers": 1,
        "draft_vocab_size": 8192,
        "tie_word_embeddings": False,
        "eagle_config": {
            "use_aux_hidden_state": True,
            "eagle_aux_hidden_state_layer_ids": [2, 15, 27],
        },
    }


def head_state(weights: Weights, target: Weights) -> Weights:
    """Adds ``lm_head`` and ``d2t``: target id minus draft id for each id the head drafts."""
    import torch

    frequent = weights.pop("frequent").long()
    return weights | {
        "lm_head.weight": target["model.embed_tokens.weight"][frequent],
        "d2t": frequent - torch.arange(len(frequent)),
    }


if __name__ == "__main__":
    no_arguments(__doc__)
    for folder in build_all():
        print(folder)
