"""What every ``python -m sweeper.NAME`` does with mistakes, Ctrl-C and ``--help``."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

import pytest

from sweeper.commands import NAMES
from sweeper.errors import PublishError, StoreError
from sweeper.program import program


@pytest.mark.parametrize(
    ("raised", "status"),
    [(StoreError("no sweep"), 2), (PublishError("no answer"), 1), (KeyboardInterrupt(), 130)],
)
def test_a_mistake_is_one_line_and_a_status(
    raised: BaseException, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    @program("judge")
    def main(argv: Sequence[str] | None = None) -> int:
        raise raised

    assert main([]) == status
    assert capsys.readouterr().err == (f"sweeper.judge: {raised}\n" if status != 130 else "")


def test_what_is_no_mistake_of_a_user_is_not_hidden() -> None:
    @program("judge")
    def main(argv: Sequence[str] | None = None) -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        main([])


@pytest.mark.parametrize("name", NAMES)
def test_every_program_has_help_with_examples_and_statuses(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    module = f"sweeper.{name}"
    found = import_module(module)
    main = found.main if hasattr(found, "main") else import_module(f"{module}.__main__").main
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    said = capsys.readouterr().out
    assert ended.value.code == 0
    assert said.startswith(f"usage: python -m sweeper.{name}")
    assert "examples:\n" in said and "exit status: " in said
    assert said.count("[--no-color]") == 1
