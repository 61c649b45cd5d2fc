"""Public bug reports on Hydra sweeps (docs/regressions.md, section F), each with its input."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from tests.e2e.running import command, only_sweep, read, run


def plan(tmp_path: Path, *overrides: str) -> tuple[int, str]:
    done = run(command("mode=plan", *overrides, outputs=tmp_path))
    return done.status, done.out + done.err


def test_f1_folders_are_never_made_from_values(tmp_path: Path) -> None:
    model = tmp_path / ("x" * 200) / "org" / "a=1"
    model.mkdir(parents=True)
    done = run(
        command(
            "method=none",
            "dataset.limit=1",
            f"target.name={'n' * 250}",
            f'target.model="{model}"',
            outputs=tmp_path,
        )
    )
    # no config.json there: the point is refused by name, not by the operating system
    assert done.status == 2 and "File name too long" not in done.out + done.err
    (model / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"]}))
    done = run(
        command(
            "method=none",
            "dataset.limit=1",
            f"target.name={'n' * 250}",
            f'target.model="{model}"',
            outputs=tmp_path,
        )
    )
    assert done.status == 0, done.out + done.err
    (point,) = only_sweep(tmp_path).path.glob("points/*")
    assert len(point.name) == len("000-12345678")


def test_f2_equal_values_are_one_point(tmp_path: Path) -> None:
    status, said = plan(tmp_path, "method=ngram", "gamma=2,2", "sampling.temperature=0.0,0.00")
    assert status == 0
    assert said.rstrip().endswith("4 jobs, 2 points, 2 servers")


def test_f3_every_failure_is_told_and_the_rest_is_usable(tmp_path: Path) -> None:
    faults = {"exit_at_start": {"code": 1, "message": "ValueError: boom"}, "when_gamma": 2}
    done = run(
        command(
            "method=ngram", "gamma=2,3", "dataset=code,chat", "dataset.limit=1", outputs=tmp_path
        ),
        faults=faults,
    )
    assert done.status == 1
    _, results = read(only_sweep(tmp_path))
    statuses = [results[n].status for n in sorted(results)]
    assert statuses == ["completed", "completed", "failed", "failed", "completed", "completed"]
    assert done.out.count("ValueError: boom") >= 2


@pytest.mark.parametrize(
    "override,said",
    [
        ('method.speculative={"method":"ngram"}', "no viable alternative at input '{\"method\"'"),
        ("gamma=1,", "sweeper: gamma=1,: cannot be read: "),
    ],
)
def test_f4_a_value_hydra_cannot_read(tmp_path: Path, override: str, said: str) -> None:
    status, found = plan(tmp_path, override)
    assert status == 2 and said in found


def test_f4_the_expanded_list_is_shown_before_anything_starts(tmp_path: Path) -> None:
    status, said = plan(tmp_path, "method=custom", "+method.speculative.method=ngram", "gamma=2,3")
    assert status == 0 and said.rstrip().endswith("2 jobs, 3 points, 3 servers")


def test_f5_values_are_not_retyped(tmp_path: Path) -> None:
    status, said = plan(tmp_path, "method=none", "target.revision=7e12345")
    assert status == 2
    assert "target.revision: Infinity: input should be a valid string; quote it" in said


def test_f6_where_it_runs_is_said(tmp_path: Path) -> None:
    done = run(command("method=none", "dataset.limit=1", outputs=tmp_path))
    assert done.status == 0
    assert f"running on {socket.gethostname()}" in done.out
