from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sweeper.compare import main
from sweeper.judge.across import Across, across
from sweeper.report.__main__ import main as report
from tests.unit.sweeps import (
    CHAT,
    GREEDY,
    PROVENANCE,
    Made,
    counts,
    folder,
    point,
    record,
    rollouts,
)

GOOD, POOR = counts((1, 0, 3)), counts((3, 0, 1))
NGRAM = point("ngram", 2)
NAME = "ngram γ=2 · chat · greedy · sequential · org/model"


def made(seconds: float, spec: Any = GOOD, **changes: Any) -> Made:
    records = tuple(record(f"p{n}", seconds=seconds + n / 20, spec=spec) for n in range(6))
    return replace(Made(point=NGRAM, records=records, baseline=None), **changes)


def compared(path: Path, before: Made, after: Made) -> Across:
    return across(folder(path / "a", before), folder(path / "b", after))


def status(path: Path, *arguments: str) -> int:
    return main([str(path / "a"), str(path / "b"), *arguments])


def test_a_change_is_paired_by_prompt_and_has_an_interval(tmp_path: Path) -> None:
    (change,) = compared(tmp_path, made(1.0), made(0.5)).changes
    assert change.name == NAME
    assert change.rate.value == pytest.approx(6.75 / 3.75)
    assert change.rate.low is not None and change.rate.low > 1
    assert (change.acceptance.value, change.same.value) == (1.0, 1.0)
    assert change.lost(0.05) == ()


def test_a_loss_is_significant_and_above_the_threshold(tmp_path: Path) -> None:
    (change,) = compared(tmp_path, made(1.0), made(1.2)).changes
    assert change.lost(0.05) == ("output rate",)
    assert change.lost(0.2) == ()


def test_a_loss_whose_interval_holds_one_is_none(tmp_path: Path) -> None:
    after = made(1.0)
    slow = tuple(
        replace(r, done_ns=r.done_ns * (3 if n == 0 else 1)) for n, r in enumerate(after.records)
    )
    (change,) = compared(tmp_path, made(1.0), replace(after, records=slow)).changes
    assert change.rate.value is not None and change.rate.value < 0.8
    assert change.lost(0.05) == ()


def test_acceptance_is_watched_too(tmp_path: Path) -> None:
    (change,) = compared(tmp_path, made(1.0), made(1.0, POOR)).changes
    assert change.acceptance.value == pytest.approx(1 / 3)
    assert change.lost(0.05) == ("acceptance",)


def test_versions_and_hardware_may_differ_and_are_said(tmp_path: Path) -> None:
    newer = PROVENANCE | {"versions": {"vllm": "0.33.0", "torch": "2.13.0"}}
    newer |= {"host": PROVENANCE["host"] | {"gpu": "H100"}}
    (change,) = compared(tmp_path, made(1.0), made(1.0, provenance=newer)).changes
    assert change.refused == ""
    assert change.differs == ("host.gpu: not recorded → H100", "versions.vllm: 0.32.0 → 0.33.0")


def test_flags_variables_and_command_may_differ_and_are_said(tmp_path: Path) -> None:
    old = replace(NGRAM.server, args=("--max-num-seqs", "8", "--enforce-eager"))
    new = replace(
        NGRAM.server,
        command=("python", "-m", "vllm"),
        args=("--enforce-eager", "--max-num-seqs", "16", "--seed", "3"),
        env=(("VLLM_CPU_KVCACHE_SPACE", "4"),),
    )
    arms = [made(1.0, point=replace(NGRAM, server=server)) for server in (old, new)]
    (change,) = compared(tmp_path, *arms).changes
    assert change.refused == ""
    assert change.differs == (
        "server.command: vllm serve → python -m vllm",
        "server.args: --max-num-seqs 8 → --max-num-seqs 16, --seed 3",
        "server.env: nothing → VLLM_CPU_KVCACHE_SPACE=4",
    )


def test_rollouts_are_compared_by_batches(tmp_path: Path) -> None:
    """Eight sequences share a clock: one slow batch in four is no significant loss."""
    before = rollouts("ngram", 4, [2.0, 2.1, 1.9, 2.0])
    after = rollouts("ngram", 4, [2.0, 2.1, 1.9, 4.0])
    poor = tuple(replace(b, accepted=(b.accepted or 0) // 2) for b in after.batches)
    (change,) = compared(tmp_path, before, replace(after, batches=poor)).changes
    assert change.rate.value == pytest.approx(8.0 / 10.0)
    assert change.rate.high is not None and change.rate.high > 1
    assert change.acceptance.value == pytest.approx(0.5)
    assert change.lost(0.05) == ("acceptance",)


COUNTERS = {"change": {"verify_steps": 40, "drafted": 120, "accepted": 60}}


@pytest.mark.parametrize(
    ("counters", "value", "reason"),
    [
        ({"change": COUNTERS["change"] | {"accepted": 30}}, 0.5,
         "from the server's counters over the whole point: no interval"),
        ({}, None, "neither requests nor the servers' counters tell what was drafted"),
    ],
)  # fmt: skip
def test_several_answers_are_compared_by_the_counters(
    tmp_path: Path, counters: dict[str, Any], value: float | None, reason: str
) -> None:
    several = replace(NGRAM, sampling=replace(GREEDY, n=4))
    before = made(1.0, None, point=several, counters=COUNTERS)
    (change,) = compared(tmp_path, before, replace(before, counters=counters)).changes
    assert (change.acceptance.value, change.acceptance.reason) == (value, reason)
    assert change.lost(0.05) == ()


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        (
            {"point": point("ngram", 2, dataset=replace(CHAT, digest="d2"))},
            "dataset.digest is d1 before and d2 after",
        ),
        (
            {"point": point("ngram", 2, sampling=replace(GREEDY, max_tokens=8))},
            "sampling.max_tokens is 96 before and 8 after",
        ),
        ({"status": "failed", "reason": "out of memory"}, "after: failed: out of memory"),
        (
            {"provenance": PROVENANCE | {"caches": "warm"}},
            "caches are {'prefix': 'reset before every repeat'} before and warm after",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(
    tmp_path: Path, after: dict[str, Any], reason: str
) -> None:
    (change,) = compared(tmp_path, made(1.0), made(1.0, **after)).changes
    assert change.refused == reason
    assert change.rate.value is None and change.rate.reason == reason


def test_other_weights_are_refused(tmp_path: Path) -> None:
    old, new = (PROVENANCE | {"model": {"target_digest": d}} for d in "ab")
    (change,) = compared(tmp_path, made(1.0, provenance=old), made(1.0, provenance=new)).changes
    assert change.refused == "model.target_digest is a before and b after"


def test_settings_of_one_sweep_only_are_named(tmp_path: Path) -> None:
    found = compared(tmp_path, made(1.0), made(1.0, point=point("ngram", 4)))
    assert found.changes == ()
    assert found.only_before == (NAME,)
    assert found.only_after == (NAME.replace("γ=2", "γ=4"),)


def test_the_exit_status_is_for_scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compared(tmp_path, made(1.0), made(1.2))
    assert status(tmp_path) == 1
    assert f"LOSS: {NAME}: output rate" in capsys.readouterr().out
    assert status(tmp_path, "--threshold", "0.3") == 0
    assert "no significant loss of more than 30 %" in capsys.readouterr().out
    compared(tmp_path, made(1.0), made(1.0, status="failed"))
    assert status(tmp_path) == 2
    assert capsys.readouterr().out.endswith("\nnothing could be compared\n")


def test_json_is_all_that_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compared(tmp_path, made(1.0), made(1.2))
    assert status(tmp_path, "--json") == 1
    (one,) = json.loads(capsys.readouterr().out)
    assert one["changes"][0]["lost"] == ["output rate"]
    assert one["changes"][0]["output_rate"]["high"] < 1


def test_mistakes_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compared(tmp_path, made(1.0), made(1.0))
    assert main([str(tmp_path / "a")]) == 2
    assert capsys.readouterr().err == (
        "sweeper.compare: one sweep was given; name the one to compare it with too\n"
    )
    assert main([str(tmp_path / "a"), "nowhere"]) == 2
    assert capsys.readouterr().err == (
        "sweeper.compare: nowhere: no sweep.json there, and it is no run id of MLflow either\n"
    )


def test_the_report_of_two_sweeps_says_what_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compared(tmp_path, made(1.0), made(1.2))
    assert report([str(tmp_path / "a"), str(tmp_path / "b"), "--no-color"]) == 0
    assert f"LOSS: {NAME}: output rate" in capsys.readouterr().out
    page = (tmp_path / "b/report/index.html").read_text(encoding="utf-8")
    assert f"<h2>Since {tmp_path}/a</h2>" in page
    assert f'<tr class="lost"><th scope="row">{NAME}</th><td>0.' in page
    assert "<h2>Since" not in (tmp_path / "a/report/index.html").read_text(encoding="utf-8")
