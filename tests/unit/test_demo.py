"""The pure pieces of the demo: prompts, packing, names, caches; no download, no training."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.cache import DRAFT, HEAD, building, cache_dir, checkpoint
from demo.command import no_arguments
from demo.editing import editing_task
from demo.heldout import HELDOUT
from demo.prompts import (
    TRAINING,
    Prompt,
    measured_texts,
    normalised,
    overlap,
    refuse_overlap,
    seen_like_prompts,
    split,
    training_prompts,
)
from demo.target import hub_name

WEIGHTS = Path(__file__).resolve().parents[2] / "demo" / "weights"


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Path]:
    """An empty cache directory for one test, through the variable that users have."""
    before = os.environ.get("SWEEPER_CACHE")
    os.environ["SWEEPER_CACHE"] = str(tmp_path)
    yield tmp_path
    if before is None:
        del os.environ["SWEEPER_CACHE"]
    else:
        os.environ["SWEEPER_CACHE"] = before


def test_training_prompts_are_the_same_every_time_and_all_different() -> None:
    prompts = training_prompts()
    assert prompts == training_prompts()
    assert len({normalised(p.text) for p in prompts}) == len(prompts) == sum(TRAINING.values())
    assert {kind: sum(p.kind == kind for p in prompts) for kind in TRAINING} == TRAINING


def test_prompts_kept_back_are_not_trained_on() -> None:
    trained = {normalised(p.text) for p in split()[0]}
    assert len(seen_like_prompts()) == 30
    assert not {normalised(p.text) for p in seen_like_prompts()} & trained


def test_measured_prompts_are_not_trained_on() -> None:
    trained = {normalised(p.text) for p in training_prompts()}
    assert not trained & measured_texts()
    assert {normalised(p.text) for p in HELDOUT} <= measured_texts()


def test_an_overlap_is_refused_whatever_its_punctuation() -> None:
    planted = Prompt(kind="chat", text="Please:  tell me SOMETHING surprising about octopuses!")
    with pytest.raises(SystemExit) as caught:
        refuse_overlap([planted], measured_texts())
    assert str(caught.value) == (
        "training prompt 'Please:  tell me SOMETHING surprising about octopuses!' overlaps "
        "measured text 'tell me something surprising about octopuses'"
    )


def test_overlap_compares_whole_words() -> None:
    assert overlap("count the bees", {"count the bees in it"}) == "count the bees in it"
    assert overlap("count the bee", {"count the bees in it"}) is None
    assert overlap("?!", {"count the bees in it"}) is None


def test_an_editing_task_repeats_under_its_seed() -> None:
    first = [editing_task(random.Random(7)) for _ in range(2)]
    assert first[0] == first[1] != editing_task(random.Random(8))


def test_tensor_names_of_gguf_become_those_of_the_hub() -> None:
    assert hub_name("blk.3.attn_q.weight") == "model.layers.3.self_attn.q_proj.weight"
    assert hub_name("output_norm.weight") == "model.norm.weight"


def test_a_folder_appears_only_when_it_is_whole(cache: Path) -> None:
    with pytest.raises(RuntimeError, match="half way"), building("model") as folder:
        (folder / "config.json").write_text("{}")
        raise RuntimeError("half way")
    assert list(cache.iterdir()) == []
    assert checkpoint("model") is None
    with building("model") as folder:
        (folder / "config.json").write_text("{}")
    assert checkpoint("model") == cache_dir() / "model" == cache / "model"
    assert [path.name for path in cache.iterdir()] == ["model"]


def test_the_first_of_two_builders_wins(cache: Path) -> None:
    with building("model") as slow:
        (slow / "config.json").write_text("slow")
        with building("model") as fast:
            (fast / "config.json").write_text("fast")
    assert (cache / "model" / "config.json").read_text() == "fast"


def test_draft_paths_hold_no_word_from_which_vllm_guesses_another_method() -> None:
    words = ("eagle-", "eagle3", "dflash", "dspark")
    assert not [word for word in words for name in (DRAFT, HEAD) if word in name]


def test_packing_is_off_by_half_a_step_at_most() -> None:
    torch = pytest.importorskip("torch")
    pack = pytest.importorskip("demo.pack")
    matrix = torch.randn(7, 33, generator=torch.Generator().manual_seed(3))
    matrix[2] = 0
    vector = torch.randn(5, generator=torch.Generator().manual_seed(4))
    small = pack.packed({"matrix": matrix, "vector": vector})
    again = pack.unpacked(small)
    assert small["matrix"].dtype == torch.int8
    step = matrix.abs().amax(1, keepdim=True) / 127
    assert bool(((again["matrix"] - matrix).abs() <= step * 0.5001).all())
    assert torch.equal(again["vector"], vector)
    assert set(again) == {"matrix", "vector"}


def test_the_shipped_weights_are_small() -> None:
    files = sorted(WEIGHTS.glob("*.safetensors"))
    assert [file.name for file in files] == ["draft.safetensors", "head.safetensors"]
    assert sum(file.stat().st_size for file in files) < 20_000_000


@pytest.mark.parametrize(("word", "status"), [("--help", 0), ("steps=5", 2)])
def test_a_command_that_takes_nothing_says_so(
    word: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", word])
    with pytest.raises(SystemExit) as ended:
        no_arguments("Trains.")
    said = capsys.readouterr()
    assert ended.value.code == status
    assert "Trains." in said.out if status == 0 else f"unrecognized arguments: {word}" in said.err
