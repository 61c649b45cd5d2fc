"""A user's mistake: one clear sentence, exit status 2, nothing started, nothing created."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.e2e.running import command, only_sweep, read, run


def refused(tmp_path: Path, *overrides: str) -> str:
    done = run(command(*overrides, outputs=tmp_path))
    assert done.status == 2, done.out + done.err
    assert not list(tmp_path.glob("out/*"))
    return done.out + done.err


@pytest.mark.parametrize(
    "override,sentence",
    [
        ("gamma=0", "gamma: 0: between 1 and 16, or method=none"),
        ("gamma=17", "gamma: 17: between 1 and 16; or allow_large_gamma=true"),
        (
            "load.cycle=true",
            "sweeper: load.cycle: the load that is chosen has no such key; it is one of "
            "load=closed, load=open, load=ramp",
        ),
        ("gama=4", "sweeper: gama: unknown key. Did you mean 'gamma'?"),
        ("method=ngrm", "sweeper: method=ngrm: no such choice. Did you mean 'ngram'?"),
        (
            "sampling.temprature=1",
            "sweeper: sampling.temprature: unknown key. Did you mean 'temperature'?",
        ),
        ("dataset=jsonl", "dataset.path: give the JSONL file of your prompts"),
        ("method=eagle3", "set target.drafts.eagle3=PATH or method.speculative.model=PATH"),
        ("target.model=/no/such/folder", "target.model: /no/such/folder is not there"),
    ],
)
def test_a_wrong_setting(tmp_path: Path, override: str, sentence: str) -> None:
    assert sentence in refused(tmp_path, override)


def test_all_wrong_points_are_listed_at_once(tmp_path: Path) -> None:
    said = refused(tmp_path, "method=ngram,eagle3", "gamma=0,4,99")
    assert said.count("refused:") == 5
    assert "6 jobs, 2 points, 2 servers" in said


@pytest.mark.parametrize(
    "content,sentence",
    [
        (b'\xef\xbb\xbf{"prompt": "a"}\n', "byte order mark"),
        (b'{"prompt": "a", "id": "x"}\n{"prompt": "b", "id": "x"}\n', ":2: "),
        (b'{"prompt": "a"\n', ":1: "),
        (b'{"prompt": ""}\n', ":1: "),
    ],
)
def test_a_wrong_prompt_file(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_bytes(content)
    assert sentence in refused(tmp_path, "dataset=jsonl", f"dataset.path={path}")


def test_vllm_not_installed(tmp_path: Path) -> None:
    said = refused(tmp_path, "method=none", "server.command=[/usr/bin/python3,-m,vllm]")
    assert "vLLM is not installed in /usr/bin/python3" in said
    assert "-m pip install '.[cpu]'" in said


def test_output_path_not_writable(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file in the way")
    done = run(command("method=none", outputs=tmp_path))
    assert done.status == 2
    assert "sweeper: cannot write: " in done.err and str(tmp_path / "out") in done.err


def test_sampling_that_the_cpu_build_gets_wrong(tmp_path: Path) -> None:
    assert "vllm#55005" in refused(tmp_path, "method=ngram", "sampling=t07_p09")


def test_a_plan_starts_and_leaves_nothing(tmp_path: Path) -> None:
    done = run(command("mode=plan", "method=none,ngram", "gamma=2,4", outputs=tmp_path))
    assert done.status == 0
    assert done.out.rstrip().splitlines()[-1] == "4 jobs, 3 points, 3 servers"
    assert not list(tmp_path.glob("out/*"))
    assert f"{sys.executable} " in done.out


def test_a_plan_that_could_not_be_run_from_here_says_why(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    server = f"server.command=[{bare},-m,vllm.entrypoints.openai.api_server]"
    done = run(command("mode=plan", "method=none", server, outputs=tmp_path))
    assert done.status == 0, done.out + done.err
    assert f"would not start here: vLLM is not installed in {bare}" in " ".join(done.out.split())
    assert done.out.rstrip().splitlines()[-1] == "1 jobs, 1 points, 1 servers"


def test_on_invalid_skip_runs_the_rest_and_shows_the_skipped(tmp_path: Path) -> None:
    options = ("method=ngram", "gamma=2,0", "dataset.limit=1", "on_invalid=skip")
    done = run(command(*options, outputs=tmp_path))
    assert done.status == 1, done.out + done.err
    _, results = read(only_sweep(tmp_path))
    assert sorted(result.status for result in results.values()) == [
        "completed",
        "completed",
        "skipped",
    ]
    assert "gamma: 0: between 1 and 16, or method=none" in done.out


def test_a_budget_leaves_rows_with_the_reason_and_resume_is_planned(tmp_path: Path) -> None:
    options = ("method=ngram", "gamma=2,4", "dataset.limit=1", "sampling.max_tokens=8")
    done = run(command(*options, "budget=5m", outputs=tmp_path))
    assert done.status == 1, done.out + done.err
    folder = only_sweep(tmp_path)
    sweep, results = read(folder)
    found = {p.point.label: results[p.number] for p in sweep.plan.points}
    assert {label: r.status for label, r in found.items()} == {
        "none": "completed",
        "ngram γ=2": "completed",
        "ngram γ=4": "skipped",
    }
    assert found["ngram γ=4"].reason.startswith("budget=5m: would take about 2m01s more, ")
    again = run(command(*options, "mode=plan", f"resume={folder.path}", outputs=tmp_path))
    assert again.status == 0, again.out + again.err
    assert "resume: 2 of 3 points are complete and kept, 1 are measured" in again.out
    assert "by 1 earlier sweep of this model" in again.out
    assert again.out.rstrip().splitlines()[-1] == "2 jobs, 3 points, 3 servers"


@pytest.mark.parametrize(("override", "status"), [("gamma=17", 2), ("load.request_timeout_s=0", 2)])
def test_without_m_only_we_say_what_is_wrong(tmp_path: Path, override: str, status: int) -> None:
    done = run(command(override, outputs=tmp_path, multirun=False))
    assert done.status == status, done.out + done.err
    assert "Error executing job" not in done.err
