"""Checkpoint checks read two small files and nothing else: no vLLM, no torch, no network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sweeper.plan.checkpoint import Absent, Checkpoint, context_length, find
from sweeper.plan.checkpoints import check_checkpoints
from sweeper.plan.findings import Findings
from sweeper.plan.prompts import count_prompt_tokens
from sweeper.plan.tokens import CANNOT_COUNT, count_tokens, vocabulary
from sweeper.values import Message, Prompt
from tests.unit.asked import EAGLE3, LLAMA, WORDS, checkpoint, point

WHERE = "method.speculative"
GAMMA = "num_speculative_tokens"


class Pair:
    """A target and a draft folder, and what is found about a method that joins them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.target = checkpoint(folder / "target", LLAMA)

    def draft(self, config: dict[str, Any], words: tuple[str, ...] = WORDS) -> str:
        return checkpoint(self.folder / "draft", config, words)

    def check(
        self,
        method: str,
        model: str | None,
        *,
        longest: int | None = 10,
        speculative: dict[str, Any] | None = None,
        **changes: Any,
    ) -> Findings:
        given = {"model": model} if model else {}
        asked = point(
            method, speculative=given | (speculative or {}), target__model=self.target, **changes
        )
        return check_checkpoints(asked, longest)


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def mistake(text: str) -> Findings:
    return Findings(mistakes=(text,))


def warning(text: str) -> Findings:
    return Findings(warnings=(text,))


def test_a_draft_that_fits_is_not_spoken_of(pair: Pair) -> None:
    assert pair.check("draft_model", pair.draft(LLAMA)) == Findings()


def test_a_head_that_fits_is_not_spoken_of(pair: Pair) -> None:
    assert pair.check("eagle3", pair.draft(EAGLE3)) == Findings()


@pytest.mark.parametrize("method", ["none", "ngram", "suffix"])
def test_methods_without_weights_look_at_the_target_alone(pair: Pair, method: str) -> None:
    assert pair.check(method, None) == Findings()


# --- is it there? ---------------------------------------------------------------------------------


def test_a_missing_draft_folder_is_a_mistake(pair: Pair) -> None:
    assert pair.check("draft_model", "/nowhere/draft") == mistake(
        f"{WHERE}.model: /nowhere/draft is not there; give a checkpoint folder or a hub name"
    )


def test_a_missing_target_folder_is_a_mistake() -> None:
    assert check_checkpoints(point("none", target__model="/nowhere/t"), 10) == mistake(
        "target.model: /nowhere/t is not there; give a checkpoint folder or a hub name"
    )


def test_a_folder_without_a_config_is_a_mistake(pair: Pair, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert pair.check("draft_model", str(tmp_path / "empty")) == mistake(
        f"{WHERE}.model: {tmp_path}/empty has no config.json; give a checkpoint folder or a hub "
        f"name"
    )


def test_a_half_written_config_is_a_mistake(pair: Pair) -> None:
    draft = pair.draft(LLAMA)
    (Path(draft) / "config.json").write_text('{"vocab_size": ')
    (sentence,) = pair.check("draft_model", draft).mistakes
    assert sentence.startswith(f"{WHERE}.model: {draft}/config.json cannot be read: Expecting")


def test_a_hub_name_that_is_not_here_is_said_to_be_unchecked(pair: Pair) -> None:
    found = pair.check("eagle3", "org/head", server__env={"HF_HUB_CACHE": "/nowhere/hub"})
    assert found == warning(
        f"{WHERE}.model: not checked: org/head is not on this machine (no such folder, and not in "
        f"/nowhere/hub)"
    )


@pytest.mark.parametrize(
    ("variable", "below"),
    [("HF_HUB_CACHE", ""), ("HF_HOME", "hub"), ("XDG_CACHE_HOME", "huggingface/hub")],
)
def test_a_hub_name_is_found_in_the_cache(tmp_path: Path, variable: str, below: str) -> None:
    repository = tmp_path / below / "models--org--head"
    checkpoint(repository / "snapshots" / "abc1", EAGLE3)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc1")
    env = {variable: str(tmp_path)}
    for revision in (None, "main", "abc1"):
        found = find("org/head", revision, env)
        assert isinstance(found, Checkpoint)
        assert (found.cached, found.folder) == (True, repository / "snapshots" / "abc1")
    assert isinstance(find("org/head", "v2", env), Absent)


def test_a_running_server_is_not_checked() -> None:
    asked = point(
        "eagle3", target__model="/nowhere", server__kind="external", server__base_url="http://h:1"
    )
    assert check_checkpoints(asked, None) == Findings()


# --- vocabulary -----------------------------------------------------------------------------------


def test_another_vocabulary_size_is_a_mistake(pair: Pair) -> None:
    draft = pair.draft(LLAMA | {"vocab_size": 14})
    assert pair.check("draft_model", draft) == mistake(
        f"{WHERE}.model: vocab_size 14 of {draft} differs from 6 of the target; use a draft of the "
        f"same family and padding, or {WHERE}.use_heterogeneous_vocab=true"
    )


def test_another_vocabulary_may_be_asked_for(pair: Pair) -> None:
    draft = pair.draft(LLAMA | {"vocab_size": 14}, ("<s>", "x", "y", "xy", "z", "w"))
    asked = {"use_heterogeneous_vocab": True}
    assert pair.check("draft_model", draft, speculative=asked) == Findings()


def test_two_swapped_tokens_are_caught(pair: Pair) -> None:
    draft = pair.draft(LLAMA, ("<s>", "a", "b", "ab", "d", "c"))
    assert pair.check("draft_model", draft) == mistake(
        f"{WHERE}.model: the tokenizer of {draft} is another one: 2 token ids mean other text, the "
        f"first is 4: 'c' for the target, 'd' for the draft"
    )


def test_other_merges_are_caught(pair: Pair) -> None:
    draft = pair.draft(LLAMA)
    path = Path(draft) / "tokenizer.json"
    data = json.loads(path.read_text())
    data["model"]["merges"] = ["b a"]
    path.write_text(json.dumps(data))
    assert pair.check("draft_model", draft) == mistake(
        f"{WHERE}.model: the tokenizer of {draft} is another one: the merges differ, so the draft "
        f"was trained on text cut in other tokens"
    )


def test_two_spellings_of_the_same_merges_are_equal(pair: Pair) -> None:
    draft = pair.draft(LLAMA)
    path = Path(draft) / "tokenizer.json"
    data = json.loads(path.read_text())
    data["model"]["merges"] = ["a b"]
    path.write_text(json.dumps(data))
    assert pair.check("draft_model", draft) == Findings()


def test_tokens_only_one_of_them_has_are_a_warning(pair: Pair) -> None:
    assert pair.check("draft_model", pair.draft(LLAMA, (*WORDS, "<tool>"))) == warning(
        "tokenizers of target and draft: 1 token ids are in only one of the two tokenizers"
    )


def test_a_draft_without_a_tokenizer_is_said_to_be_uncompared(pair: Pair) -> None:
    draft = pair.draft(LLAMA)
    (Path(draft) / "tokenizer.json").unlink()
    assert pair.check("draft_model", draft) == warning(
        f"tokenizers of target and draft: not compared: no readable tokenizer.json in {draft}"
    )


def test_added_tokens_and_unigram_lists_are_read(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(
        json.dumps(
            {
                "model": {"type": "Unigram", "vocab": [["<unk>", 0.0], ["a", -1.5]]},
                "added_tokens": [{"id": 2, "content": "<end>"}],
            }
        )
    )
    found = vocabulary(tmp_path)
    assert found is not None
    assert dict(found.tokens) == {0: "<unk>", 1: "a", 2: "<end>"}


# --- context --------------------------------------------------------------------------------------


def test_prompts_past_the_drafts_context_are_a_mistake(pair: Pair) -> None:
    draft = pair.draft(LLAMA | {"max_position_embeddings": 512})
    assert pair.check("draft_model", draft, longest=400) == Findings()
    assert pair.check("draft_model", draft, longest=480) == mistake(
        "sampling.max_tokens: 96: with the longest prompt (480 tokens) more than the context of "
        "the draft, 512 tokens; drafts past it are never accepted; use sampling.max_tokens=32 or "
        "shorter prompts"
    )
    assert pair.check("draft_model", draft, longest=600) == mistake(
        "sampling.max_tokens: 96: with the longest prompt (600 tokens) more than the context of "
        "the draft, 512 tokens; drafts past it are never accepted; use shorter prompts"
    )


def test_a_limit_set_for_the_draft_counts(pair: Pair) -> None:
    found = pair.check("eagle3", pair.draft(EAGLE3), longest=60, speculative={"max_model_len": 128})
    assert found == mistake(
        "sampling.max_tokens: 96: with the longest prompt (60 tokens) more than the context of the "
        "draft, 128 tokens (max_model_len); drafts past it are never accepted; use "
        "sampling.max_tokens=68 or shorter prompts"
    )


def test_a_limit_above_what_the_models_have_is_a_mistake(pair: Pair) -> None:
    draft = pair.draft(LLAMA | {"max_position_embeddings": 1024})
    found = pair.check(
        "draft_model",
        draft,
        speculative={"max_model_len": 4096},
        target__args={"max_model_len": 2000},
    )
    assert found == Findings(
        mistakes=(
            f"{WHERE}.max_model_len: 4096: more than the draft's 1024",
            f"{WHERE}.max_model_len: 4096: more than the target's 2000",
        )
    )


def test_a_shorter_head_is_stretched_and_said(pair: Pair) -> None:
    draft = pair.draft(EAGLE3 | {"max_position_embeddings": 512})
    assert pair.check("eagle3", draft, longest=600) == warning(
        f"{WHERE}.model: the head was made for 512 positions and vLLM stretches it to the "
        f"target's; look at acceptance by position past 512"
    )


def test_a_draft_as_long_as_the_server_needs_no_counting(pair: Pair) -> None:
    draft = pair.draft(LLAMA | {"max_position_embeddings": 512})
    short = {"max_model_len": 512}
    assert pair.check("draft_model", draft, longest=None, target__args=short) == Findings()


def test_prompts_that_were_not_counted_are_said_to_be_unchecked(pair: Pair) -> None:
    draft = pair.draft(LLAMA | {"max_position_embeddings": 512})
    assert pair.check("draft_model", draft, longest=None) == warning(
        f"context of the draft (512 tokens): not checked: {CANNOT_COUNT}"
    )


def test_prompts_past_the_targets_context_are_a_mistake(pair: Pair) -> None:
    found = pair.check("none", None, longest=500, target__args={"max_model_len": 512})
    assert found == mistake(
        "sampling.max_tokens: 96: with the longest prompt (500 tokens) more than the context of "
        "the target, 512 tokens; vLLM would refuse it; use sampling.max_tokens=12 or shorter "
        "prompts"
    )


@pytest.mark.parametrize(
    ("rope", "length"),
    [
        (None, 2048),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}, 4096),
        ({"rope_type": "linear", "factor": 2.0}, 4096),
        ({"rope_type": "llama3", "factor": 8.0}, 2048),
    ],
)
def test_context_is_stretched_as_the_rope_settings_say(
    tmp_path: Path, rope: dict[str, Any] | None, length: int
) -> None:
    config = LLAMA | ({"rope_scaling": rope} if rope else {})
    found = find(checkpoint(tmp_path / "m", config), None, {})
    assert isinstance(found, Checkpoint)
    assert context_length(found) == length


# --- do the weights belong to the method? ---------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "config", "words"),
    [
        ("eagle3", LLAMA,
         "is a plain language model (LlamaForCausalLM), which eagle3 cannot draft with; set "
         "method=draft_model, or give an EAGLE-3 head"),
        ("eagle", LLAMA,
         "is a plain language model (LlamaForCausalLM), which eagle cannot draft with; set "
         "method=draft_model, or give an EAGLE head"),
        ("eagle", EAGLE3,
         "is an EAGLE-3 head (LlamaForCausalLMEagle3), which eagle cannot draft with; set "
         "method=eagle3, or give an EAGLE head"),
        ("eagle3", LLAMA | {"architectures": ["EagleLlamaForCausalLM"]},
         "is an EAGLE head (EagleLlamaForCausalLM), which eagle3 cannot draft with; set "
         "method=eagle, or give an EAGLE-3 head"),
        ("draft_model", EAGLE3,
         "is an EAGLE-3 head (LlamaForCausalLMEagle3), which draft_model cannot draft with; set "
         "method=eagle3, or give a language model"),
        ("draft_model", {"model_type": "medusa"},
         "is Medusa heads (medusa), which draft_model cannot draft with; set method=medusa, or "
         "give a language model"),
        ("draft_model", LLAMA | {"model_type": "qwen3_5", "architectures": ["Qwen3_5ForCausalLM"]},
         "has model_type qwen3_5, which vLLM turns into its MTP layers and method mtp when it is "
         "given as a draft; draft with another model, or with method=mtp"),
        ("medusa", LLAMA,
         "is a plain language model (LlamaForCausalLM), which medusa cannot draft with; set "
         "method=draft_model, or give Medusa heads"),
        ("dflash", EAGLE3,
         "is an EAGLE-3 head (LlamaForCausalLMEagle3), which dflash cannot draft with; set "
         "method=eagle3, or give a DFlash head"),
    ],
)  # fmt: skip
def test_weights_of_another_method_are_a_mistake(
    pair: Pair, method: str, config: dict[str, Any], words: str
) -> None:
    draft = pair.draft(config)
    assert pair.check(method, draft) == mistake(f"{WHERE}.model: {draft} {words}")


@pytest.mark.parametrize(
    ("method", "config"),
    [
        ("eagle", LLAMA | {"num_hidden_layers": 1}),
        ("eagle", LLAMA | {"architectures": ["EagleLlamaForCausalLM"]}),
        ("eagle3", LLAMA | {"architectures": ["Eagle3LlamaForCausalLM"]}),
        ("eagle3", {"speculators_model_type": "eagle3", "transformer_layer_config": LLAMA}),
        ("medusa", {"medusa_num_heads": 5, "medusa_num_layers": 1}),
        ("dflash", LLAMA | {"architectures": ["DFlashDraftModel"]}),
    ],
)
def test_weights_of_the_method_are_known_by_their_names(
    pair: Pair, method: str, config: dict[str, Any]
) -> None:
    assert pair.check(method, pair.draft(config)) == Findings()


def test_mtp_needs_a_target_that_has_the_layers(tmp_path: Path) -> None:
    plain = checkpoint(tmp_path / "plain", LLAMA)
    assert check_checkpoints(point("mtp", target__model=plain), 10) == mistake(
        f"{WHERE}.model: {plain} has no MTP layers (model_type llama); use another method"
    )
    deep = checkpoint(
        tmp_path / "deep", LLAMA | {"model_type": "deepseek_v3", "num_nextn_predict_layers": 2}
    )
    assert check_checkpoints(point("mtp", target__model=deep), 10) == Findings()


def test_gamma_is_a_multiple_of_what_the_layers_predict(tmp_path: Path) -> None:
    deep = checkpoint(
        tmp_path / "deep", LLAMA | {"model_type": "deepseek_v3", "num_nextn_predict_layers": 2}
    )
    odd = point("mtp", target__model=deep, speculative={GAMMA: 5}, gamma=5)
    assert check_checkpoints(odd, 10) == mistake(
        f"gamma: 5: {deep} predicts 2 tokens at a time (n_predict); above that a multiple of 2"
    )


def test_gamma_left_out_is_what_the_checkpoint_predicts(tmp_path: Path) -> None:
    deep = checkpoint(
        tmp_path / "deep", LLAMA | {"model_type": "deepseek_v3", "num_nextn_predict_layers": 2}
    )
    left_out = point("mtp", target__model=deep, speculative={GAMMA: None})
    asked = point("mtp", target__model=deep, speculative={GAMMA: 2}, gamma=2)
    assert (left_out.gamma, left_out.key) == (2, asked.key)
    assert left_out.warnings == ("γ was left out; vLLM takes 2 from n_predict",)


def test_more_gamma_than_medusa_heads_is_a_mistake(pair: Pair) -> None:
    draft = pair.draft({"model_type": "medusa", "medusa_num_heads": 3})
    assert pair.check("medusa", draft) == mistake(
        f"gamma: 4: {draft} has 3 Medusa heads, and vLLM would draft from 1 more without weights; "
        f"at most 3"
    )


def test_a_head_for_another_target_is_a_mistake(pair: Pair) -> None:
    draft = pair.draft(EAGLE3 | {"target_hidden_size": 128})
    assert pair.check("eagle3", draft) == mistake(
        f"{WHERE}.model: {draft} was made for a target with hidden_size 128, {pair.target} has "
        f"64; use a head trained for this target"
    )


# --- auxiliary layers -----------------------------------------------------------------------------


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("ids", [[2, 15, 27], [1, 10, 30], None])
def test_auxiliary_layers_the_target_has_are_right(
    pair: Pair, ids: list[int] | None, nested: bool
) -> None:
    keys = {"eagle_aux_hidden_state_layer_ids": ids}
    draft = pair.draft(EAGLE3 | ({"eagle_config": keys} if nested else keys))
    assert pair.check("eagle3", draft) == Findings()


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([2, 15, 31], "the target has layers 0 to 30; use its own head"),
        ([-1, 15, 27], "the target has layers 0 to 30; use its own head"),
        ([27, 15, 2],
         "vLLM reads layers once each in rising order, the head's weights another order; its "
         "config.json is wrong"),
        ([2, 2, 27],
         "vLLM reads layers once each in rising order, the head's weights another order; its "
         "config.json is wrong"),
    ],
)  # fmt: skip
def test_auxiliary_layers_that_cannot_be_are_mistakes(
    pair: Pair, ids: list[int], words: str
) -> None:
    draft = pair.draft(EAGLE3 | {"eagle_aux_hidden_state_layer_ids": ids})
    assert pair.check("eagle3", draft) == mistake(
        f"{WHERE}.model: eagle_aux_hidden_state_layer_ids {ids} of {draft}: {words}"
    )


def test_auxiliary_layers_off_by_one_are_suspected(pair: Pair) -> None:
    draft = pair.draft(EAGLE3 | {"eagle_aux_hidden_state_layer_ids": [1, 14, 26]})
    assert pair.check("eagle3", draft) == warning(
        f"{WHERE}.model: eagle_aux_hidden_state_layer_ids [1, 14, 26] of {draft}: one less each "
        f"than vLLM's own choice [2, 15, 27]: the numbers may be those of another framework "
        f"(SGLang adds 1); acceptance near 1 would say so"
    )


# --- what a checkpoint does besides ---------------------------------------------------------------


@pytest.mark.parametrize("method", ["none", "ngram"])
def test_a_target_that_speculates_by_itself_is_a_mistake(tmp_path: Path, method: str) -> None:
    target = checkpoint(
        tmp_path / "speculator",
        {
            "speculators_model_type": "eagle3",
            "speculators_config": {"verifier": {"name_or_path": "org/verifier"}},
            "transformer_layer_config": LLAMA,
        },
    )
    assert check_checkpoints(point(method, target__model=target), 10) == mistake(
        f"target.model: {target} is a speculators checkpoint: vLLM would serve its verifier "
        f"org/verifier and speculate (eagle3), also for the baseline; set "
        f"target.model=org/verifier and {WHERE}.model={target}"
    )


def test_quantised_weights_are_said(pair: Pair) -> None:
    draft = pair.draft(LLAMA | {"quantization_config": {"quant_method": "fp8"}})
    assert pair.check("draft_model", draft) == warning(f"the draft {draft} is quantised (fp8)")


def test_gated_weights_are_said(tmp_path: Path) -> None:
    repository = tmp_path / "models--org--gated"
    checkpoint(repository / "snapshots" / "main", LLAMA)
    card = "---\nlicense: llama3\nextra_gated_prompt: agree\n---\n# Model\n"
    (repository / "snapshots" / "main" / "README.md").write_text(card)
    asked = point("none", target__model="org/gated", server__env={"HF_HUB_CACHE": str(tmp_path)})
    assert check_checkpoints(asked, 10) == warning(
        "the target org/gated is gated on the hub: where this cache is not shared, the server "
        "needs HF_TOKEN of someone who was granted access"
    )


@pytest.mark.parametrize(("size", "right"), [(1, True), (4, True), (2, False)])
def test_a_head_is_split_like_the_target_or_not_at_all(pair: Pair, size: int, right: bool) -> None:
    found = pair.check(
        "eagle3",
        pair.draft(EAGLE3),
        speculative={"draft_tensor_parallel_size": size},
        server__args={"tensor_parallel_size": 4},
    )
    assert found == (
        Findings()
        if right
        else mistake(
            f"{WHERE}.draft_tensor_parallel_size: 2: 1 or the target's tensor_parallel_size=4"
        )
    )


def test_a_draft_model_split_otherwise_is_refused_by_one_runner(pair: Pair) -> None:
    found = pair.check(
        "draft_model",
        pair.draft(LLAMA),
        speculative={"draft_tensor_parallel_size": 1},
        server__args={"tensor_parallel_size": 4},
    )
    assert found == warning(
        f"{WHERE}.draft_tensor_parallel_size: 1: the V1 model runner refuses a draft_model that is "
        f"not split like the target (4)"
    )


# --- counting -------------------------------------------------------------------------------------

CHAT = (
    "{% for m in messages %}a{{ m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}c{% endif %}"
)
ASKED = (
    Prompt(id="short", messages=(Message(role="user", content="ab"),)),
    Prompt(id="long", messages=(Message(role="user", content="abcd"),)),
)


def with_template(tmp_path: Path) -> str:
    folder = checkpoint(tmp_path / "t", LLAMA)
    (Path(folder) / "tokenizer_config.json").write_text(json.dumps({"chat_template": CHAT}))
    return folder


def test_the_longest_prompt_is_counted_as_the_template_renders_it(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    target = with_template(tmp_path)
    asked = point("none", target__model=target)
    # a + (ab c d) + c: the merge makes one token of "ab".
    assert count_prompt_tokens(asked, ASKED) == 5
    assert count_prompt_tokens(asked, [Prompt(id="p", text="abab")]) == 2


def test_without_a_template_the_text_is_counted_with_some_room(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    target = checkpoint(tmp_path / "t", LLAMA)
    assert count_tokens(Path(target), ASKED) == 3 + 8


def test_a_target_that_is_not_here_cannot_count() -> None:
    assert count_prompt_tokens(point("none", target__model="/nowhere/t"), ASKED) is None


def test_a_broken_tokenizer_file_cannot_count(tmp_path: Path) -> None:
    folder = Path(checkpoint(tmp_path / "t", LLAMA))
    (folder / "tokenizer.json").write_text("{}")
    assert count_tokens(folder, ASKED) is None
