"""The plan's table: no two rows look alike, whatever is swept, and nothing is cut off."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from sweeper.report.plantable import print_points, settings_apart
from sweeper.values import Plan
from tests.unit.test_plan import hydra_here, planned

__all__ = ["hydra_here"]  # a fixture that every test here needs too


def table(found: Plan, width: int = 80) -> list[str]:
    """The lines as they are printed, without spaces at their ends."""
    file = io.StringIO()
    print_points(Console(width=width, file=file, color_system=None), found, None, ())
    lines = file.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    return [line.rstrip() for line in lines]


def test_names_that_say_all_need_no_more() -> None:
    assert table(planned(["method=ngram"], ["gamma=2", "gamma=4"])) == [
        "point  method  γ  dataset  prompts  sampling  load        server  about  note",
        "    0  none    –  chat          12  greedy    sequential       1      –  added",
        "    1  ngram   2  chat          12  greedy    sequential       2      –",
        "    2  ngram   4  chat          12  greedy    sequential       3      –",
    ]


def test_what_else_is_swept_is_below_its_row() -> None:
    temperatures = ["sampling.temperature=0", "sampling.temperature=0.7"]
    lines = table(planned(["method=none"], ["cache=cold", "cache=warm"], temperatures))
    assert [line.strip() for line in lines[2::2]] == [
        "sampling.temperature=0 · cache=cold",
        "sampling.temperature=0.7 · cache=cold",
        "sampling.temperature=0 · cache=warm",
        "sampling.temperature=0.7 · cache=warm",
    ]


@pytest.mark.parametrize(
    ("first", "second", "texts"),
    [
        ("+server.args.max_num_seqs=8", "+server.args.max_num_seqs=16",
         ["server.args=--max-num-seqs 8", "server.args=--max-num-seqs 16"]),
        ("+server.env.A=b", "repeats=1", ["server.env=A=b", "server.env=none"]),
        ("method.speculative.prompt_lookup_max=3", "method.speculative.prompt_lookup_max=4",
         ["method.speculative.prompt_lookup_max=3", "method.speculative.prompt_lookup_max=4"]),
        ("server.workarounds=[vllm-55005]", "repeats=1",
         ["server.workarounds=vllm-55005", "server.workarounds=none"]),
        ("repeats=1", "repeats=2", ["repeats=1", "repeats=2"]),
        ("load=closed", "load=sequential", ["", ""]),
    ],
)  # fmt: skip
def test_rows_of_one_name_say_what_differs(first: str, second: str, texts: Sequence[str]) -> None:
    found = planned(["method=ngram"], ["+server.args.max_model_len=512"], [first, second])
    said = settings_apart(found.points)
    assert [said[p.number] for p in found.points if p.jobs] == texts


def test_long_names_are_folded_and_nothing_is_lost() -> None:
    found = planned(["method=draft_model"], ["cache=cold", "cache=warm"])
    lines = table(found, 50)
    (at,) = (n for n, line in enumerate(lines) if line.lstrip().startswith("2 "))
    method = lines[0].index("met")
    row = lines[at : next(n for n in range(at, len(lines)) if "cache=" in lines[n])]
    assert "".join(line[method:].split("  ")[0] for line in row) == "draft_model"
    assert lines[-1].strip() == "cache=warm"
