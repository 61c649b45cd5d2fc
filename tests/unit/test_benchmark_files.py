"""Files of benchmarks: what becomes of a line, what is wrong with one, where to get them."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sweeper.drive.datasets import describe, prompts_of
from sweeper.errors import DatasetError
from sweeper.values import Message, Prompt
from tests.unit.asked import LLAMA, checkpoint

DATA = Path(os.environ.get("SWEEPER_TEST_DATA", "/nonexistent"))
real = pytest.mark.skipif(not DATA.is_dir(), reason="SWEEPER_TEST_DATA is not set")


def lines(path: Path, *entries: Any) -> Path:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    return path


def prompts(path: Path, format: str, limit: int | None = None, **options: Any) -> tuple[Any, ...]:
    return prompts_of(describe("d", path, limit, format, options))


def refused(path: Path | str, format: str, limit: int | None = None, **options: Any) -> str:
    with pytest.raises(DatasetError) as caught:
        describe("d", path, limit, format, options)
    return str(caught.value).replace(f"{Path(path).parent}/", "")


def asked(text: str) -> tuple[Message, ...]:
    return (Message(role="user", content=text),)


# --- Spec-Bench


WRITING = {"question_id": 81, "category": "writing", "turns": ["Write.", "Again."]}
MATH = {"question_id": 111, "category": "math", "turns": ["1+1?"], "reference": ["2"]}


def test_spec_bench_has_all_turns_and_categories_in_turn(tmp_path: Path) -> None:
    path = lines(tmp_path / "q.jsonl", WRITING, WRITING | {"question_id": 82}, MATH)
    assert prompts(path, "spec_bench") == (
        Prompt(id="81", category="writing", messages=asked("Write."), follow_ups=("Again.",)),
        Prompt(id="111", category="math", messages=asked("1+1?"), reference="2"),
        Prompt(id="82", category="writing", messages=asked("Write."), follow_ups=("Again.",)),
    )
    assert describe("d", path, None, "spec_bench").requests == 5
    assert [p.follow_ups for p in prompts(path, "spec_bench", max_turns=1)] == [()] * 3


def test_spec_bench_mistakes_are_told_all_at_once(tmp_path: Path) -> None:
    path = lines(tmp_path / "q.jsonl", WRITING, WRITING, {"category": "x", "turns": []}, [1])
    assert refused(path, "spec_bench").splitlines() == [
        'q.jsonl:2: the id "81" is that of line 1 too; ids must be unique',
        'q.jsonl:3: "turns" is a list; write a list of one or more texts',
        "q.jsonl:4: the line holds a list, not an object; a line of Spec-Bench has "
        '"category", "turns"',
    ]


@real
def test_the_real_spec_bench() -> None:
    found = prompts(DATA / "spec_bench.jsonl", "spec_bench")
    assert len(found) == 480 and sum(p.turns for p in found) == 560
    assert set(Counter(p.category for p in found).values()) == {10, 80}
    assert len({p.category for p in found[:13]}) == 13


# --- HumanEval, GSM8K


TASK = {
    "task_id": "HumanEval/0",
    "prompt": 'def one():\n    """1"""\n',
    "entry_point": "one",
    "canonical_solution": "    return 1\n",
    "test": "def check(candidate):\n    assert candidate() == 1\n",
}


def test_humaneval_asks_for_the_function_or_goes_on_with_it(tmp_path: Path) -> None:
    path = lines(tmp_path / "h.jsonl", TASK)
    (chat,) = prompts(path, "humaneval")
    (plain,) = prompts(path, "humaneval", endpoint="completions")
    assert chat.messages[0].content.endswith('```python\ndef one():\n    """1"""\n```')
    assert (plain.messages, plain.text, plain.entry_point) == (None, TASK["prompt"], "one")
    for one in (chat, plain):
        space: dict[str, Any] = {}
        exec(f"{TASK['prompt']}{one.reference}\n{one.tests}", space)


def test_gsm8k_keeps_the_final_number(tmp_path: Path) -> None:
    path = lines(tmp_path / "g.jsonl", {"question": "How many?", "answer": "1+1=2\n#### 1,002"})
    assert prompts(path, "gsm8k") == (
        Prompt(id="line-1", category="math", messages=asked("How many?"), reference="1002"),
    )


def test_gsm8k_of_another_file_is_refused(tmp_path: Path) -> None:
    path = lines(tmp_path / "g.jsonl", {"question": "?", "answer": "2"})
    assert refused(path, "gsm8k") == (
        'g.jsonl:1: "answer" does not end in "#### number"; is this the file of GSM8K?'
    )


@real
def test_the_real_humaneval_and_gsm8k() -> None:
    tasks = prompts(DATA / "humaneval.jsonl", "humaneval")
    assert (len(tasks), tasks[0].id, tasks[0].entry_point) == (
        164,
        "HumanEval/0",
        "has_close_elements",
    )
    sums = prompts(DATA / "gsm8k_test.jsonl", "gsm8k")
    assert (len(sums), sums[0].reference) == (1319, "18")
    assert all(float(one.reference) is not None for one in sums)


# --- ShareGPT


def conversation(name: str, *turns: tuple[str, str]) -> dict[str, Any]:
    return {"id": name, "conversations": [{"from": who, "value": text} for who, text in turns]}


def test_sharegpt_takes_what_people_asked_and_says_what_it_left_out(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    entries = [
        conversation("a", ("human", "Hi"), ("gpt", "Hello"), ("human", "Bye")),
        conversation("b", ("gpt", "an answer to nothing")),
        conversation("c"),
    ]
    path.write_text(json.dumps(entries))
    made = describe("d", path, None, "sharegpt", {})
    assert prompts_of(made) == (Prompt(id="a", messages=asked("Hi"), follow_ups=("Bye",)),)
    assert made.notes == ("2 of 3 conversations do not begin with a person's turn: left out",)
    assert prompts(path, "sharegpt", max_turns=1)[0].follow_ups == ()
    assert prompts(lines(tmp_path / "s.jsonl", *entries), "sharegpt")[0].id == "a"


def test_sharegpt_lines_end_where_json_lines_end(tmp_path: Path) -> None:
    """U+2028, U+0085 and a form feed end a line for Python, and are text in JSON."""
    path = tmp_path / "s.jsonl"
    said = "one\u2028two\x85three"
    entries = [conversation("a", ("human", said)), conversation("b", ("human", "Hi"))]
    for end in ("\n", "\r\n"):
        path.write_bytes("".join(json.dumps(e, ensure_ascii=False) + end for e in entries).encode())
        found = prompts(path, "sharegpt")
        assert [p.messages for p in found] == [asked(said), asked("Hi")]


def test_sharegpt_says_that_ids_are_there_twice(tmp_path: Path) -> None:
    entries = [conversation(name, ("human", "Hi")) for name in ("a", "b", "a")]
    made = describe("d", lines(tmp_path / "s.jsonl", *entries), None, "sharegpt", {})
    assert [p.id for p in prompts_of(made)] == ["a#1", "b#2", "a#3"]
    assert made.notes == (
        "1 ids of conversations are those of earlier ones: every id is followed by # and its "
        "number in the file",
    )


def test_sharegpt_mistakes(tmp_path: Path) -> None:
    cut = tmp_path / "cut.json"
    cut.write_text('[{"id": "a",\n')
    assert refused(cut, "sharegpt").startswith("cut.json:2: not JSON: Expecting property name")
    other = lines(tmp_path / "o.jsonl", {"id": "a"}, conversation("b", ("human", "Hi")), 3)
    assert refused(other, "sharegpt").splitlines() == [
        'o.jsonl:1: "conversations" is null, not a list; is this a ShareGPT file?',
        "o.jsonl:3: the entry holds the number 3, not an object with conversations",
    ]


# --- random


def test_random_tokens_have_the_length_asked_for_and_come_again(tmp_path: Path) -> None:
    model = checkpoint(tmp_path / "m", LLAMA)
    made = describe("random", model, 3, "random", {"input_len": 7, "seed": 1})
    assert made.synthetic and made.label == "random (SYNTHETIC)"
    found = prompts_of(made)
    assert [len(p.token_ids or ()) for p in found] == [7, 7, 7]
    assert found == prompts_of(made)
    other = describe("random", model, 3, "random", {"input_len": 7, "seed": 2})
    assert made.digest != other.digest


def test_random_without_a_tokenizer(tmp_path: Path) -> None:
    assert refused(tmp_path / "x", "random", 1, input_len=4) == (
        "x: no readable tokenizer.json; dataset=random draws from the target's vocabulary, so give "
        "the target as a checkpoint folder or have it in the hub's cache"
    )


# --- the datasets library, local only


def test_a_local_folder_through_the_datasets_library(tmp_path: Path) -> None:
    import datasets

    rows = {"question": ["1+1?", "2+2?"], "answer": ["2", "4"], "subject": ["a", "b"]}
    datasets.Dataset.from_dict(rows).save_to_disk(str(tmp_path / "saved"))
    found = prompts(tmp_path / "saved", "hf", columns={"category": "subject"})
    assert found == (
        Prompt(id="row-1", category="a", messages=asked("1+1?"), reference="2"),
        Prompt(id="row-2", category="b", messages=asked("2+2?"), reference="4"),
    )
    (plain, _) = prompts(tmp_path / "saved", "hf", endpoint="completions")
    assert (plain.text, plain.messages) == ("1+1?", None)
    assert refused(tmp_path / "saved", "hf", columns={"prompt": "nope"}) == (
        "dataset.columns.prompt: " + str(tmp_path) + "/saved has no column nope; it has question, "
        "answer, subject"
    ).replace(f"{tmp_path}/", "")


def test_conversations_of_the_hub_end_with_what_the_user_asked(tmp_path: Path) -> None:
    import datasets

    def said(*turns: tuple[str, str]) -> list[dict[str, str]]:
        return [{"from": who, "value": text} for who, text in turns]

    rows = [
        said(("system", "Be brief."), ("human", "Hi"), ("gpt", "Hello"), ("human", "Bye")),
        said(("human", "1+1?"), ("gpt", "2"), ("gpt", "or 10")),
        said(("gpt", "an answer to nothing")),
    ]
    datasets.Dataset.from_dict({"conversations": rows}).save_to_disk(str(tmp_path / "saved"))
    made = describe("d", tmp_path / "saved", 2, "hf", {})
    first, second = prompts_of(made)
    assert [(m.role, m.content) for m in first.messages or ()] == [
        ("system", "Be brief."), ("user", "Hi"), ("assistant", "Hello"), ("user", "Bye"),
    ]  # fmt: skip
    assert second.messages == asked("1+1?")
    assert made.notes == ("1 of 2 conversations end with an answer: it is not sent",)
    third = refused(tmp_path / "saved", "hf", 3)
    assert third.startswith('saved:3: "messages" has no user turn')


def test_messages_of_the_hub_may_have_keys_that_only_others_use(tmp_path: Path) -> None:
    import datasets

    rows = [[{"role": "user", "content": "Hi", "name": None}]]
    datasets.Dataset.from_dict({"messages": rows}).save_to_disk(str(tmp_path / "saved"))
    assert [p.messages for p in prompts(tmp_path / "saved", "hf")] == [asked("Hi")]


# --- what holds for all


def test_an_option_that_the_format_does_not_read_is_refused(tmp_path: Path) -> None:
    path = lines(tmp_path / "q.jsonl", WRITING)
    assert refused(path, "spec_bench", endpoint="chat") == (
        "dataset.endpoint: the format spec_bench does not read it; remove it"
    )
    assert refused(path, "spec_bench", max_turns=0) == "dataset.max_turns: 0: at least 1, or null"


def test_prompts_that_changed_since_the_plan_are_refused(tmp_path: Path) -> None:
    path = lines(tmp_path / "q.jsonl", WRITING)
    made = describe("d", path, None, "spec_bench")
    lines(path, MATH)
    with pytest.raises(DatasetError) as caught:
        prompts_of(made)
    assert str(caught.value) == f"{path} has changed since the sweep was planned; plan it again"


def test_template_arguments_are_part_of_the_contents(tmp_path: Path) -> None:
    path = lines(tmp_path / "p.jsonl", {"messages": [{"role": "user", "content": "Hi"}]})
    plain = describe("d", path, None)
    thinking = describe("d", path, None, options={"chat_template_kwargs": {"thinking": True}})
    assert plain.digest != thinking.digest
    assert prompts_of(thinking)[0].template_kwargs == '{"thinking": true}'


def test_tools_are_kept_and_checked(tmp_path: Path) -> None:
    tool = {"type": "function", "function": {"name": "f"}}
    messages = [{"role": "user", "content": "Hi"}]
    good = lines(tmp_path / "g.jsonl", {"messages": messages, "tools": [tool]})
    (found,) = prompts(good, "prompts")
    assert json.loads(found.tools) == [tool]
    bad = lines(
        tmp_path / "b.jsonl",
        {"messages": messages, "tools": [{"name": "f"}]},
        {"prompt": "Hi", "tools": [tool]},
    )
    assert refused(bad, "prompts").splitlines() == [
        'b.jsonl:1: "tools" is not a list of functions; write [{"type": "function", "function": '
        '{"name": "..."}}]',
        'b.jsonl:2: "tools" go with "messages": the chat template shows them; use "messages"',
    ]
