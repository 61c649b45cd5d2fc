"""Graders on the reference answers of the real files: what is right passes, what is not does not.

``SWEEPER_TEST_DATA`` names a folder with ``humaneval.jsonl`` and ``gsm8k_test.jsonl`` as their
authors publish them.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import pytest

from sweeper.drive.datasets import describe, prompts_of
from sweeper.errors import ServerError
from sweeper.judge.compare import compare
from sweeper.quality.match import exact_match, last_number
from sweeper.quality.programs import program
from sweeper.serve.sandbox import run_code
from sweeper.values import Prompt
from tests.e2e.running import only_sweep, run

DATA = Path(os.environ.get("SWEEPER_TEST_DATA", "/nonexistent"))
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="SWEEPER_TEST_DATA is not set")
Shape = Literal["completions", "chat"]


def rows(name: str) -> list[dict[str, Any]]:
    with (DATA / name).open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def humaneval(shape: Shape) -> tuple[Prompt, ...]:
    options = {"endpoint": shape}
    return prompts_of(describe("humaneval", DATA / "humaneval.jsonl", None, "humaneval", options))


def solution(row: dict[str, Any], shape: Shape) -> str:
    """The author's, as an answer to this shape of the prompt."""
    body = str(row["canonical_solution"])
    return body if shape == "completions" else f"Sure:\n```python\n{row['prompt']}{body}```\n"


@pytest.fixture
def sandbox() -> None:
    try:
        run_code(["pass"])
    except ServerError as none:
        pytest.skip(str(none))


def failed(shape: Shape, which: slice) -> dict[str, str]:
    """Why solutions of the authors do not pass, by task."""
    tasks = list(zip(humaneval(shape), rows("humaneval.jsonl"), strict=True))[which]
    programs = [program(prompt, solution(row, shape)) for prompt, row in tasks]
    with ThreadPoolExecutor(2) as pool:
        why = list(pool.map(run_code, programs))
    return {p.id: text for (p, _), text in zip(tasks, why, strict=True) if text}


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("shape", ["completions", "chat"])
def test_some_solutions_of_humaneval_pass_and_wrong_ones_do_not(shape: Shape) -> None:
    assert failed(shape, slice(None, None, 24)) == {}
    for prompt in humaneval("completions")[:3]:
        assert run_code(program(prompt, "    return None\n")) == "AssertionError:"


@pytest.mark.long
@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("shape", ["completions", "chat"])
def test_all_solutions_of_humaneval_pass(shape: Shape) -> None:
    assert len(humaneval(shape)) == 164
    assert failed(shape, slice(None)) == {}


def test_all_answers_of_gsm8k_match_and_no_other_number_does() -> None:
    made = describe("gsm8k", DATA / "gsm8k_test.jsonl", None, "gsm8k")
    tasks = list(zip(prompts_of(made), rows("gsm8k_test.jsonl"), strict=True))
    assert len(tasks) == 1319
    for prompt, row in tasks:
        reference, final = prompt.reference or "", row["answer"].split("####")[1].strip()
        assert exact_match(row["answer"], reference, "number") == ""
        assert exact_match(f"So she pays ${final}.", reference, "number") == ""
        number = last_number(reference)
        assert number is not None and not isinstance(number, str)
        assert exact_match(f"So it is {number + 1}.", reference, "number") != ""


@pytest.mark.long
@pytest.mark.vllm
@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize(
    ("dataset", "file", "grader"),
    [
        ("humaneval", "humaneval.jsonl", "unit_tests"),
        ("gsm8k", "gsm8k_test.jsonl", "exact_match"),
    ],
)
def test_real_answers_are_graded(dataset: str, file: str, grader: str, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "sweeper", "-m", f"output_dir={tmp_path}/out", "method=ngram"]
    argv += [f"dataset={dataset}", f"dataset.path={DATA / file}", "dataset.limit=6"]
    argv += [f"quality={grader}", "sampling.max_tokens=160", "check=none", "tracker=none"]
    done = run(argv, timeout=1100)
    assert done.status == 0, done.out + done.err
    print(*(line for line in done.out.splitlines() if "quality of" in line), sep="\n")
    for one in compare(only_sweep(tmp_path)):
        found = only_sweep(tmp_path).point(one.planned).read_quality()
        assert found is not None and found.problem == "" and found.grader == grader
        assert len(found.grades) == 6
        assert one.output.quality.value == sum(g.passed for g in found.grades) / 6
        for grade in found.grades:
            print(f"{one.point.label} {grade.prompt_id}: {grade.why or 'passed'}")
