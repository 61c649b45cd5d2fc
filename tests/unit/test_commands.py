"""The console script reaches every program, and a mistyped one is answered with the right name."""

from __future__ import annotations

import os
import sys

import pytest

from sweeper.commands import commands, run_command, take_no_color
from sweeper.errors import UserError
from sweeper.sweep import as_typed


@pytest.mark.parametrize("name", commands())
def test_every_program_has_help_with_examples(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["sweeper"])
    with pytest.raises(SystemExit) as ended:
        run_command([name, "--help"])
    said = capsys.readouterr().out
    assert ended.value.code == 0
    assert "example" in said and f"python -m sweeper.{name}" in said and "exit status" in said


def test_the_programs_there_are() -> None:
    assert {"collect", "doctor", "publish", "report", "servers", "ui"} <= set(commands())


@pytest.mark.parametrize("argv", [[], ["-m", "method=ngram"], ["gamma=4"], ["--help"], ["~method"]])
def test_a_sweep_is_no_program(argv: list[str]) -> None:
    assert run_command(argv) is False


def test_no_color_is_taken_from_the_command_and_handed_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    argv = ["sweeper", "-m", "--no-color", "gamma=2"]
    take_no_color(argv)
    assert argv == ["sweeper", "-m", "gamma=2"]
    assert os.environ["NO_COLOR"] == "1"


def test_a_sweep_remembers_its_command_as_it_was_typed() -> None:
    assert as_typed(["/x/sweeper/__main__.py", "-m", "gamma=2,4"]) == (
        *("python", "-m", "sweeper"),
        *("-m", "gamma=2,4"),
    )
    assert as_typed(["/venv/bin/sweeper", "gamma=2"]) == ("sweeper", "gamma=2")


def test_a_mistyped_program() -> None:
    with pytest.raises(UserError) as refused:
        run_command(["colect", "DIR"])
    assert str(refused.value) == (
        "colect: settings are given as name=value, and no command has this name. "
        "Did you mean 'collect'?"
    )
