"""A model that judges, behind an OpenAI-compatible endpoint of its own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from sweeper.drive.datasets import describe
from sweeper.judge.compare import compare
from sweeper.quality.__main__ import main
from sweeper.store import SweepFolder, to_json
from tests.e2e.running import ENGINE, served
from tests.unit.sweeps import Made, folder, point, record

TASTE = {
    "[Answer A]\ngood": "A",
    "[Answer B]\ngood": "B, because it is good",
    "[Answer A]\nbad": "B",
    "[Answer B]\nbad": "A",
    "[Request]\nhabit": "A",  # whichever stands first
    "[Request]\ntie": "c",
    "[Request]\nmute": "<think> Let me compare",
}
ANSWERS = {
    "better": "good one",
    "worse": "bad one",
    "habit": "other one",
    "tie": "other one",
    "same": "plain",
}
"""The point's answer by prompt; the baseline always says ``plain``."""


@contextmanager
def judge(**faults: object) -> Iterator[str]:
    """The address of a server that answers as TASTE says."""
    command = [sys.executable, str(ENGINE), "--model", "m", "--host", "127.0.0.1"]
    command += ["--served-model-name", "judge", "--fake-step-ms", "0.2"]
    env = os.environ | {"FAKE_ENGINE": json.dumps({"answers": TASTE} | faults)}
    env["VLLM_API_KEY"] = "key-of-the-judge"
    with served(command, env) as (_, url):
        yield f"{url}/v1"


def sweep(path: Path, url: str, answers: Mapping[str, str] = ANSWERS) -> SweepFolder:
    prompts = path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"id": n, "prompt": n}) + "\n" for n in answers))
    dataset = describe("mine", prompts, None)
    arms = [
        Made(
            point=point(method, gamma, dataset=dataset),
            records=tuple(
                record(n, text=said if gamma else "plain") for n, said in answers.items()
            ),
        )
        for method, gamma in (("none", 0), ("ngram", 4))
    ]
    asked = {"name": "judge_model", "base_url": url, "api_key_env": "JUDGE_KEY"}
    return folder(path / "sweep", *arms, settings={"seed": 0, "quality": asked})


def test_it_is_asked_in_both_orders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JUDGE_KEY", "key-of-the-judge")
    with judge() as url:
        made = sweep(tmp_path, url)
        assert main([str(made.path)]) == 0
    assert capsys.readouterr().out == "quality of ngram γ=4 mine: 5 pairs judged\n"
    ngram = compare(made)[1]
    found = made.point(ngram.planned).read_quality()
    assert found is not None and found.problem == ""
    liked = {p.prompt_id: p.better for p in found.preferences}
    assert liked == {"better": 1.0, "worse": 0.0, "habit": 0.5, "tie": 0.5, "same": 0.5}
    assert (ngram.output.quality.value, ngram.output.quality_p) == (0.5, 1.0)
    assert ngram.output.quality_change.value == 0.0


def test_no_choice_is_no_draw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A judge that thinks aloud for its eight tokens has not found the answers equally good."""
    monkeypatch.setenv("JUDGE_KEY", "key-of-the-judge")
    with judge() as url:
        made = sweep(tmp_path, url, ANSWERS | {"mute": "other one"})
        assert main([str(made.path)]) == 0
    why = 'the judge\'s reply is no A, B or C in 2 of 10, first: "<think> Let me compare"'
    assert capsys.readouterr().out == f"quality of ngram γ=4 mine: not measured: {why}\n"
    assert compare(made)[1].output.quality.reason == why


def test_a_few_replies_without_a_choice_leave_their_pairs_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("JUDGE_KEY", "key-of-the-judge")
    answers = {f"better {n}": "good one" for n in range(19)} | {"mute": "other one"}
    with judge() as url:
        made = sweep(tmp_path, url, answers)
        assert main([str(made.path)]) == 0
    found = made.point(compare(made)[1].planned).read_quality()
    assert found is not None and found.problem == ""
    assert [p.better for p in found.preferences] == [1.0] * 19
    why = "the judge's reply is no A, B or C in 2 of 40; these pairs are left out"
    assert caplog.messages == [f"judge_model: {why}"]


def test_of_two_turns_the_first_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", "key-of-the-judge")
    with judge() as url:
        made = sweep(tmp_path, url, {"better": "good one"})
        with made.point(compare(made)[1].planned).requests.open("a") as file:
            file.write(json.dumps(to_json(record("better", text="bad one", turn=1))) + "\n")
        assert main([str(made.path)]) == 0
    found = made.point(compare(made)[1].planned).read_quality()
    assert found is not None and [p.better for p in found.preferences] == [1.0]


def test_a_judge_that_does_not_answer_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JUDGE_KEY", "another key")
    with judge() as url:
        made = sweep(tmp_path, url)
        assert main([str(made.path)]) == 0
        said = capsys.readouterr().out
        host = url.removesuffix("/v1")
        why = f"judge_model: {host}: GET /v1/models: HTTP 401: "
        assert said.startswith(f"quality of ngram γ=4 mine: not measured: {why}")
        assert "another key" not in said
        assert compare(made)[1].output.quality.reason.startswith(why)
        monkeypatch.setenv("JUDGE_KEY", "key-of-the-judge")
        assert main([str(made.path)]) == 0, "asked again once the key is right"
    assert capsys.readouterr().out == "quality of ngram γ=4 mine: 5 pairs judged\n"
