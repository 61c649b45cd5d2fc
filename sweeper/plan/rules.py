"""What vLLM's speculative config knows, as data: every key, and what each method makes of it.

Written down from ``vllm/config/speculative.py`` and the proposers of vLLM 0.32.0. A key that is
not among the ``needs`` and ``allows`` of a method is read by nothing when that method drafts: vLLM
accepts most of them silently, and a sweep over one would measure equal points several times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sweeper.values import Json

Kind = Literal["whole", "number", "bool", "text", "list", "mapping"]

GAMMA, SCHEDULE = "num_speculative_tokens", "num_speculative_tokens_per_batch_size"

MAX_GAMMA = 16
"""More draft tokens a step than any method was seen to gain from; above it is asked for twice."""
LARGEST_GAMMA = 128
"""The rejection sampler of vLLM's V1 model runner asserts this while it serves."""

VLLM = "0.32.0"
"""The version these tables were read from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key of ``--speculative-config``; ``default`` is what vLLM takes when it is left out."""

    name: str
    kind: Kind
    default: Json = None
    at_least: float | None = None
    at_most: float | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodRule:
    """What one method of vLLM reads.

    ``fills`` are the values vLLM takes for keys that are left out, ``gamma_from`` where γ comes
    from when it is left out (empty: it must be given), ``trained`` says that trained weights
    draft, ``no_schedule`` and ``refused`` why there is no dynamic schedule and why the method
    cannot be measured at all (empty: it can).
    """

    name: str
    needs: frozenset[str] = frozenset()
    allows: frozenset[str] = frozenset()
    fills: tuple[tuple[str, Json], ...] = ()
    gamma_from: str = ""
    trained: bool = False
    no_schedule: str = ""
    refused: str = ""

    @property
    def reads(self) -> frozenset[str]:
        """Every key that means something to this method."""
        return self.needs | self.allows | _ALWAYS

    @property
    def ignores(self) -> frozenset[str]:
        """Every other key of vLLM's speculative config."""
        return frozenset(KEYS) - self.reads

    @property
    def loads_checkpoint(self) -> bool:
        """Whether ``model`` names weights, and not a class."""
        return "draft_tensor_parallel_size" in self.allows


_TABLE = (
    Key(name="method", kind="text"),
    Key(name="model", kind="text"),
    Key(name=GAMMA, kind="whole"),
    Key(name=SCHEDULE, kind="list"),
    Key(name="rejection_sample_method", kind="text", default="standard",
        choices=("standard", "synthetic", "block")),
    Key(name="synthetic_acceptance_rates", kind="list"),
    Key(name="synthetic_acceptance_length", kind="number", at_least=1),
    Key(name="prompt_lookup_min", kind="whole", at_least=1),
    Key(name="prompt_lookup_max", kind="whole", at_least=1),
    Key(name="suffix_decoding_max_tree_depth", kind="whole", default=24, at_least=1),
    Key(name="suffix_decoding_max_cached_requests", kind="whole", default=10000, at_least=0),
    Key(name="suffix_decoding_max_spec_factor", kind="number", default=1.0, at_least=0),
    Key(name="suffix_decoding_min_token_prob", kind="number", default=0.1, at_least=0, at_most=1),
    Key(name="draft_tensor_parallel_size", kind="whole", at_least=1),
    Key(name="quantization", kind="text"),
    Key(name="max_model_len", kind="whole", at_least=1),
    Key(name="revision", kind="text"),
    Key(name="code_revision", kind="text"),
    Key(name="enforce_eager", kind="bool"),
    Key(name="moe_backend", kind="text"),
    Key(name="attention_backend", kind="text"),
    Key(name="kv_cache_dtype", kind="text"),
    Key(name="draft_load_config", kind="mapping"),
    Key(name="draft_sample_method", kind="text", default="greedy",
        choices=("greedy", "probabilistic")),
    Key(name="use_local_argmax_reduction", kind="bool", default=False),
    Key(name="disable_padded_drafter_batch", kind="bool", default=False),
    Key(name="disable_eagle_block_drop", kind="bool", default=False),
    Key(name="parallel_drafting", kind="bool", default=False),
    Key(name="use_heterogeneous_vocab", kind="bool", default=False),
    Key(name="index_share_for_mtp_iteration", kind="bool"),
    Key(name="enable_adaptive_verification", kind="bool", default=False),
    Key(name="dspark_draft_topk", kind="whole", at_least=1),
)  # fmt: skip

KEYS = {key.name: key for key in _TABLE}
"""Every key a user can give, by name."""

NOT_YOURS = {
    "tensor_parallel_size": "vLLM refuses it here; set draft_tensor_parallel_size",
    "target_model_config": "vLLM fills it in from the server's own flags",
    "target_parallel_config": "vLLM fills it in from the server's own flags",
    "draft_model_config": "vLLM fills it in from the draft checkpoint",
    "draft_parallel_config": "vLLM fills it in from draft_tensor_parallel_size",
}
"""Fields of vLLM's class that are no settings, and why."""

_ALWAYS = frozenset(
    {
        "method",
        GAMMA,
        SCHEDULE,
        "rejection_sample_method",
        "synthetic_acceptance_rates",
        "synthetic_acceptance_length",
    }
)
_LOOKUP = frozenset({"prompt_lookup_min", "prompt_lookup_max"})
_SUFFIX = frozenset(name for name in KEYS if name.startswith("suffix_decoding_"))
_CHECKPOINT = frozenset(
    {"draft_tensor_parallel_size", "quantization", "max_model_len", "revision", "code_revision"}
)
_DRAFTER = _CHECKPOINT | {
    "enforce_eager",
    "moe_backend",
    "attention_backend",
    "kv_cache_dtype",
    "draft_load_config",
    "draft_sample_method",
    "use_local_argmax_reduction",
}
_HEAD = _DRAFTER | {"disable_eagle_block_drop", "disable_padded_drafter_batch"}
_MODEL = frozenset({"model"})
_FIXED_WIDTH = "its drafter asserts that every step drafts exactly γ tokens and kills the engine"

_RULES = (
    MethodRule(name="ngram", allows=_LOOKUP),
    MethodRule(
        name="ngram_gpu",
        allows=_LOOKUP | {"disable_padded_drafter_batch"},
        no_schedule=_FIXED_WIDTH,
    ),
    MethodRule(
        name="suffix",
        allows=_SUFFIX,
        fills=tuple((name, KEYS[name].default) for name in sorted(_SUFFIX)),
        gamma_from="suffix_decoding_max_tree_depth",
        no_schedule=_FIXED_WIDTH,
    ),
    MethodRule(
        name="draft_model",
        needs=_MODEL,
        allows=_DRAFTER | {"parallel_drafting", "use_heterogeneous_vocab"},
        gamma_from="n_predict",
        trained=True,
    ),
    MethodRule(
        name="eagle",
        needs=_MODEL,
        allows=_HEAD | {"parallel_drafting"},
        gamma_from="n_predict",
        trained=True,
    ),
    MethodRule(
        name="eagle3",
        needs=_MODEL,
        allows=_HEAD | {"parallel_drafting"},
        gamma_from="n_predict",
        trained=True,
    ),
    MethodRule(
        name="mtp",
        allows=_HEAD | _MODEL | {"index_share_for_mtp_iteration"},
        gamma_from="n_predict",
        trained=True,
    ),
    MethodRule(
        name="medusa",
        needs=_MODEL,
        allows=_CHECKPOINT,
        trained=True,
        no_schedule=_FIXED_WIDTH,
    ),
    MethodRule(
        name="dflash",
        needs=_MODEL,
        allows=_HEAD - {"disable_padded_drafter_batch"},
        gamma_from="n_predict",
        trained=True,
    ),
    MethodRule(
        name="dspark",
        allows=(_HEAD - {"disable_padded_drafter_batch"})
        | _MODEL
        | {"enable_adaptive_verification", "dspark_draft_topk"},
        gamma_from="block_size",
        trained=True,
    ),
    MethodRule(name="custom_class", needs=_MODEL),
    MethodRule(
        name="mlp_speculator",
        needs=_MODEL,
        allows=_CHECKPOINT,
        gamma_from="n_predict",
        trained=True,
        refused=f"no model runner of vLLM {VLLM} drafts with it (V2 does not know it, V1 ends in "
        "'Unknown speculative decoding method'); use a checkpoint for eagle3 or medusa",
    ),
    MethodRule(
        name="extract_hidden_states",
        allows=_DRAFTER,
        no_schedule=_FIXED_WIDTH,
        refused="it stores hidden states for training a head and drafts nothing",
    ),
)

RULES = {rule.name: rule for rule in _RULES}
"""The rule of every method, by vLLM's name for it."""

MTP_SUFFIX = "_mtp"
"""vLLM takes ``deepseek_mtp``, ``qwen3_next_mtp`` and the like for ``mtp``, and says so."""

PATH_RULES = (
    ("eagle-", "eagle"),
    ("eagle3", "eagle3"),
    ("dflash", "dflash"),
    ("dspark", "dspark"),
)
"""In this order vLLM looks for these words in the lower-cased draft path, and takes the method."""

KEEPS_ITS_NAME = frozenset({"eagle", "eagle3", "dflash", "dspark"})
"""Methods that :data:`PATH_RULES` do not change when they are asked for by name."""

V1_ONLY = frozenset({"suffix", "medusa", "custom_class"})
"""Methods for which vLLM leaves the V2 model runner."""
