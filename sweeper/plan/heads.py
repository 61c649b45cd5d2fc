"""Do the draft's weights belong to the method and to the target?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sweeper.plan.checkpoint import Checkpoint, n_predict
from sweeper.plan.findings import Finding, mistake, warning
from sweeper.plan.kinds import becomes_mtp, kind_of
from sweeper.plan.rules import GAMMA
from sweeper.plan.validity import WHERE
from sweeper.values import Json

_HEAD_LAYERS = 2
"""An EAGLE-1 head has one layer, and by its names alone looks like a plain language model."""
_PLAIN = "a plain language model"
_WHAT = {
    "plain": _PLAIN,
    "eagle": "an EAGLE head",
    "eagle3": "an EAGLE-3 head",
    "medusa": "Medusa heads",
    "dflash": "a DFlash head",
    "dspark": "a DSpark head",
    "mtp": "MTP layers",
    "mlp_speculator": "an MLP speculator",
}


def head_findings(
    method: str, settings: Mapping[str, Json], draft: Checkpoint, target: Checkpoint | None
) -> Iterator[Finding]:
    """What the draft's config.json says against ``method``, γ and the target's config.json."""
    wrong = _wrong_kind(method, draft)
    if wrong:
        yield mistake(f"{WHERE}.model: {draft.name} {wrong}")
        return
    yield from _count(method, settings, draft)
    if target and method in ("eagle", "eagle3", "dflash"):
        yield from _made_for(method, draft, target)
    if target and method == "eagle3":
        yield from _auxiliary_layers(draft, target)


def _wrong_kind(method: str, draft: Checkpoint) -> str:
    """Why ``method`` cannot draft with this checkpoint; empty where it can."""
    kind = kind_of(draft)
    names = ", ".join(draft.architectures) or draft.model_type or "no architecture named"
    layers = draft.whole("num_hidden_layers") or 0
    if method == "mtp":
        return _no_mtp_layers(draft)
    if method == "dspark":
        return ""  # the weights may be in the target's own checkpoint
    if method == "draft_model" and becomes_mtp(draft):
        return (
            f"has model_type {draft.model_type}, which vLLM turns into its MTP layers and method "
            f"mtp when it is given as a draft; draft with another model, or with method=mtp"
        )
    if method == "draft_model" and kind == "plain":
        return ""
    if method == "eagle" and kind == "plain" and layers <= _HEAD_LAYERS:
        return ""
    if kind == method:
        return ""
    use = "draft_model" if kind == "plain" else kind
    return (
        f"is {_WHAT[kind]} ({names}), which {method} cannot draft with; set method={use}, or give "
        f"{'a language model' if method == 'draft_model' else _WHAT.get(method, method)}"
    )


def _no_mtp_layers(draft: Checkpoint) -> str:
    layers = n_predict(draft)
    if layers or (layers is None and (becomes_mtp(draft) or kind_of(draft) == "mtp")):
        return ""
    return f"has no MTP layers (model_type {draft.model_type}); use another method"


def _count(method: str, settings: Mapping[str, Json], draft: Checkpoint) -> Iterator[Finding]:
    """γ against the number of tokens the weights can predict."""
    gamma = settings.get(GAMMA) or 0
    heads = draft.whole("medusa_num_heads", "num_heads")
    if method == "medusa" and heads and gamma > heads:
        yield mistake(
            f"gamma: {gamma}: {draft.name} has {heads} Medusa heads, and vLLM would draft from "
            f"{gamma - heads} more without weights; at most {heads}"
        )
    predicted = None if method in ("medusa", "dspark") else n_predict(draft)
    if predicted and gamma > predicted and gamma % predicted:
        yield mistake(
            f"gamma: {gamma}: {draft.name} predicts {predicted} tokens at a time (n_predict); "
            f"above that a multiple of {predicted}"
        )


def _made_for(method: str, draft: Checkpoint, target: Checkpoint) -> Iterator[Finding]:
    """A head reads the target's hidden states: their width must be what it was trained on."""
    width = draft.whole("target_hidden_size", "hidden_size")
    if method == "eagle":
        width = draft.whole("hidden_size")
    ours = target.whole("hidden_size")
    if width and ours and width != ours:
        yield mistake(
            f"{WHERE}.model: {draft.name} was made for a target with hidden_size {width}, "
            f"{target.name} has {ours}; use a head trained for this target"
        )
    sizes = draft.whole("vocab_size"), target.whole("vocab_size")
    if None not in sizes and sizes[0] != sizes[1]:
        yield warning(
            f"{WHERE}.model: vocab_size {sizes[0]} of {draft.name} differs from the target's "
            f"{sizes[1]}"
        )


def _auxiliary_layers(draft: Checkpoint, target: Checkpoint) -> Iterator[Finding]:
    """Layers whose hidden states an EAGLE-3 head reads; 0 is the embedding, n the last layer."""
    ids, layers = _aux_ids(draft), target.whole("num_hidden_layers")
    if ids is None or layers is None:
        return
    where = f"{WHERE}.model: eagle_aux_hidden_state_layer_ids {ids} of {draft.name}"
    if not all(isinstance(i, int) and 0 <= i <= layers for i in ids):
        yield mistake(f"{where}: the target has layers 0 to {layers}; use its own head")
    elif ids != sorted(set(ids)):
        yield mistake(
            f"{where}: vLLM reads layers once each in rising order, the head's weights another "
            f"order; its config.json is wrong"
        )
    elif ids == [i - 1 for i in _default_layers(layers)]:
        yield warning(
            f"{where}: one less each than vLLM's own choice {_default_layers(layers)}: the numbers "
            f"may be those of another framework (SGLang adds 1); acceptance near 1 would say so"
        )


def _default_layers(layers: int) -> list[int]:
    return [2, layers // 2, layers - 3]


def _aux_ids(draft: Checkpoint) -> list[Json] | None:
    nested = draft.get("eagle_config")
    own = draft.get("eagle_aux_hidden_state_layer_ids")
    found = own or (nested.get("eagle_aux_hidden_state_layer_ids") if nested else None)
    return found if isinstance(found, list) else None
