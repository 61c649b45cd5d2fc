"""Graders and figures; nothing is run here, tests/e2e/test_sandbox.py does."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from sweeper.drive.datasets import describe
from sweeper.judge.quality import quality_figures, sign_test
from sweeper.quality.grade import grade
from sweeper.quality.judge_model import REPLY
from sweeper.quality.match import exact_match, last_number
from sweeper.quality.programs import code, program
from sweeper.quality.validity import invalid
from sweeper.scores import Grade, Grader, Preference, Quality
from sweeper.store import read_sweep
from sweeper.values import Message, Prompt
from tests.unit.sweeps import Made, folder, point, record

CHAT = Prompt(
    id="c",
    messages=(Message(role="user", content="from math import pi\nWrite area(r)."),),
    entry_point="area",
    tests="assert area(0) == 0",
)
HUMANEVAL = Prompt(
    id="h",
    text="from typing import List\n\ndef first(xs: List[int]) -> int:\n",
    entry_point="first",
    tests="def check(candidate):\n    assert candidate([1]) == 1\n",
)


def test_the_block_that_defines_the_function_is_tested() -> None:
    answer = (
        "Use it:\n```\nprint(area(1))\n```\nHere:\n```python\ndef area(r):\n    return 0\n```\n"
    )
    assert code(CHAT, answer) == "from math import pi\ndef area(r):\n    return 0\n"
    assert program(CHAT, answer)[1] == "assert area(0) == 0"


def test_an_answer_without_a_fence_is_code_itself() -> None:
    assert code(CHAT, "def area(r): return 0").endswith("\ndef area(r): return 0")


def test_a_fence_that_was_cut_off_counts() -> None:
    assert code(CHAT, "```python\ndef area(r):\n    re").endswith("def area(r):\n    re")


def test_a_completion_goes_on_with_its_prompt_and_ends_with_its_function() -> None:
    source, tests = program(HUMANEVAL, "    return xs[0]\n\ndef other():\n    pass\n")
    assert source == f"{HUMANEVAL.text}    return xs[0]\n\n"
    assert tests.endswith("\n\ncheck(first)\n")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("3 + 4 = 7 eggs.", Decimal(7)),
        ("It costs $1,250.50 in all", Decimal("1250.5")),
        ("5 apples\n#### -18\nand 3 more", Decimal(-18)),
        ("18.0", Decimal(18)),
        ("none", None),
    ],
)
def test_the_number_of_an_answer(text: str, number: Decimal | None) -> None:
    assert last_number(text) == number


def test_exact_match_says_what_was_expected() -> None:
    assert exact_match("so 18.", "9 * 2 = 18\n#### 18", "number") == ""
    assert exact_match("so 17.", "#### 18", "number") == "17 instead of 18"
    assert exact_match("hm", "#### 18", "number") == "no answer instead of 18"
    assert exact_match("It is\nParis.", "paris", "text") == ""


def validity(**asked: object) -> Grader:
    return Grader(name="validity", **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("grader", "answer", "why"),
    [
        (validity(), '{"a": 1}', ""),
        (validity(), 'Sure:\n```json\n{"a": 1}\n```', ""),
        (validity(), '{"a": 1', "not JSON: Expecting ',' delimiter: line 1 column 8 (char 7)"),
        (validity(valid="json_schema"), '{"a": "x"}', "$.a: 'x' is not of type 'integer'"),
        (validity(valid="json_schema"), '{"a": 3}', ""),
        (validity(valid="regex", pattern=r"\d{4}"), " 2026\n", ""),
        (validity(valid="regex", pattern=r"\d{4}"), "in 2026", "no match"),
        (
            validity(valid="tool_call", tools=("find",)),
            '<tool_call>{"name": "find", "arguments": {"q": 1}}</tool_call>',
            "",
        ),
        (
            validity(valid="tool_call", tools=("find",)),
            '{"name": "fin", "arguments": {}}',
            "fin: no such tool",
        ),
        (validity(valid="tool_call"), '{"name": "f", "arguments": 3}', "f: its arguments are no "
         "object"),
        (validity(valid="tool_call"), "[1]", "a call without a name"),
    ],
)  # fmt: skip
def test_validity(grader: Grader, answer: str, why: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert invalid(answer, grader, schema) == why


def graded(*passed: bool) -> Quality:
    grades = (Grade(prompt_id=f"p{n}", turn=0, repeat=0, passed=ok) for n, ok in enumerate(passed))
    return Quality(grader="unit_tests", key="", grades=tuple(grades))


def test_the_paired_test_is_mcnemars() -> None:
    assert sign_test(0, 0) == 1.0
    assert sign_test(0, 6) == pytest.approx(2 / 64)
    assert sign_test(3, 1) == pytest.approx(2 * (1 + 4) / 16)


def test_quality_beside_the_baseline() -> None:
    base, point = graded(*[True] * 8, False, False), graded(*[True] * 2, *[False] * 8)
    found = quality_figures(point, base, is_baseline=False, seed=0)
    assert found.share.value == 0.2
    assert found.change.value == pytest.approx(-0.6)
    assert found.p_value == pytest.approx(2 / 64)
    same = quality_figures(base, base, is_baseline=False, seed=0)
    assert (same.change.value, same.p_value) == (0.0, 1.0)


def test_what_was_not_graded_has_its_reason() -> None:
    missing = Quality(grader="unit_tests", key="", problem="no sandbox: bwrap is not installed")
    found = quality_figures(missing, None, is_baseline=False, seed=0)
    assert found.share.reason == "no sandbox: bwrap is not installed"
    alone = quality_figures(graded(True), None, is_baseline=False, seed=0)
    assert alone.change.reason == "the baseline's answers were not graded alike"
    assert quality_figures(graded(True), None, is_baseline=True, seed=0).share.value == 1.0


def test_preferences_are_a_win_rate() -> None:
    liked = [1.0, 1.0, 1.0, 0.5, 0.0]
    pairs = tuple(Preference(prompt_id=f"p{n}", better=b) for n, b in enumerate(liked))
    found = quality_figures(
        Quality(grader="blind", key="", preferences=pairs), None, is_baseline=False, seed=0
    )
    assert found.share.value == pytest.approx(0.7)
    assert found.change.value == pytest.approx(0.2)
    assert found.p_value == pytest.approx(sign_test(3, 1))


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("A", "A"), ("b", "B"), ("C.", "C"), ("**B**", "B"), ("[[A]]", "A"), ("Answer: B", "B"),
        ("B, because it is good", "B"), ("Answer A is better", "A"), ("", None),
        ("Both are good", None), ("Cannot say", None), ("Actually B", None),
        ("A close look at both", None), ("A is more correct", "A"), ("<think> A", None),
    ],
)  # fmt: skip
def test_a_letter_is_a_choice_and_a_word_is_none(reply: str, letter: str | None) -> None:
    found = REPLY.match(reply)
    assert (found[1].upper() if found else None) == letter


def test_a_reference_is_for_the_last_turn(tmp_path: Path) -> None:
    """The first answer says 17 and was never asked for 18."""
    file = tmp_path / "question.jsonl"
    line = {"question_id": 1, "category": "math", "turns": ["8 + 9?", "and one?"]}
    file.write_text(json.dumps(line | {"reference": ["17", "18"]}) + "\n")
    dataset = describe("spec_bench", file, None, format="spec_bench")
    answers = (record("1", text="17"), record("1", text="18", turn=1))
    made = folder(tmp_path / "s", Made(point=point("none", 0, dataset=dataset), records=answers))
    grade(made, Grader(name="exact_match"), lambda _: None)
    (planned,) = read_sweep(made).plan.points
    found = made.point(planned).read_quality()
    assert found is not None and found.problem == ""
    assert [(g.turn, g.passed) for g in found.grades] == [(1, True)]


@pytest.mark.parametrize(
    ("grader", "passed"),
    [
        (Grader(name="by_dataset"), {"a": False, "b": True}),
        (validity(), {"a": False, "b": True, "c": True}),
        (validity(valid="regex", pattern="x"), {"a": False, "b": True, "c": False}),
    ],
)
def test_a_prompts_own_schema_goes_before_the_sweeps(
    tmp_path: Path, grader: Grader, passed: dict[str, bool]
) -> None:
    schemas = {"a": {"required": ["n"]}, "b": {"type": "array"}, "c": None}
    file = tmp_path / "prompts.jsonl"
    lines = [{"id": name, "prompt": "JSON:", "schema": s} for name, s in schemas.items()]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    answers = (record("a", text="{}"), record("b", text="[1]"), record("c", text="3"))
    asked = point("none", 0, dataset=describe("mine", file, None))
    made = folder(tmp_path / "s", Made(point=asked, records=answers))
    grade(made, grader, lambda _: None)
    (planned,) = read_sweep(made).plan.points
    found = made.point(planned).read_quality()
    assert found is not None and found.problem == ""
    assert {g.prompt_id: g.passed for g in found.grades} == passed
    assert found.grades[0].why == "$: 'n' is a required property"


def test_answers_that_came_without_a_text_are_not_graded(tmp_path: Path) -> None:
    """TRL's own server gives token ids alone; no answer of it is wrong for that."""
    file = tmp_path / "prompts.jsonl"
    file.write_text(json.dumps({"id": "a", "prompt": "8 + 9?", "expected": "17"}) + "\n")
    asked = point("none", 0, dataset=describe("mine", file, None))
    made = folder(tmp_path / "s", Made(point=asked, records=(record("a", text=""),)))
    grade(made, Grader(name="exact_match"), lambda _: None)
    (planned,) = read_sweep(made).plan.points
    found = made.point(planned).read_quality()
    assert found is not None and found.grades == ()
    assert found.problem == "the server gave token ids and no text, which is what is graded"
