"""A checkpoint's config.json, from a local folder or the hub's cache; never from the network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sweeper.values import Json

_NESTED = ("text_config", "transformer_layer_config")
"""Where multimodal and speculators checkpoints keep what others have on top."""
_MTP_LAYERS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
_STRETCHED = ("linear", "dynamic")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """``name`` as it was given; ``cached``: the folder is a snapshot in the hub's cache."""

    name: str
    folder: Path
    cached: bool
    config: Mapping[str, Json]

    def get(self, *names: str) -> Json:
        """The first of ``names`` that is set, on top or in the text model's own section."""
        nested = (self.config.get(section) for section in _NESTED)
        levels = [self.config, *(level for level in nested if isinstance(level, dict))]
        found = (level[n] for level in levels for n in names if level.get(n) is not None)
        return next(found, None)

    def whole(self, *names: str) -> int | None:
        """:meth:`get` where the value is a whole number."""
        found = self.get(*names)
        return found if isinstance(found, int) and not isinstance(found, bool) else None

    @property
    def model_type(self) -> str:
        return str(self.config.get("model_type") or "")

    @property
    def architectures(self) -> tuple[str, ...]:
        found = self.get("architectures")
        return tuple(map(str, found)) if isinstance(found, list) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """``certain``: it cannot be there for a server either; else it is only not on this machine."""

    reason: str
    certain: bool


def find(model: str, revision: Json, env: Mapping[str, str]) -> Checkpoint | Absent:
    """Look where vLLM would: a folder of that name, else a snapshot in the hub's cache."""
    if Path(model).is_dir():
        return _read(model, Path(model), cached=False)
    if model.startswith(("/", "./", "../", "~")):
        return Absent(reason=f"{model} is not there", certain=True)
    snapshot = _snapshot(model, str(revision or "main"), env)
    if snapshot is None:
        return Absent(
            reason=f"{model} is not on this machine (no such folder, and not in {_hub(env)})",
            certain=False,
        )
    return _read(model, snapshot, cached=True)


def _read(model: str, folder: Path, *, cached: bool) -> Checkpoint | Absent:
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Absent(reason=f"{folder} has no config.json", certain=not cached)
    except (OSError, ValueError) as problem:
        return Absent(reason=f"{path} cannot be read: {problem}", certain=True)
    if not isinstance(config, dict):
        return Absent(reason=f"{path} is no JSON object", certain=True)
    return Checkpoint(name=model, folder=folder, cached=cached, config=config)


def _snapshot(model: str, revision: str, env: Mapping[str, str]) -> Path | None:
    """``models--org--name/snapshots/<commit>``; a branch or tag is a file that names the commit."""
    repository = _hub(env) / f"models--{model.replace('/', '--')}"
    try:
        commit = (repository / "refs" / revision).read_text(encoding="utf-8").strip()
    except OSError:
        commit = revision
    folder = repository / "snapshots" / commit
    return folder if folder.is_dir() else None


def _hub(env: Mapping[str, str]) -> Path:
    """The cache folder by the rules of huggingface_hub."""
    if env.get("HF_HUB_CACHE"):
        return Path(env["HF_HUB_CACHE"])
    if env.get("HF_HOME"):
        return Path(env["HF_HOME"]) / "hub"
    cache = env.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "huggingface" / "hub"


def drafted_by_default(draft: Checkpoint) -> int | None:
    """γ where it is left out: ``n_predict`` or the number of MTP layers, else a block's size."""
    return n_predict(draft) or draft.whole("block_size", "dspark_block_size")


def n_predict(draft: Checkpoint) -> int | None:
    """How many tokens the checkpoint's own layers predict; ``None`` where it does not say."""
    return draft.whole("n_predict", *_MTP_LAYERS)


def context_length(checkpoint: Checkpoint) -> int | None:
    """Positions the model was made for, stretched as its own rope settings say."""
    made_for = checkpoint.whole("max_position_embeddings", "n_positions", "seq_length")
    rope = checkpoint.get("rope_scaling", "rope_parameters")
    if made_for is None or not isinstance(rope, dict):
        return made_for
    kind, factor = rope.get("rope_type", rope.get("type")), rope.get("factor")
    if not isinstance(factor, int | float):
        return made_for
    if kind == "yarn":
        return max(made_for, int(rope.get("original_max_position_embeddings", made_for) * factor))
    return int(made_for * factor) if kind in _STRETCHED else made_for
