"""Every yaml composes to typed settings; every mistake gets its sentence."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from sweeper.config import Settings, config_dir, new_sweep_dir, register_resolvers, settings_from
from sweeper.errors import ConfigError


@pytest.fixture(autouse=True)
def hydra_here() -> Iterator[None]:
    register_resolvers()
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        yield


def settings(*overrides: str) -> Settings:
    return settings_from(compose("config", list(overrides)))


def mistakes(*overrides: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        settings(*overrides)
    return str(caught.value).splitlines()


def choices() -> list[tuple[str, str]]:
    folders = [f for f in config_dir().iterdir() if f.is_dir() and f.name != "hydra"]
    return sorted((f.name, path.stem) for f in folders for path in f.glob("*.yaml"))


NEEDS = {
    ("target", "own"): ["target.model=/somewhere"],
    ("dataset", "jsonl"): ["dataset.path=prompts.jsonl"],
    ("sampling", "own"): ["sampling.temperature=0.6"],
    ("server", "external"): ["server.base_url=http://127.0.0.1:8000"],
    ("quality", "judge_model"): ["quality.base_url=http://127.0.0.1:8000"],
}


@pytest.mark.parametrize("group,choice", choices())
def test_every_yaml_is_typed(group: str, choice: str) -> None:
    found = settings(f"{group}={choice}", *NEEDS.get((group, choice), []))
    assert isinstance(found, Settings)


def test_method_yaml_takes_gamma() -> None:
    found = settings("method=ngram", "gamma=7")
    assert found.method.speculative is not None
    assert found.method.speculative["num_speculative_tokens"] == 7


def test_all_mistakes_at_once_with_paths() -> None:
    assert mistakes(
        "+gama=3",
        "+sampling.temprature=2",
        "repeats=1.5",
        "gamma='4'",
        "target.revision=7e12345",
        "sampling.temperature=nan",
    ) == [
        "target.revision: Infinity: input should be a valid string; quote it, for example "
        "'target.revision=\"7e12345\"'",
        "sampling.temprature: unknown key. Did you mean 'temperature'?",
        'gamma: "4": input should be a valid integer; a whole number',
        "repeats: 1.5: input should be a valid integer; a whole number",
        "gama: unknown key. Did you mean 'gamma'?",
    ]


@pytest.mark.parametrize(
    "group,key",
    [
        ("target", "modle"),
        ("method", "speculativ"),
        ("dataset", "limt"),
        ("sampling", "top_pp"),
        ("load", "concurency"),
        ("server", "arg"),
        ("tracker", "uri"),
    ],
)
def test_an_unknown_key_in_every_group(group: str, key: str) -> None:
    (sentence,) = mistakes(f"+{group}.{key}=1")
    assert sentence.startswith(f"{group}.{key}: unknown key")


@pytest.mark.parametrize(
    "overrides,sentence",
    [
        (["sampling.temperature=nan"], "sampling.temperature: nan: a finite number, at least 0"),
        (["sampling.max_tokens=0"], "sampling.max_tokens: 0: at least 1"),
        (["dataset.limit=0"], "dataset.limit: at least 1, or null"),
        (["max_error_rate=2"], "max_error_rate: 2.0: between 0 and 1"),
        (["repeats=0"], "repeats: 0: at least 1"),
        (["budget=2"], "budget: 2.0: a time with its unit, such as 2h, 90m or 1h30m"),
        (["budget=soon"], "budget: soon: a time with its unit, such as 2h, 90m or 1h30m"),
        (["server=external"], "server.base_url: Missing mandatory value: base_url"),
        (["gamma=1_000.5"], "gamma: 1000.5: input should be a valid integer; a whole number"),
    ],
)
def test_values_out_of_range(overrides: list[str], sentence: str) -> None:
    assert mistakes(*overrides) == [sentence]


def test_equal_spellings_are_equal_settings() -> None:
    assert settings("sampling.temperature=1.0") == settings("sampling.temperature=1.00")
    assert settings("sampling.temperature=0") == settings("sampling.temperature=0.0")


def test_two_sweeps_in_one_second_have_two_folders() -> None:
    assert len({new_sweep_dir("outputs") for _ in range(50)}) == 50


def test_no_init_hides_other_hydra_plugins() -> None:
    assert not (config_dir().parent / "hydra_plugins" / "__init__.py").exists()


def test_the_sweep_folder_is_asked_once() -> None:
    cfg = compose("config", [], return_hydra_config=True)
    assert isinstance(cfg, DictConfig)
    assert cfg.hydra.sweep.dir == cfg.hydra.sweep.dir
