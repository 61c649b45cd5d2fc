"""Method rules: nothing dropped, nothing ignored, and one setting is one point."""

from __future__ import annotations

import ast
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sweeper.config import config_dir
from sweeper.plan.grid import plan
from sweeper.plan.legacy import RENAMED
from sweeper.plan.points import baseline_of
from sweeper.plan.rules import GAMMA, KEYS, NOT_YOURS, RULES, SCHEDULE
from sweeper.plan.schedule import canonical, schedule_mistakes
from sweeper.plan.speculative import Resolved, resolve
from sweeper.serve.command import argv
from sweeper.store import from_json, to_json
from sweeper.values import Job, Point
from tests.unit.asked import point, refusal

SAMPLE: dict[str, Any] = {
    "method": "ngram",
    "model": "/models/d",
    GAMMA: 4,
    SCHEDULE: [[1, 4, 4], [5, 8, 2]],
    "rejection_sample_method": "standard",
    "synthetic_acceptance_rates": [0.5],
    "synthetic_acceptance_length": 2.0,
    "draft_load_config": {"load_format": "dummy"},
    "draft_sample_method": "probabilistic",
    "suffix_decoding_min_token_prob": 0.5,
}
KIND_SAMPLE = {"whole": 2, "number": 2.0, "bool": True, "text": "x", "list": [], "mapping": {}}


def value_of(key: str) -> Any:
    return SAMPLE.get(key, KIND_SAMPLE[KEYS[key].kind])


def whole(method: str) -> dict[str, Any]:
    """The least mapping the method works with."""
    mapping: dict[str, Any] = {"method": method, GAMMA: 4}
    if method == "custom_class":
        return mapping | {"model": "pkg.Proposer"}
    return mapping | ({"model": "/models/d"} if "model" in RULES[method].needs else {})


def resolved(**speculative: Any) -> Resolved:
    found = resolve(speculative)
    assert found.mistakes == ()
    return found


def mistakes(**speculative: Any) -> tuple[str, ...]:
    return resolve(speculative).mistakes


# --- the tables against vLLM's own source ---------------------------------------------------------


def vllm_source() -> ast.Module:
    spec = importlib.util.find_spec("vllm")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("vLLM is not installed here")
    folder = Path(next(iter(spec.submodule_search_locations)))
    return ast.parse((folder / "config" / "speculative.py").read_text())


def test_the_table_has_every_field_of_vllms_speculative_config_and_no_other() -> None:
    body = next(
        node.body
        for node in vllm_source().body
        if isinstance(node, ast.ClassDef) and node.name == "SpeculativeConfig"
    )
    fields = {
        node.target.id
        for node in body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    assert fields == KEYS.keys() | NOT_YOURS.keys()


def test_there_is_a_rule_for_every_method_of_vllm() -> None:
    named = {
        node.targets[0].id: node.value
        for node in vllm_source().body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    literals = ("NgramGPUTypes", "DFlashModelTypes", "DSparkModelTypes", "EagleModelTypes",
                "MTPModelTypes", "SpeculativeMethod")  # fmt: skip
    methods = {
        part.value
        for name in literals
        for part in ast.walk(named[name])
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    }
    assert {"mtp" if m.endswith("_mtp") else m for m in methods} == set(RULES)


def test_a_method_reads_or_ignores_each_key_and_never_both() -> None:
    for rule in RULES.values():
        assert rule.reads | rule.ignores == KEYS.keys()
        assert not rule.reads & rule.ignores


# --- nothing dropped, nothing ignored -------------------------------------------------------------


@pytest.mark.parametrize("method", sorted(RULES))
@pytest.mark.parametrize("key", sorted(KEYS.keys() | NOT_YOURS.keys()))
def test_every_key_reaches_the_server_or_is_refused_by_name(method: str, key: str) -> None:
    mapping = whole(method)
    mapping.setdefault(key, 1 if key in NOT_YOURS else value_of(key))
    found = resolve(mapping)
    if found.mistakes:
        ours = [text for text in found.mistakes if key in text or "method.schedule" in text]
        assert ours or RULES[method].refused
    else:
        assert key in RULES[method].reads
        assert found.passed == mapping


def test_every_key_given_is_in_the_argv() -> None:
    given = {"prompt_lookup_max": 8, "rejection_sample_method": "standard"}
    asked = point("ngram", speculative=given)
    command = argv(asked.server)
    passed = json.loads(command[command.index("--speculative-config") + 1])
    assert passed == {
        "method": "ngram",
        GAMMA: 4,
        "prompt_lookup_min": 2,
        "prompt_lookup_max": 8,
        "rejection_sample_method": "standard",
    }


# Time is the machine's and says nothing here.
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(sorted(KEYS)), st.integers() | st.text() | st.booleans()))
def test_no_mapping_is_understood_in_part(mapping: dict[str, Any]) -> None:
    found = resolve(mapping)
    assert found.mistakes or dict(found.passed) == mapping


@pytest.mark.parametrize(
    ("method", "key", "value"),
    [
        ("ngram", "suffix_decoding_max_tree_depth", 8),
        ("ngram", "model", "/models/d"),
        ("suffix", "prompt_lookup_max", 8),
        ("suffix", "draft_tensor_parallel_size", 2),
        ("draft_model", "prompt_lookup_min", 2),
        ("eagle3", "use_heterogeneous_vocab", True),
        ("medusa", "draft_sample_method", "probabilistic"),
        ("mtp", "suffix_decoding_min_token_prob", 0.5),
        ("dflash", "parallel_drafting", True),
        ("ngram", "enforce_eager", True),
    ],
)
def test_a_key_the_method_ignores_is_refused(method: str, key: str, value: Any) -> None:
    assert resolve(whole(method) | {key: value}).mistakes == (
        f"method.speculative.{key}: {method} ignores it; a sweep over it would compare equal "
        f"points",
    )


def test_an_unknown_key_is_answered_with_the_one_meant() -> None:
    assert mistakes(method="ngram", num_speculative_tokens=4, promt_lookup_max=4) == (
        "method.speculative.promt_lookup_max: unknown key. Did you mean 'prompt_lookup_max'?",
    )


def test_an_unknown_method_is_answered_with_the_one_meant() -> None:
    assert mistakes(method="eagle-3", model="/d", num_speculative_tokens=4) == (
        "method.speculative.method: \"eagle-3\": no method of vLLM. Did you mean 'eagle3'?",
    )


def test_a_method_left_out_is_not_guessed() -> None:
    (sentence,) = mistakes(model="/models/x-eagle3", num_speculative_tokens=4)
    assert sentence.startswith(
        "method.speculative.method: missing; vLLM would guess eagle3 from /models/x-eagle3; write"
    )


def test_vllms_own_fields_are_not_settings() -> None:
    assert mistakes(method="eagle3", model="/d", num_speculative_tokens=2, tensor_parallel_size=2
                    ) == (
        "method.speculative.tensor_parallel_size: not yours to set: vLLM refuses it here; set "
        "draft_tensor_parallel_size",
    )  # fmt: skip


@pytest.mark.parametrize("method", ["mlp_speculator", "extract_hidden_states"])
def test_a_method_that_cannot_be_measured_says_why(method: str) -> None:
    assert resolve(whole(method)).mistakes == (
        f"method.speculative.method: {method}: {RULES[method].refused}",
    )


# --- what vLLM resolves ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_", "low", "high"),
    [({}, 5, 5), ({"prompt_lookup_min": 3}, 3, 3), ({"prompt_lookup_max": 7}, 7, 7),
     ({"prompt_lookup_min": 2, "prompt_lookup_max": 4}, 2, 4)],
)  # fmt: skip
def test_lookup_windows_are_five_or_each_other(given_: dict[str, int], low: int, high: int) -> None:
    found = resolved(method="ngram", num_speculative_tokens=4, **given_)
    assert dict(found.mapping) == {
        "method": "ngram", GAMMA: 4, "prompt_lookup_min": low, "prompt_lookup_max": high,
    }  # fmt: skip


def test_a_window_that_ends_before_it_starts_is_refused() -> None:
    assert mistakes(method="ngram", num_speculative_tokens=4, prompt_lookup_min=5,
                    prompt_lookup_max=3) == (
        "method.speculative.prompt_lookup_min: 5: more than prompt_lookup_max=3",
    )  # fmt: skip


def test_suffix_without_a_gamma_drafts_to_the_depth_of_its_tree_and_says_so() -> None:
    found = resolved(method="suffix", suffix_decoding_max_tree_depth=12)
    assert dict(found.mapping) == {
        "method": "suffix",
        GAMMA: 12,
        "suffix_decoding_max_tree_depth": 12,
        "suffix_decoding_max_cached_requests": 10000,
        "suffix_decoding_max_spec_factor": 1.0,
        "suffix_decoding_min_token_prob": 0.1,
    }
    assert found.warnings == ("γ was left out; vLLM takes 12 from suffix_decoding_max_tree_depth",)


def test_gamma_left_out_comes_from_the_checkpoint_where_it_says() -> None:
    given_ = {"method": "eagle3", "model": "/d"}
    assert resolve(given_).gamma is None
    assert resolve(given_, default_gamma=3).gamma == 3


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"method": "ngram", "num-speculative-tokens": 4}, {"method": "ngram", GAMMA: 4}),
        ({"model": "[ngram]", GAMMA: 4}, {"method": "ngram", GAMMA: 4}),
        ({"method": "ngram", "model": "ngram", GAMMA: 4}, {"method": "ngram", GAMMA: 4}),
        ({"method": "ngram", GAMMA: 4}, {"method": "ngram", GAMMA: 4, "prompt_lookup_min": 5}),
        ({"method": "suffix"}, {"method": "suffix", GAMMA: 24}),
        ({"method": "suffix", "suffix_decoding_max_spec_factor": 1}, {"method": "suffix"}),
        (
            {"method": "ngram", GAMMA: 4, "rejection_sample_method": "standard"},
            {"method": "ngram", GAMMA: 4},
        ),
        (
            {"method": "deepseek_mtp", "model": "/t", GAMMA: 1},
            {"method": "mtp", "model": "/t", GAMMA: 1},
        ),
        (
            {"method": "eagle3", "model": "/d/", GAMMA: 2, "attention_backend": "flash_attn"},
            {"method": "eagle3", "model": "/d", GAMMA: 2, "attention_backend": "FLASH_ATTN"},
        ),
        (
            {"method": "eagle3", "model": "/d", GAMMA: 2, "draft_tensor_parallel_size": 1},
            {"method": "eagle3", "model": "/d", GAMMA: 2, "attention_backend": "auto"},
        ),
        (
            {"model": "pkg.Mine", GAMMA: 4},
            {"method": "custom_class", "model": "pkg.Mine", GAMMA: 4},
        ),
    ],
)
def test_two_spellings_resolve_to_one_setting(one: dict[str, Any], other: dict[str, Any]) -> None:
    first, second = resolve(one), resolve(other)
    assert (first.mistakes, second.mistakes) == ((), ())
    assert first.text == second.text


def test_a_mapping_under_another_name_is_the_same_point() -> None:
    same = {"method": "ngram", "prompt_lookup_min": 2, "prompt_lookup_max": 4}
    one, other = point("ngram"), point("custom", speculative=same)
    assert (one.key, one.server.key, one.label) == (other.key, other.server.key, other.label)
    jobs = [Job(number=n, overrides=(), point=p) for n, p in enumerate((one, other))]
    (planned,) = plan(jobs, baseline="off").points
    assert planned.jobs == (0, 1)


def test_the_head_of_a_custom_mapping_counts_as_trained() -> None:
    asked = point("custom", speculative={"method": "eagle3", "model": "/d"})
    assert asked.trained_draft
    assert asked.key == point("eagle3").key


def test_other_settings_are_other_points() -> None:
    keys = {
        point("ngram", speculative=changed).key
        for changed in ({}, {"prompt_lookup_max": 5}, {GAMMA: 5})
    }
    assert len(keys) == 3


def test_the_baseline_of_a_resolved_point_is_that_of_method_none() -> None:
    asked = point("suffix", speculative={GAMMA: None})
    assert asked.warnings
    assert baseline_of(asked) == point("none")
    assert baseline_of(asked).conditions == asked.conditions


def test_a_resolved_point_survives_its_file() -> None:
    asked = point("suffix", speculative={GAMMA: None})
    assert from_json(Point, json.loads(json.dumps(to_json(asked)))) == asked


# --- γ --------------------------------------------------------------------------------------------


def test_a_gamma_of_its_own_in_the_mapping_is_what_counts_and_is_said() -> None:
    asked = point("ngram", speculative={GAMMA: 6}, gamma=4)
    assert asked.gamma == 6
    assert asked.warnings == (
        "gamma=4 is not used: method.speculative.num_speculative_tokens=6 is",
    )


def test_large_gammas_want_permission() -> None:
    changes: dict[str, Any] = {"speculative": {GAMMA: 17}, "gamma": 17}
    assert refusal("ngram", **changes) == ["gamma: 17: between 1 and 16; or allow_large_gamma=true"]
    assert point("ngram", **changes, allow_large_gamma=True).gamma == 17


def test_no_permission_goes_past_what_the_sampler_asserts() -> None:
    changes = {"speculative": {GAMMA: 129}, "gamma": 129, "allow_large_gamma": True}
    assert refusal("ngram", **changes) == [
        "gamma: 129: at most 128, whatever allow_large_gamma says: the sampler of vLLM's V1 model "
        "runner asserts it while it serves"
    ]


def test_a_gamma_of_nothing_is_no_speculation() -> None:
    assert refusal("ngram", speculative={GAMMA: 0}, gamma=0) == [
        "gamma: 0: between 1 and 16, or method=none"
    ]


def test_a_gamma_only_the_missing_checkpoint_knows_must_be_given() -> None:
    assert refusal("eagle3", speculative={GAMMA: None}) == [
        "method.speculative.num_speculative_tokens: left out, and /d does not say it here "
        "(n_predict in its config.json); set gamma"
    ]


def test_a_lookup_needs_a_gamma() -> None:
    assert refusal("ngram", speculative={GAMMA: None}) == [
        "method.speculative.num_speculative_tokens: ngram needs it; set gamma"
    ]


SYNTHETIC = {"rejection_sample_method": "synthetic", "synthetic_acceptance_length": 2.5}


def test_synthetic_acceptance_has_to_be_asked_for() -> None:
    sentence = (
        "method.speculative.rejection_sample_method: synthetic acceptance is not a measurement of "
        "the model; remove it, or measure a control with control=synthetic"
    )
    assert refusal("ngram", speculative=SYNTHETIC) == [sentence]
    asked = point("ngram", speculative=SYNTHETIC, control="synthetic")
    assert asked.control == "synthetic"
    assert asked.server.speculative is not None
    assert asked.server.speculative["synthetic_acceptance_length"] == 2.5
    assert asked.warnings == (
        "control=synthetic: every row says SYNTHETIC and no verdict is given",
    )
    base = baseline_of(asked)
    assert base.control == "synthetic"  # a row of the control too
    assert base.key != baseline_of(point("ngram")).key


def test_a_control_without_synthetic_acceptance_is_refused() -> None:
    assert refusal("ngram", control="synthetic") == [
        "control: synthetic: ngram verifies its drafts; set "
        "+method.speculative.rejection_sample_method=synthetic, or control=none"
    ]
    both = SYNTHETIC | {"synthetic_acceptance_rates": [0.5, 0.5, 0.5, 0.5]}
    assert refusal("ngram", speculative=both, control="synthetic") == [
        "method.speculative.rejection_sample_method: synthetic: give one of "
        "synthetic_acceptance_rates and synthetic_acceptance_length"
    ]


def test_several_mistakes_are_told_at_once() -> None:
    changed = {"model": None, "prompt_lookup_max": 3, "rejection_sample_method": "synthetic"}
    assert refusal("eagle3", speculative=changed) == [
        "method.speculative.model: eagle3 needs a draft checkpoint made for the target; set "
        "target.drafts.eagle3=PATH or method.speculative.model=PATH",
        "method.speculative.prompt_lookup_max: eagle3 ignores it; a sweep over it would compare "
        "equal points",
        "method.speculative.rejection_sample_method: synthetic acceptance is not a measurement of "
        "the model; remove it, or measure a control with control=synthetic",
    ]


@pytest.mark.parametrize(
    ("mapping", "sentence"),
    [
        (whole("draft_model") | {"use_heterogeneous_vocab": True,
                                 "draft_sample_method": "probabilistic"},
         "draft_sample_method: probabilistic: use_heterogeneous_vocab drafts greedily only"),
        (whole("eagle3") | {"use_local_argmax_reduction": True,
                            "draft_sample_method": "probabilistic"},
         "draft_sample_method: probabilistic: needs the logits that use_local_argmax_reduction "
         "does not make"),
        (whole("eagle3") | {"parallel_drafting": True, "disable_padded_drafter_batch": True},
         "disable_padded_drafter_batch: true: parallel_drafting works with padded batches only"),
        (whole("suffix") | {"rejection_sample_method": "block"},
         "rejection_sample_method: block: suffix runs on the V1 model runner, which would verify "
         "as standard without a word"),
        (whole("ngram") | {"synthetic_acceptance_length": 2.5},
         "synthetic_acceptance_length: read with rejection_sample_method=synthetic only; remove "
         "it"),
        (whole("custom_class") | {"model": "org/name"},
         "model: org/name: custom_class needs an import path such as pkg.Class"),
        (whole("suffix") | {"suffix_decoding_min_token_prob": 1.5},
         "suffix_decoding_min_token_prob: 1.5: at most 1"),
        (whole("eagle3") | {"draft_tensor_parallel_size": 0},
         "draft_tensor_parallel_size: 0: at least 1"),
        (whole("eagle3") | {"draft_sample_method": "greedly"},
         'draft_sample_method: "greedly": one of greedy, probabilistic'),
        (whole("eagle3") | {"revision": 7},
         "revision: 7: text"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(mapping: dict[str, Any], sentence: str) -> None:
    assert resolve(mapping).mistakes == (f"method.speculative.{sentence}",)


def test_a_verification_only_one_runner_knows_is_a_warning() -> None:
    assert resolved(**whole("eagle3"), rejection_sample_method="block").warnings == (
        "method.speculative.rejection_sample_method: block works on the V2 model runner only; V1 "
        "(on a CPU, without Triton, with VLLM_USE_V2_MODEL_RUNNER=0) verifies as standard",
    )


def test_two_spellings_of_one_key_are_refused() -> None:
    assert resolve({"method": "ngram", GAMMA: 4, "num-speculative-tokens": 4}).mistakes == (
        "method.speculative.num-speculative-tokens: given twice in two spellings; keep one",
    )


# --- names of earlier versions --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "today", "value", "method"),
    [
        ("speculative_model", "model", "/models/d", "eagle3"),
        ("speculative_draft_tensor_parallel_size", "draft_tensor_parallel_size", 1, "eagle3"),
        ("speculative_max_model_len", "max_model_len", 512, "eagle3"),
        ("speculative_model_quantization", "quantization", "fp8", "eagle3"),
        ("ngram_prompt_lookup_max", "prompt_lookup_max", 4, "ngram"),
        ("ngram_prompt_lookup_min", "prompt_lookup_min", 2, "ngram"),
        ("suffix_cache_max_depth", "suffix_decoding_max_tree_depth", 12, "suffix"),
    ],
)
def test_an_old_name_is_taken_as_todays_and_said(
    old: str, today: str, value: Any, method: str
) -> None:
    base = {k: v for k, v in whole(method).items() if k != today}
    found = resolved(**base, **{old: value})
    assert found.text == resolved(**base, **{today: value}).text
    assert found.passed[today] == value
    assert old not in found.passed
    assert found.warnings == (
        f"method.speculative.{old} is vLLM's old name of {today}; taken as that",
    )


def test_old_and_new_name_together_are_refused() -> None:
    assert mistakes(method="ngram", num_speculative_tokens=4, prompt_lookup_max=4,
                    ngram_prompt_lookup_max=4) == (
        "method.speculative.ngram_prompt_lookup_max: the old name of prompt_lookup_max, which is "
        "given too; keep one",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("old", "value", "instead"),
    [
        ("speculative_disable_by_batch_size", 16,
         "gone from vLLM; what replaced it is a schedule by batch size: "
         "method.schedule=[[1,15,4],[16,16,0]] stops drafting at 16 requests"),
        ("spec_decoding_acceptance_method", "typical_acceptance_sampler",
         "gone from vLLM together with typical acceptance; the rejection sampler is the only one "
         "left (rejection_sample_method standard or block); remove it"),
        ("typical_acceptance_sampler_posterior_alpha", 0.3,
         "gone from vLLM together with typical acceptance; the rejection sampler is the only one "
         "left (rejection_sample_method standard or block); remove it"),
        ("enable_suffix_decoding", True,
         "a key of Arctic Inference's plug-in; set method=suffix"),
    ],
)  # fmt: skip
def test_an_old_name_without_a_successor_is_refused(old: str, value: Any, instead: str) -> None:
    assert resolve(whole("ngram") | {old: value}).mistakes == (
        f"method.speculative.{old}: {instead}",
    )


def test_old_flags_of_the_server_are_refused_with_their_place_today() -> None:
    args = {
        "speculative_model": "/models/d",
        "num-speculative-tokens": 5,
        "ngram_prompt_lookup_max": 4,
        "speculative_disable_by_batch_size": 8,
    }
    assert refusal("none", server__args=args) == [
        "server.args.speculative_model: vLLM has no such flag any more; set "
        "method.speculative.model=/models/d",
        "server.args.num-speculative-tokens: vLLM has no such flag any more; set gamma=5",
        "server.args.ngram_prompt_lookup_max: vLLM has no such flag any more; set "
        "method.speculative.prompt_lookup_max=4",
        "server.args.speculative_disable_by_batch_size: gone from vLLM; what replaced it is a "
        "schedule by batch size: method.schedule=[[1,7,4],[8,8,0]] stops drafting at 8 requests",
    ]


# --- dynamic schedules ----------------------------------------------------------------------------

SCHEDULES = [[1, 4, 4], [5, 16, 2], [17, 256, 0]]


def test_a_schedule_is_passed_as_it_was_written() -> None:
    asked = point("ngram", method__schedule=SCHEDULES)
    assert (asked.server.speculative or {})[SCHEDULE] == SCHEDULES
    assert (asked.server.resolved or {})[SCHEDULE] == [[1, 4], [5, 2], [17, 0]]
    assert asked.warnings == (
        "method.schedule: this load has at most 1 requests under way, so [5, 16, 2] and later "
        "ranges are never used",
    )


def test_schedules_that_do_the_same_are_one_point() -> None:
    other = [[17, 30, 0], [1, 2, 4], [5, 5, 2]]
    assert (
        point("ngram", method__schedule=SCHEDULES).key == point("ngram", method__schedule=other).key
    )
    assert point("ngram", method__schedule=SCHEDULES).key != point("ngram").key


def test_a_schedule_above_gamma_is_cut_and_said() -> None:
    asked = point("ngram", method__schedule=[[1, 8, 6]])
    assert asked.warnings == ("method.schedule: K=6 is cut to γ=4; raise gamma",)
    assert canonical([[1, 8, 6]], 4) == [[1, 4]]


SHAPE = "a list of [first, last, K] with whole numbers, such as [[1,4,4],[5,16,2],[17,256,0]]"


@pytest.mark.parametrize(
    ("schedule", "sentence"),
    [
        ([], f"s: []: {SHAPE}"),
        ("1,4,4", f's: "1,4,4": {SHAPE}'),
        ([[1, 4]], f"s: [1, 4]: {SHAPE}"),
        ([[1, 4, 2.0]], f"s: [1, 4, 2.0]: {SHAPE}"),
        ([[1, True, 2]], f"s: [1, true, 2]: {SHAPE}"),
        ([[0, 4, 2]], "s: [0, 4, 2]: batch sizes are at least 1"),
        ([[4, 1, 2]], "s: [4, 1, 2]: the range ends before it starts"),
        ([[1, 4, -1]], "s: [1, 4, -1]: K is at least 0 (0 drafts nothing)"),
        ([[2, 4, 2]], "s: starts at batch size 2; the first range must start at 1"),
        ([[1, 4, 2], [4, 8, 1]], "s: [1, 4, 2] and [4, 8, 1] overlap; a batch size has one K"),
        ([[1, 4, 0]], "s: K is 0 everywhere, so nothing is ever drafted; use method=none"),
    ],
)
def test_a_wrong_schedule_is_refused_in_the_plan(schedule: Any, sentence: str) -> None:
    assert schedule_mistakes(schedule, "s") == [sentence]


@pytest.mark.parametrize("method", ["suffix", "medusa", "ngram_gpu"])
def test_methods_of_a_fixed_width_allow_no_schedule(method: str) -> None:
    assert refusal(method, method__schedule=[[1, 4, 2]]) == [
        f"method.schedule: {method} allows none: its drafter asserts that every step drafts "
        f"exactly γ tokens and kills the engine"
    ]


@pytest.mark.parametrize("method", ["ngram", "draft_model", "eagle", "eagle3", "mtp"])
def test_the_other_methods_take_one(method: str) -> None:
    asked = point(method, method__schedule=[[1, 1, 2]])
    assert (asked.server.speculative or {})[SCHEDULE] == [[1, 1, 2]]


def test_a_schedule_in_two_places_is_refused() -> None:
    assert refusal("ngram", speculative={SCHEDULE: [[1, 4, 2]]}, method__schedule=[[1, 4, 2]]) == [
        "method.speculative.num_speculative_tokens_per_batch_size: method.schedule is given too; "
        "keep one"
    ]


def test_data_parallel_servers_would_drop_the_schedule() -> None:
    changes = {"method__schedule": [[1, 1, 2]], "server__args": {"data_parallel_size": 2}}
    assert refusal("ngram", **changes) == [
        "method.schedule: vLLM drops it with data_parallel_size above 1; remove one of them"
    ]


def test_a_schedule_means_nothing_to_the_baseline() -> None:
    assert point("none", method__schedule=SCHEDULES).key == point("none").key


# --- the shipped files and their page -------------------------------------------------------------

FILES = sorted(file.stem for file in (config_dir() / "method").glob("*.yaml"))


@pytest.mark.parametrize("name", FILES)
def test_every_shipped_file_is_a_point_or_says_what_it_lacks(name: str) -> None:
    if name == "custom":
        (sentence,) = refusal(name)
        assert sentence.startswith("method.speculative.method: missing; write one of ")
        return
    asked = point(name)
    assert (asked.method, asked.warnings) == (name, ())
    assert asked.is_baseline or asked.trained_draft is RULES[name].trained


def test_one_file_is_a_new_method() -> None:
    wide = {"method": "ngram", GAMMA: 4, "prompt_lookup_min": 6, "prompt_lookup_max": 12}
    asked = point("ngram", method__name="ngram_wide", method__speculative=wide)
    assert asked.label == "ngram_wide γ=4"
    assert asked.key != point("ngram").key


def test_the_page_shows_the_tables_as_they_are() -> None:
    page = (config_dir().parent / "docs" / "methods.md").read_text()
    for rule in RULES.values():
        if rule.refused:
            assert f"`{rule.name}`" in page
            continue
        cells = (
            f"`{rule.name}`",
            ", ".join(f"`{key}`" for key in sorted(rule.needs)) or "–",
            ", ".join(f"`{key}`" for key in sorted(rule.allows - rule.needs)) or "–",
            "no" if rule.no_schedule else "yes",
        )
        assert f"| {' | '.join(cells)} |" in page
    for old, today in RENAMED.items():
        assert f"| `{old}` | `{today}` |" in page
