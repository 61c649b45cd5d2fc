"""Which method a checkpoint's weights are for, read from the names in its config.json."""

from __future__ import annotations

from sweeper.plan.checkpoint import Checkpoint, n_predict

MTP_TYPES = frozenset(
    {
        "deepseek_v3",
        "deepseek_v32",
        "deepseek_v4",
        "dots3_note",
        "ernie4_5_moe",
        "exaone_moe",
        "bailing_hybrid",
        "gemma4_assistant",
        "gemma4_unified_assistant",
        "glm5_next",
        "glm_moe_dsa",
        "hy_v3",
        "hy_v4",
        "inkling_mm_model",
        "inkling_model",
        "intern_s2_preview",
        "interns2_mobius",
        "kimi_k3",
        "longcat_flash",
        "minimax_m3_vl",
        "pangu_ultra_moe",
        "qwen3_5",
        "qwen3_5_moe",
        "qwen3_5_moe_text",
        "qwen3_5_text",
        "qwen3_next",
        "qwen4_exp",
        "qwen4_exp_text",
        "step3p5",
        "step3p7",
    }
)
"""Model types that vLLM 0.32.0 turns into their MTP layers whenever they are given as a draft."""
MTP_ARCHITECTURES = frozenset(
    {
        "BailingMoeV2_5ForCausalLM",
        "BailingMoeV3ForCausalLM",
        "BailingMoeV3VLForConditionalGeneration",
        "Glm4MoeForCausalLM",
        "Glm4MoeLiteForCausalLM",
        "GlmOcrForConditionalGeneration",
        "MiMoForCausalLM",
        "MiMoV2FlashForCausalLM",
        "MiMoV2ForCausalLM",
        "MiMoV2OmniForCausalLM",
        "MiniMaxM3SparseForConditionalGeneration",
        "Step3p5ForCausalLM",
        "Step3p7ForConditionalGeneration",
    }
)
"""Likewise, by architecture."""
_KIND_BY_NAME = (
    ("dflash", "dflash"),
    ("lilicorr", "dflash"),
    ("museglimmerassistant", "dflash"),
    ("dspark", "dspark"),
    ("eagle3", "eagle3"),
    ("peagle", "eagle3"),
    ("eagle2_5", "plain"),  # a vision model, not a head
    ("eagle", "eagle"),
    ("medusa", "medusa"),
    ("mlp_speculator", "mlp_speculator"),
    ("mtp", "mtp"),
    ("gemma4_assistant", "mtp"),
    ("gemma4_unified_assistant", "mtp"),
)
_KIND_BY_KEY = (
    ("dflash_config", "dflash"),
    ("medusa_num_heads", "medusa"),
    ("draft_vocab_size", "eagle3"),
    ("eagle_config", "eagle3"),
    ("eagle_aux_hidden_state_layer_ids", "eagle3"),
    ("target_hidden_size", "eagle3"),
)


def kind_of(checkpoint: Checkpoint) -> str:
    """Which method the weights are for: ``eagle3``, ``medusa``, …, or ``plain``: a language model.

    An EAGLE-1 head written by its authors' code looks like a plain model of one layer.
    """
    said = str(checkpoint.config.get("speculators_model_type") or "")
    names = " ".join((said, *checkpoint.architectures, checkpoint.model_type)).lower()
    for word, kind in _KIND_BY_NAME:
        if word in names:
            return kind
    for key, kind in _KIND_BY_KEY:
        if checkpoint.config.get(key) is not None:
            return kind
    return "plain"


def becomes_mtp(checkpoint: Checkpoint) -> bool:
    """Whether vLLM takes the checkpoint for its MTP layers when it is given as a draft.

    That holds whatever method was asked for: such a model cannot be a ``draft_model``.
    """
    kind = checkpoint.model_type
    if kind.startswith("nemotron_h"):
        return bool(n_predict(checkpoint))
    named = kind in MTP_TYPES or kind.endswith("_mtp") or "exaone4_5" in kind
    return named or not MTP_ARCHITECTURES.isdisjoint(checkpoint.architectures)
