"""Acceptance by policy version: a draft that was left behind is named, not averaged away."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sweeper.errors import StoreError
from sweeper.rollout import RolloutBatch, RolloutLog, by_version
from sweeper.rollout.__main__ import main


def log(path: Path, *lines: object) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def counted(version: int, drafted: int, accepted: int) -> dict[str, int]:
    return {"policy_version": version, "drafted": drafted, "accepted": accepted}


def test_the_version_at_which_acceptance_collapsed_is_flagged_and_no_mean_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rates = (0.6, 0.6, 0.0, 0.0)
    lines = [{"policy_version": v, "acceptance_rate": r} for v, r in enumerate(rates)]
    assert main([str(log(tmp_path / "log.jsonl", *lines))]) == 1
    out = capsys.readouterr().out
    assert "version 2: acceptance 0.000 after 0.600 in version 0: was the draft refreshed" in out
    assert "version 1:" not in out
    assert "0.3" not in out


def test_batches_of_a_version_are_summed_first() -> None:
    batches = [
        RolloutBatch(policy_version="a", drafted=100, accepted=90),
        RolloutBatch(policy_version="a", drafted=900, accepted=0),
        RolloutBatch(policy_version="a", error="HTTP 500"),
    ]
    (version,) = by_version(batches)
    assert (version.batches, version.drafted, version.rate) == (2, 1000, 0.09)


def test_a_small_sample_is_no_collapse_and_a_slow_decay_is_one_in_the_end() -> None:
    few = [RolloutBatch(policy_version=str(v), drafted=10, accepted=3 - 2 * v) for v in (0, 1)]
    assert [v.collapsed for v in by_version(few)] == ["", ""]
    slow = [
        RolloutBatch(policy_version=str(v), drafted=1000, accepted=a)
        for v, a in enumerate((600, 500, 400, 310, 290))
    ]
    assert [bool(v.collapsed) for v in by_version(slow)] == [False, False, False, False, True]


def test_a_drafter_that_fell_silent_has_collapsed_too() -> None:
    batches = [
        RolloutBatch(policy_version="0", drafted=500, accepted=200),
        RolloutBatch(policy_version="1", drafted=0, accepted=0),
    ]
    assert by_version(batches)[1].collapsed == "nothing was drafted; version 0 drafted 500 tokens"


def test_steady_acceptance_is_no_alarm(tmp_path: Path) -> None:
    assert main([str(log(tmp_path / "l", *(counted(v, 500, 300 - v) for v in range(4))))]) == 0


def test_a_trainer_writes_and_reads_its_log(tmp_path: Path) -> None:
    found = RolloutLog(tmp_path / "rollouts.jsonl")
    written = [
        RolloutBatch(policy_version="7", batch=0, sequences=8, tokens=90, decode_steps=41),
        RolloutBatch(policy_version="8", drafted=10, accepted=4, seconds=1.5),
    ]
    for batch in written:
        found.append(batch)
    assert list(found.batches()) == written
    assert by_version(written)[0].tokens_per_step == 2.0
    with found.path.open("a") as file:
        file.write('{"policy_version": "9", "draf')
    assert list(found.batches()) == written


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ({"drafted": 3},
         "policy_version: missing; a name or number of the weights that sampled the batch"),
        ({"policy_version": 1, "drafted": 2.5}, "drafted: 2.5: a whole number, at least 0"),
        ({"policy_version": 1, "seconds": -1}, "seconds: -1: a number, at least 0"),
        ({"policy_version": 1, "drafted": 3, "accepted": 5},
         "accepted: 5 of 3 drafted tokens; are they differences over a batch?"),
        ({"policy_version": 1, "acceptance_rate": 45.5},
         "acceptance_rate: 45.5: accepted over drafted tokens, from 0 to 1"),
        ([1], "not an object with policy_version"),
    ],
)  # fmt: skip
def test_a_line_that_is_none_is_named(tmp_path: Path, line: object, sentence: str) -> None:
    path = log(tmp_path / "log.jsonl", counted(0, 1, 1), line)
    with pytest.raises(StoreError) as caught:
        RolloutLog(path).batches()
    assert str(caught.value) == f"{path}:2: {sentence}"


def test_other_keys_are_the_trainers_own(tmp_path: Path) -> None:
    path = log(tmp_path / "log.jsonl", counted(3, 10, 4) | {"reward": 0.5})
    assert RolloutLog(path).batches() == (RolloutBatch(policy_version="3", drafted=10, accepted=4),)


def test_a_key_of_the_trainers_own_may_hold_any_text(tmp_path: Path) -> None:
    """What Python calls the end of a line is none of a JSON line."""
    path = tmp_path / "log.jsonl"
    line = {"policy_version": 1, "drafted": 4, "accepted": 2, "sample": "one\u2028two\x85three"}
    path.write_text(json.dumps(line, ensure_ascii=False) + "\n", encoding="utf-8")
    (batch,) = RolloutLog(path).batches()
    assert (batch.drafted, batch.accepted) == (4, 2)


def test_a_folder_without_rollouts_is_a_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path)]) == 2
    assert "only load=rollout writes them" in capsys.readouterr().err
