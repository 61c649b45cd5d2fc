"""The engine settings of a rollout server, as a specification.

1. What is set arrives, unchanged, or is refused with its name.
2. The default is off, and adds nothing.
3. Round trips lose nothing.
4. Old names mean today's, and say so; names that are gone are refused with what replaced them.
5. Speculation that would not be what was asked for does not get out.
6. Importing it costs no vLLM, no Hydra, no MLflow.

Settings are drawn by hypothesis wherever a sentence is about all of them (``engine_settings.py``).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from sweeper.errors import ConfigError
from sweeper.plan.legacy import RENAMED, is_old_flag
from sweeper.rollout import VLLMServerConfig, validate_speculative
from tests.unit.engine_settings import (
    anything,
    as_text,
    engine_args,
    flags_of,
    given,
    quietly,
    refusal,
    speculation,
)


class TestWhatIsSetArrives:
    @given(asked=anything)
    def test_every_setting_of_any_mapping_arrives_or_is_named(self, asked: dict[str, Any]) -> None:
        try:
            found = quietly({"model": "m", **asked}).to_vllm_kwargs()
        except ConfigError as problem:
            assert any(name in str(problem) for name in (*asked, "speculative_config"))
            return
        spec = found.get("speculative_config", {})
        for name, value in asked.items():
            today = RENAMED.get(name, name.removeprefix("--").replace("-", "_"))
            if name == "speculative_config":
                assert (value or {}).items() <= spec.items()
            else:
                place = spec if is_old_flag(name) else found
                assert place.get(today) == value  # nothing is what null arrives as

    @given(engine=engine_args, spec=speculation)
    def test_in_vllms_arguments_unchanged(self, engine: dict[str, Any], spec: Any) -> None:
        asked = {"model": "m", "speculative_config": spec, **engine}
        assert VLLMServerConfig.from_mapping(asked).to_vllm_kwargs() == asked

    @given(engine=engine_args, spec=speculation)
    def test_on_vllms_command_line_or_refused_by_name(
        self, engine: dict[str, Any], spec: Any
    ) -> None:
        config = VLLMServerConfig(model="m", speculative_config=spec, engine_args=engine)
        try:
            argv = config.to_cli()
        except ConfigError as problem:
            named = {line.split(":", 1)[0] for line in str(problem).splitlines()}
            assert named and named <= set(engine)
            assert all(isinstance(engine[name], list) for name in named)
            return
        assert argv[:3] == ["vllm", "serve", "m"]
        found = flags_of(argv[3:])
        assert json.loads(found.pop("speculative_config")) == spec
        assert found == {name: as_text(value) for name, value in engine.items()}

    @given(spec=speculation)
    def test_the_speculative_config_is_one_item_of_the_argv_whatever_is_in_it(
        self, spec: dict[str, Any]
    ) -> None:
        spaced = spec | ({"model": "/models/my 'own' draft"} if "model" in spec else {})
        argv = VLLMServerConfig.from_mapping({"model": "a b", "speculative_config": spaced})
        try:
            found = argv.to_cli()
        except ConfigError as problem:  # there is no such folder
            assert "/models/my 'own' draft is not there" in str(problem)
            return
        assert json.loads(found[found.index("--speculative-config") + 1]) == spaced
        assert found[2] == "a b"

    @given(engine=engine_args, spec=speculation)
    def test_whatever_the_caller_does_to_its_own_mappings_later(
        self, engine: dict[str, Any], spec: Any
    ) -> None:
        config = VLLMServerConfig(model="m", speculative_config=spec, engine_args=engine)
        kept = config.to_vllm_kwargs()
        spec.clear()
        engine.clear()
        config.to_vllm_kwargs()["speculative_config"].clear()
        assert config.to_vllm_kwargs() == kept

    @pytest.mark.parametrize("spelling", ["max-num-seqs", "--max_num_seqs", "max_num_seqs"])
    def test_in_any_of_vllms_spellings(self, spelling: str) -> None:
        config = VLLMServerConfig.from_mapping({"model": "m", spelling: 8})
        assert config.to_vllm_kwargs() == {"model": "m", "max_num_seqs": 8}

    @pytest.mark.parametrize(
        ("settings", "sentence"),
        [
            ({"max-num-seqs": 1, "max_num_seqs": 2},
             "max_num_seqs: given twice in two spellings; keep one"),
            ({"max num seqs": 1},
             "max num seqs: no name of an engine argument; such as max_model_len"),
            ({"spec_tokens": 4}, "spec_tokens: set speculative_config.num_speculative_tokens"),
            ({"speculative_config": {}},
             "speculative_config: {}: a mapping with method, or null for no speculation"),
            ({"speculative_config": "{'method':"},
             "speculative_config: not JSON: Expecting property name enclosed in double quotes: "
             "line 1 column 2 (char 1)"),
        ],
    )  # fmt: skip
    def test_or_is_refused_with_its_name(self, settings: Any, sentence: str) -> None:
        assert refusal(**settings) == [sentence]

    def test_the_model_must_be_there(self) -> None:
        with pytest.raises(ConfigError, match=r"^model: missing$"):
            VLLMServerConfig.from_mapping({"dtype": "auto"})


class TestTheDefaultIsOff:
    def test_and_adds_nothing(self) -> None:
        assert VLLMServerConfig(model="m").to_vllm_kwargs() == {"model": "m"}
        assert VLLMServerConfig(model="m").to_cli() == ["vllm", "serve", "m"]
        validate_speculative(VLLMServerConfig(model="m"))

    @given(engine=engine_args)
    def test_and_adds_nothing_to_other_settings(self, engine: dict[str, Any]) -> None:
        off = {"speculative_config": None, "speculative_model": None, "tensor_parallel_size": None}
        config = VLLMServerConfig.from_mapping({"model": "m", **off, **engine})
        assert config == VLLMServerConfig.from_mapping({"model": "m", **engine})
        assert config.to_vllm_kwargs() == {"model": "m", **engine}


class TestRoundTrips:
    @given(
        engine=engine_args,
        spec=speculation | st.none(),
        size=st.none() | st.integers(1, 8),
        share=st.none() | st.floats(0.1, 1.0),
        length=st.none() | st.integers(1, 10**6) | st.sampled_from(["auto", "32k"]),
    )
    def test_through_vllms_arguments(
        self, engine: dict[str, Any], spec: Any, size: Any, share: Any, length: Any
    ) -> None:
        config = VLLMServerConfig(
            model="m",
            tensor_parallel_size=size,
            gpu_memory_utilization=share,
            dtype="bfloat16",
            max_model_len=length,
            speculative_config=spec,
            engine_args=engine,
        )
        assert VLLMServerConfig.from_mapping(config.to_vllm_kwargs()) == config

    @given(spec=speculation)
    def test_through_the_json_that_wrappers_pass(self, spec: Any) -> None:
        text = VLLMServerConfig(model="m", speculative_config=json.dumps(spec))
        assert text == VLLMServerConfig(model="m", speculative_config=spec)

    @given(spec=speculation)
    def test_through_the_names_of_earlier_versions(self, spec: dict[str, Any]) -> None:
        old = {today: before for before, today in RENAMED.items()}
        before = {old.get(name, name): value for name, value in spec.items()}
        flat = {k: before.pop(k) for k in list(before) if is_old_flag(k)}
        again = quietly({"model": "m", **flat, "speculative_config": before or None})
        assert again == VLLMServerConfig(model="m", speculative_config=spec)


class TestOldNames:
    def test_mean_todays_and_name_them(self) -> None:
        with pytest.warns(DeprecationWarning) as caught:
            config = VLLMServerConfig(
                model="m",
                speculative_method="eagle3",
                speculative_model="org/head",
                num_speculative_tokens=3,
                speculative_draft_tensor_parallel_size=1,
            )
        assert config.to_vllm_kwargs()["speculative_config"] == {
            "method": "eagle3",
            "model": "org/head",
            "num_speculative_tokens": 3,
            "draft_tensor_parallel_size": 1,
        }
        assert [str(one.message) for one in caught] == [
            f"{old} is vLLM's old name of speculative_config.{new}; taken as that"
            for old, new in (
                ("speculative_method", "method"),
                ("speculative_model", "model"),
                ("num_speculative_tokens", "num_speculative_tokens"),
                ("speculative_draft_tensor_parallel_size", "draft_tensor_parallel_size"),
            )
        ]

    def test_a_model_alone_was_a_draft_model(self) -> None:
        settings = {
            "model": "m",
            "speculative_model": "org/draft",
            "num_speculative_tokens": 5,
            "speculative_draft_tensor_parallel_size": 1,
        }
        with pytest.warns(DeprecationWarning) as caught:
            config = VLLMServerConfig.from_mapping(settings)
        assert str(caught[0].message) == (
            "speculative_model without a method: taken as speculative_config.method=draft_model"
        )
        assert config.to_vllm_kwargs()["speculative_config"] == {
            "method": "draft_model",
            "model": "org/draft",
            "num_speculative_tokens": 5,
            "draft_tensor_parallel_size": 1,
        }

    @pytest.mark.parametrize(("old", "today"), sorted(RENAMED.items()))
    def test_every_one_of_them_flat_or_inside(self, old: str, today: str) -> None:
        sentence = f"^{old} is vLLM's old name of speculative_config.{today}; taken as that$"
        with pytest.warns(DeprecationWarning, match=sentence):
            flat = VLLMServerConfig.from_mapping({"model": "m", old: 2})
        with pytest.warns(DeprecationWarning, match=sentence):
            inside = VLLMServerConfig(model="m", speculative_config={old: 2})
        assert flat == inside == VLLMServerConfig(model="m", speculative_config={today: 2})

    @pytest.mark.parametrize("build", [VLLMServerConfig.from_mapping, lambda s: quietly_not(s)])
    def test_the_warning_is_about_the_callers_own_line(self, build: Any) -> None:
        with pytest.warns(DeprecationWarning) as caught:
            build({"model": "m", "speculative_model": "[ngram]"})
        assert {one.filename for one in caught} == {__file__}

    def test_given_in_both_spellings_are_refused(self) -> None:
        config = {"method": "eagle3", "model": "org/a", "num_speculative_tokens": 4}
        assert refusal(speculative_model="org/b", speculative_config=config) == [
            "speculative_config.speculative_model: the old name of model, which is given too; "
            "keep one"
        ]
        assert refusal(num_speculative_tokens=2, speculative_config=config) == [
            "num_speculative_tokens: given in speculative_config too; keep one"
        ]

    @pytest.mark.parametrize(
        ("settings", "sentence"),
        [
            ({"speculative_disable_by_batch_size": 8, "num_speculative_tokens": 3},
             "speculative_config.speculative_disable_by_batch_size: gone from vLLM; what replaced "
             "it is a schedule by batch size: "
             "speculative_config.num_speculative_tokens_per_batch_size=[[1,7,3],[8,8,0]] stops "
             "drafting at 8 requests"),
            ({"spec_decoding_acceptance_method": "typical_acceptance_sampler"},
             "speculative_config.spec_decoding_acceptance_method: gone from vLLM together with "
             "typical acceptance; the rejection sampler is the only one left "
             "(rejection_sample_method standard or block); remove it"),
            ({"num_lookahead_slots": 4},
             "speculative_config.num_lookahead_slots: gone from vLLM, which counts the slots "
             "itself; remove it"),
        ],
    )  # fmt: skip
    def test_that_are_gone_are_refused_with_what_replaced_them(
        self, settings: Any, sentence: str
    ) -> None:
        assert refusal(**settings) == [sentence]


def quietly_not(settings: Mapping[str, Any]) -> VLLMServerConfig:
    return VLLMServerConfig(**settings)


class TestSpeculationIsWhatWasAskedFor:
    @given(spec=speculation)
    def test_valid_settings_pass(self, spec: Any) -> None:
        validate_speculative(VLLMServerConfig(model="m", speculative_config=spec))

    @given(spec=speculation, gamma=st.integers(-3, 0) | st.integers(17, 300))
    def test_draft_tokens_are_1_to_16(self, spec: dict[str, Any], gamma: int) -> None:
        spec = {k: v for k, v in spec.items() if k != "suffix_decoding_max_tree_depth"}
        (sentence,) = refusal(speculative_config=spec | {"num_speculative_tokens": gamma})[:1]
        assert sentence.startswith(f"speculative_config.num_speculative_tokens: {gamma}: ")

    @pytest.mark.parametrize("method", ["draft_model", "eagle", "eagle3", "medusa", "dflash"])
    def test_a_method_that_needs_a_draft_has_one(self, method: str, tmp_path: Path) -> None:
        config = {"method": method, "num_speculative_tokens": 2}
        assert refusal(speculative_config=config) == [
            f"speculative_config.model: {method} needs a draft checkpoint made for the target; "
            f"set speculative_config.model=PATH"
        ]
        absent, empty = f"{tmp_path}/absent", tmp_path / "empty"
        empty.mkdir()
        assert refusal(speculative_config=config | {"model": absent}) == [
            f"speculative_config.model: {absent} is not there"
        ]
        assert refusal(speculative_config=config | {"model": str(empty)}) == [
            f"speculative_config.model: {empty} has no config.json"
        ]

    def test_no_key_of_another_method(self) -> None:
        config = {
            "method": "ngram",
            "num_speculative_tokens": 2,
            "suffix_decoding_max_tree_depth": 8,
        }
        assert refusal(speculative_config=config) == [
            "speculative_config.suffix_decoding_max_tree_depth: ngram ignores it; remove it"
        ]

    @given(target=st.integers(2, 8), draft=st.integers(2, 16))
    def test_the_draft_is_split_like_the_target_or_not_at_all(
        self, target: int, draft: int
    ) -> None:
        config = VLLMServerConfig(
            model="m",
            tensor_parallel_size=target,
            speculative_config={
                "method": "eagle3",
                "model": "org/head",
                "num_speculative_tokens": 2,
                "draft_tensor_parallel_size": draft,
            },
        )
        if draft == target:
            validate_speculative(config)
            return
        with pytest.raises(ConfigError) as caught:
            validate_speculative(config)
        assert str(caught.value) == (
            f"speculative_config.draft_tensor_parallel_size: {draft}: 1 or the target's "
            f"tensor_parallel_size={target}"
        )

    def test_the_method_is_one_of_vllms(self) -> None:
        (sentence,) = refusal(speculative_config={"method": "ngrams", "num_speculative_tokens": 2})
        assert sentence == (
            "speculative_config.method: \"ngrams\": no method of vLLM. Did you mean 'ngram'?"
        )


def test_importing_it_is_light() -> None:
    heavy = ("vllm", "torch", "hydra", "omegaconf", "mlflow", "pydantic", "numpy", "aiohttp")
    code = f"import sweeper.rollout, sys; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
