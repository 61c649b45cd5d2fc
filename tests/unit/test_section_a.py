"""Settings that users of vLLM reported to go wrong silently, each with the input they had.

A1 method changed by a path     A3 vocabularies    A4 context of the draft
A5 keys that mean nothing       A7 suffix          A9 heads of another kind
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sweeper.errors import ServerError
from sweeper.plan.checkpoints import check_checkpoints
from sweeper.plan.prompts import count_prompt_tokens
from sweeper.plan.speculative import resolve
from sweeper.serve.identity import check_speculation
from sweeper.serve.installed import Installed, skip_reason
from sweeper.values import Prompt
from tests.unit.asked import EAGLE3, LLAMA, WORDS, checkpoint, point, refusal

WHERE = "method.speculative"
GAMMA = "num_speculative_tokens"


def found(method: str, target: str, draft: str, longest: int = 10, **changes: Any) -> list[str]:
    """The mistakes of ``method`` with the checkpoints ``target`` and ``draft``."""
    asked = point(method, speculative={"model": draft}, target__model=target, **changes)
    return list(check_checkpoints(asked, longest).mistakes)


# --- A1: vllm#47486 -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "word", "taken"),
    [
        ("/models/my-eagle-draft", "eagle-", "eagle"),
        ("yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", "eagle3", "eagle3"),
        ("/nfs/dflash-runs/plain-llama", "dflash", "dflash"),
        ("/models/DSpark/small", "dspark", "dspark"),
    ],
)
@pytest.mark.parametrize("method", ["draft_model", "medusa", "mtp"])
def test_a1_a_path_that_changes_the_method_is_refused(
    path: str, word: str, taken: str, method: str
) -> None:
    assert resolve({"method": method, "model": path, GAMMA: 3}).mistakes == (
        f"{WHERE}.model: {path}: vLLM sees '{word}' in the path and changes the method from "
        f"{method} to {taken}; give the checkpoint another name (ln -s), or set "
        f"{WHERE}.method={taken} if it is one",
    )


def test_a1_the_targets_own_path_changes_mtp() -> None:
    found = resolve({"method": "mtp", GAMMA: 1}, target_model="/scratch/eagle-cluster/deepseek")
    assert [text.split(": ")[1] for text in found.mistakes] == ["/scratch/eagle-cluster/deepseek"]


@pytest.mark.parametrize("method", ["eagle", "eagle3", "dflash", "dspark"])
def test_a1_methods_that_keep_their_name_take_any_path(method: str) -> None:
    mapping = {"method": method, "model": "/models/my-eagle-draft", GAMMA: 3}
    assert resolve(mapping).mistakes == ()


def test_a1_a_model_type_that_changes_the_method_is_refused(tmp_path: Path) -> None:
    target = checkpoint(tmp_path / "target", LLAMA)
    draft = checkpoint(tmp_path / "draft", LLAMA | {"model_type": "medusa", "architectures": []})
    assert found("draft_model", target, draft) == [
        f"{WHERE}.model: {draft} is Medusa heads (medusa), which draft_model cannot draft with; "
        f"set method=medusa, or give a language model"
    ]


def test_a1_a_server_that_resolved_another_method_is_no_data() -> None:
    spec = point("draft_model", speculative={GAMMA: 3}, gamma=3).server
    info = {"vllm_config": {"speculative_config": {"method": "eagle", GAMMA: 3}}}
    with pytest.raises(ServerError, match="method: asked 'draft_model', server has 'eagle'"):
        check_speculation(spec, info)


# --- A3: vllm#5203, vllm#7252 ---------------------------------------------------------------------


@pytest.mark.parametrize(("ours", "theirs"), [(151936, 152064), (49152, 49160)])
def test_a3_padded_vocabularies_are_compared_before_anything_is_queued(
    tmp_path: Path, ours: int, theirs: int
) -> None:
    target = checkpoint(tmp_path / "target", LLAMA | {"vocab_size": ours})
    draft = checkpoint(tmp_path / "draft", LLAMA | {"vocab_size": theirs})
    assert found("draft_model", target, draft) == [
        f"{WHERE}.model: vocab_size {theirs} of {draft} differs from {ours} of the target; use a "
        f"draft of the same family and padding, or {WHERE}.use_heterogeneous_vocab=true"
    ]


def test_a3_two_tokens_swapped_at_equal_size_are_seen(tmp_path: Path) -> None:
    target = checkpoint(tmp_path / "target", LLAMA)
    swapped = (*WORDS[:1], WORDS[2], WORDS[1], *WORDS[3:])
    draft = checkpoint(tmp_path / "draft", LLAMA, swapped)
    assert found("draft_model", target, draft) == [
        f"{WHERE}.model: the tokenizer of {draft} is another one: 2 token ids mean other text, the "
        f"first is 1: 'a' for the target, 'b' for the draft"
    ]


# --- A4: vllm#58080, #57941, #52258, #7859 --------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "right"),
    [((50,), True), ((50, 400), True), ((50, 600), False)],
)
def test_a4_one_prompt_past_the_drafts_context_is_refused(
    tmp_path: Path, words: tuple[int, ...], right: bool
) -> None:
    pytest.importorskip("tokenizers")
    target = checkpoint(tmp_path / "target", LLAMA)
    draft = checkpoint(tmp_path / "draft", LLAMA | {"max_position_embeddings": 512})
    asked = point("draft_model", speculative={"model": draft}, target__model=target)
    prompts = [Prompt(id=str(n), text="c" * n) for n in words]
    longest = count_prompt_tokens(asked, prompts)
    assert longest == max(words)
    expected = (
        "sampling.max_tokens: 96: with the longest prompt (600 tokens) more than the context of "
        "the draft, 512 tokens; drafts past it are never accepted; use shorter prompts"
    )
    assert check_checkpoints(asked, longest).mistakes == (() if right else (expected,))


def test_a4_a_target_stretched_by_overrides_does_not_stretch_the_draft(tmp_path: Path) -> None:
    target = checkpoint(tmp_path / "target", LLAMA)
    draft = checkpoint(tmp_path / "draft", LLAMA)
    stretched = {"max_model_len": 8192, "hf_overrides": {"rope_scaling": {"rope_type": "yarn"}}}
    assert found("draft_model", target, draft, 4000, server__args=stretched) == [
        "sampling.max_tokens: 96: with the longest prompt (4000 tokens) more than the context of "
        "the draft, 2048 tokens; drafts past it are never accepted; use shorter prompts"
    ]


# --- A5: vllm#24888, #35573; ArcticInference#185 --------------------------------------------------


@pytest.mark.parametrize("depth", [8, 16, 32])
def test_a5_a_sweep_over_a_key_that_ngram_ignores_is_refused(depth: int) -> None:
    assert refusal("ngram", speculative={"suffix_decoding_max_tree_depth": depth}) == [
        f"{WHERE}.suffix_decoding_max_tree_depth: ngram ignores it; a sweep over it would compare "
        f"equal points"
    ]


def test_a5_a_key_that_is_gone_is_answered_with_what_replaced_it() -> None:
    assert refusal("ngram", speculative={"disable_by_batch_size": 8}) == [
        f"{WHERE}.disable_by_batch_size: gone from vLLM; what replaced it is a schedule by batch "
        f"size: method.schedule=[[1,7,4],[8,8,0]] stops drafting at 8 requests"
    ]


def test_a5_the_replacement_that_is_named_works() -> None:
    asked = point("ngram", method__schedule=[[1, 7, 4], [8, 8, 0]])
    assert (asked.server.resolved or {})["num_speculative_tokens_per_batch_size"] == [
        [1, 4],
        [8, 0],
    ]


def test_a5_an_old_name_is_translated_and_said() -> None:
    mapping = {"method": "ngram", GAMMA: 4, "ngram_prompt_lookup_max": 4}
    resolved = resolve(mapping)
    assert dict(resolved.passed) == {"method": "ngram", GAMMA: 4, "prompt_lookup_max": 4}
    assert resolved.warnings == (
        f"{WHERE}.ngram_prompt_lookup_max is vLLM's old name of prompt_lookup_max; taken as that",
    )


@pytest.mark.parametrize(("value", "shown"), [("4", '"4"'), (4.0, "4.0"), (True, "true")])
def test_a5_a_gamma_that_is_no_whole_number_is_refused(value: Any, shown: str) -> None:
    assert refusal("ngram", speculative={GAMMA: value}) == [
        f"{WHERE}.num_speculative_tokens: {shown}: a whole number"
    ]


def test_a5_a_model_beside_ngram_is_refused() -> None:
    assert refusal("ngram", speculative={"model": "org/draft"}) == [
        f"{WHERE}.model: ngram ignores it; a sweep over it would compare equal points"
    ]


def test_a5_a_gamma_longer_than_any_answer_is_refused() -> None:
    changes = {"speculative": {GAMMA: 3000}, "gamma": 3000, "allow_large_gamma": True}
    assert refusal("ngram", **changes) == [
        "gamma: 3000: at most 128, whatever allow_large_gamma says: the sampler of vLLM's V1 model "
        "runner asserts it while it serves"
    ]


def test_a5_a_gamma_deeper_than_the_suffix_tree_is_refused() -> None:
    mapping = {"method": "suffix", GAMMA: 64, "suffix_decoding_max_tree_depth": 8}
    assert resolve(mapping).mistakes == (
        f"{WHERE}.num_speculative_tokens: 64: more than suffix_decoding_max_tree_depth=8; no draft "
        f"is longer than the tree is deep",
    )


# --- A7: vllm PR#25784; ArcticInference#111, PR#235 -----------------------------------------------


def test_a7_suffix_without_a_gamma_says_which_one_it_runs_with() -> None:
    resolved = resolve({"method": "suffix"})
    assert resolved.gamma == 24
    assert resolved.warnings == (
        "γ was left out; vLLM takes 24 from suffix_decoding_max_tree_depth",
    )
    asked = point("suffix", speculative={GAMMA: None})
    assert (asked.label, asked.warnings) == ("suffix γ=24", resolved.warnings)


def test_a7_suffix_is_skipped_with_a_reason_where_its_package_is_not() -> None:
    bare = Installed(python="/p", vllm="0.32.0", cpu=False, arctic_inference=None)
    with_it = replace(bare, arctic_inference="0.3.0")
    assert skip_reason(point("suffix"), bare).startswith("suffix needs arctic-inference")
    assert skip_reason(point("suffix"), with_it) == ""


def test_a7_keys_of_the_old_plugin_are_translated_or_refused() -> None:
    old = {"method": "suffix", GAMMA: 8, "suffix_cache_max_depth": 16}
    assert resolve(old).mapping["suffix_decoding_max_tree_depth"] == 16
    assert resolve(old | {"suffix_max_spec_offset": 1.0}).mistakes == (
        f"{WHERE}.suffix_max_spec_offset: a key of Arctic Inference's plug-in that vLLM did not "
        f"take over; set {WHERE}.suffix_decoding_max_spec_factor",
    )


# --- A9: sglang PR#21272; speculators#1065, #569; vllm PR#21737 -----------------------------------


def test_a9_eagle3_with_a_plain_language_model_is_refused(tmp_path: Path) -> None:
    target = checkpoint(tmp_path / "target", LLAMA)
    small = checkpoint(tmp_path / "small", LLAMA | {"num_hidden_layers": 8})
    assert found("eagle3", target, small) == [
        f"{WHERE}.model: {small} is a plain language model (LlamaForCausalLM), which eagle3 cannot "
        f"draft with; set method=draft_model, or give an EAGLE-3 head"
    ]


def test_a9_eagle_with_an_eagle3_head_is_refused(tmp_path: Path) -> None:
    target = checkpoint(tmp_path / "target", LLAMA)
    head = checkpoint(tmp_path / "head", EAGLE3)
    assert found("eagle", target, head) == [
        f"{WHERE}.model: {head} is an EAGLE-3 head (LlamaForCausalLMEagle3), which eagle cannot "
        f"draft with; set method=eagle3, or give an EAGLE head"
    ]


def test_a9_auxiliary_layers_off_by_one_are_suspected(tmp_path: Path) -> None:
    target = checkpoint(tmp_path / "target", LLAMA)
    head = checkpoint(tmp_path / "head", EAGLE3 | {"eagle_aux_hidden_state_layer_ids": [1, 14, 26]})
    asked = point("eagle3", speculative={"model": head}, target__model=target)
    (warning,) = check_checkpoints(asked, 10).warnings
    assert "one less each than vLLM's own choice [2, 15, 27]" in warning


def test_a9_a_head_counts_as_trained_so_that_accepting_nothing_is_suspected() -> None:
    assert point("eagle3").trained_draft
    assert point("custom", speculative={"method": "eagle3", "model": "/d"}).trained_draft
    assert not point("ngram").trained_draft
