"""Prompt files: every mistake has its sentence, and the shipped files are what they claim."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from pathlib import Path

import pytest

from sweeper.drive.datasets import describe, digest, read_prompts, shipped
from sweeper.errors import DatasetError
from sweeper.values import Dataset, Json, Message, Prompt

GOOD = b'{"prompt": "Hello"}\n'
USER = '{"role": "user", "content": "..."}'
DATA = "SWEEPER_TEST_DATA"


def written(folder: Path, data: bytes | str, name: str = "prompts.jsonl") -> Path:
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def refused(path: Path, limit: int | None = None) -> str:
    """The whole message with which a file is refused, its folder taken out."""
    with pytest.raises(DatasetError) as caught:
        read_prompts(path, limit=limit)
    return str(caught.value).replace(f"{path.parent}/", "")


# --- what is read


def test_chat_prompt_with_every_field(tmp_path: Path) -> None:
    entry = {
        "id": "one",
        "category": "write",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Add é and 本."},
        ],
        "reference": "def f(): ...",
        "entry_point": "f",
        "tests": "assert f() is None",
    }
    path = written(tmp_path, json.dumps(entry, ensure_ascii=False))
    assert read_prompts(path) == (
        Prompt(
            id="one",
            category="write",
            messages=(
                Message(role="system", content="Be brief."),
                Message(role="user", content="Add é and 本."),
            ),
            reference="def f(): ...",
            entry_point="f",
            tests="assert f() is None",
        ),
    )


def test_completion_prompt_with_defaults_and_expected(tmp_path: Path) -> None:
    lines = '{"prompt": "1+1=", "expected": "2", "category": null}\n{"prompt": "2+2="}\n'
    assert read_prompts(written(tmp_path, lines)) == (
        Prompt(id="line-1", text="1+1=", reference="2"),
        Prompt(id="line-2", text="2+2="),
    )


def test_a_line_separator_inside_a_string_does_not_end_the_line(tmp_path: Path) -> None:
    path = written(tmp_path, '{"prompt": "a\u2028b"}\n')
    assert [prompt.text for prompt in read_prompts(path)] == ["a\u2028b"]


def test_limit_takes_the_first(tmp_path: Path) -> None:
    path = written(tmp_path, b'{"prompt": "a"}\n{"prompt": "b"}\n{"prompt": "c"}\n')
    assert [prompt.text for prompt in read_prompts(path, limit=2)] == ["a", "b"]
    assert len(read_prompts(path, limit=3)) == 3


def test_digest_is_that_of_the_bytes(tmp_path: Path) -> None:
    assert digest(written(tmp_path, GOOD)) == hashlib.sha256(GOOD).hexdigest()


def test_describe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, GOOD * 3)
    monkeypatch.chdir(tmp_path)
    assert describe("mine", Path("prompts.jsonl"), 2) == Dataset(
        name="mine",
        path=str(tmp_path / "prompts.jsonl"),
        digest=hashlib.sha256(GOOD * 3).hexdigest(),
        limit=2,
        prompts=2,
    )
    assert describe("mine", Path("prompts.jsonl"), None).prompts == 3


# --- what is refused: the entry

LINES = [
    ("[1]", f'the line holds a list, not an object; write {{"prompt": "..."}} or '
            f'{{"messages": [{USER}]}}'),
    ("{}", f'no prompt; add "messages": [{USER}] or "prompt": "..."'),
    ('{"prompt": null}', f'no prompt; add "messages": [{USER}] or "prompt": "..."'),
    ('{"prompt": " "}', '"prompt" is empty; write a text or leave it out'),
    ('{"prompt": 5}', '"prompt" is the number 5, not a string; put quotes around it'),
    ('{"prompt": ["a"]}', '"prompt" is a list, not a string; write the text itself'),
    ('{"prompt": "\\ud83d"}', '"prompt" holds half of a \\u surrogate pair; write both halves '
                              'or the character'),
    ('{"prompt": "a", "id": 7}', '"id" is the number 7, not a string; put quotes around it'),
    ('{"prompt": "a", "id": true}', '"id" is true, not a string; put quotes around it'),
    ('{"prompt": "a", "id": ""}', '"id" is empty; write a text or leave it out'),
    ('{"prompt": "a", "tests": NaN}', '"tests" is the number nan, not a string; put quotes '
                                      'around it'),
    ('{"prompt": "a", "catgory": "b"}', 'unknown key "catgory"; did you mean "category"?'),
    ('{"prompt": "a", "task_id": "b"}', 'unknown key "task_id"; did you mean "id"?'),
    ('{"prompt": "a", "zzz": "b"}', 'unknown key "zzz"; the keys are id, category, messages, '
                                    'prompt, tools, reference, expected, entry_point, tests, '
                                    'schema'),
    ('{"prompt": "a", "messages": [{"role": "user", "content": "a"}]}',
     'both "prompt" and "messages" are given; keep "messages" for the chat endpoint or "prompt" '
     'for the completions endpoint'),
    ('{"prompt": "a", "reference": "b", "expected": "b"}',
     'both "reference" and "expected" are given, which mean the same; keep one'),
    ('{"prompt": "a", "entry_point": "f()"}',
     '"entry_point" is "f()"; write the name of one Python function'),
    ('{"prompt": "a", "tests": "\\nassert f("}',
     '"tests" is not Python: \'(\' was never closed in its line 2; write assertions'),
    ('{"prompt": "a", "schema": "{}"}',
     '"schema" is a string, not an object; write the JSON schema itself'),
    ('{"prompt": "a", "schema": {"type": "objekt"}}',
     '"schema" is no JSON schema: $.type: \'objekt\' is not valid under any of the given schemas'),
    ('{"messages": "a"}', f'"messages" is a string, not a list; write [{USER}]'),
    ('{"messages": []}', f'"messages" is empty; write [{USER}]'),
    ('{"messages": ["a"]}', f'messages[0] is a string, not an object; write {USER}'),
    ('{"messages": [{"content": "a"}]}', f'messages[0] has no "role"; write {USER}'),
    ('{"messages": [{"role": "user"}]}', f'messages[0] has no "content"; write {USER}'),
    ('{"messages": [{"role": "usr", "content": "a"}]}',
     'messages[0].role is "usr"; did you mean "user"?'),
    ('{"messages": [{"role": "user", "content": ""}]}',
     'messages[0].content is empty; write a text or leave it out'),
    ('{"messages": [{"role": "user", "contents": "a", "content": "a"}]}',
     'unknown key "contents" in messages[0]; did you mean "content"?'),
    ('{"messages": [{"role": "system", "content": "a"}]}',
     f'"messages" has no user turn; add {USER} at the end'),
    ('{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}',
     "the last message is from the assistant; end with the user turn or the tool's result to be "
     "answered"),
    ('{"prompt": "a" "id": "b"}',
     "not JSON: Expecting ',' delimiter at column 16; write one whole JSON object a line"),
    ('{"prompt": "a", "prompt": "b"}', 'the key "prompt" is there twice; keep one'),
    ("[" * 100_000, 'not a prompt; write {"prompt": "..."}'),
]  # fmt: skip


@pytest.mark.parametrize(("line", "sentence"), LINES, ids=range(len(LINES)))
def test_one_mistake_in_one_line(tmp_path: Path, line: str, sentence: str) -> None:
    path = written(tmp_path, GOOD + line.encode() + b"\n")
    assert refused(path) == f"prompts.jsonl:2: {sentence}"


def test_all_mistakes_at_once_in_the_order_of_lines(tmp_path: Path) -> None:
    lines = b'{"id": 7, "promt": "a"}\nnot json\n{"prompt": ""}\n'
    assert refused(written(tmp_path, lines)).split("\n") == [
        'prompts.jsonl:1: unknown key "promt"; did you mean "prompt"?',
        f'prompts.jsonl:1: no prompt; add "messages": [{USER}] or "prompt": "..."',
        'prompts.jsonl:1: "id" is the number 7, not a string; put quotes around it',
        "prompts.jsonl:2: not JSON: Expecting value at column 1; "
        "write one whole JSON object a line",
        'prompts.jsonl:3: "prompt" is empty; write a text or leave it out',
    ]


@pytest.mark.parametrize(("count", "end"), [(20, None), (21, "and 1 more"), (95, "and 75 more")])
def test_twenty_mistakes_are_shown(tmp_path: Path, count: int, end: str | None) -> None:
    message = refused(written(tmp_path, b'{"prompt": ""}\n' * count)).split("\n")
    assert message[19] == 'prompts.jsonl:20: "prompt" is empty; write a text or leave it out'
    assert message[20:] == ([] if end is None else [end])


# --- what is refused: the file


@pytest.mark.parametrize("twin", ['{"prompt": "b", "id": "x"}', '{"prompt": "", "id": "x"}'])
def test_duplicate_id_names_both_lines(tmp_path: Path, twin: str) -> None:
    path = written(tmp_path, '{"prompt": "a", "id": "x"}\n' + GOOD.decode() + twin)
    sentence = 'prompts.jsonl:3: the id "x" is that of line 1 too; ids must be unique'
    assert refused(path).split("\n")[-1] == sentence


def test_default_id_is_taken(tmp_path: Path) -> None:
    path = written(tmp_path, b'{"prompt": "a", "id": "line-2"}\n' + GOOD)
    sentence = 'prompts.jsonl:2: the id "line-2" is that of line 1 too; ids must be unique'
    assert refused(path) == sentence


@pytest.mark.parametrize(
    ("data", "line"),
    [(b"\n" + GOOD, 1), (GOOD + b" \t\n" + GOOD, 2), (GOOD + b"\n", 2)],
    ids=["first", "middle", "last"],
)
def test_blank_line(tmp_path: Path, data: bytes, line: int) -> None:
    sentence = f"prompts.jsonl:{line}: the line is blank; remove it"
    assert refused(written(tmp_path, data)) == sentence


def test_crlf_says_how_to_convert_and_hides_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD + b'{"prompt": "a"}\r\n{"prompt": ""}\r\n')
    assert refused(path).split("\n") == [
        "prompts.jsonl:2: the line ends in CRLF (2 in the file); "
        "convert the file with: sed -i 's/\\r$//' prompts.jsonl",
        'prompts.jsonl:3: "prompt" is empty; write a text or leave it out',
    ]


def test_byte_order_mark(tmp_path: Path) -> None:
    assert refused(written(tmp_path, b"\xef\xbb\xbf" + GOOD)) == (
        "prompts.jsonl:1: the file starts with a UTF-8 byte order mark; "
        "remove it with: sed -i '1s/^\\xEF\\xBB\\xBF//' prompts.jsonl"
    )


def test_utf16(tmp_path: Path) -> None:
    assert refused(written(tmp_path, GOOD.decode().encode("utf-16"))) == (
        "prompts.jsonl:1: the file is UTF-16, not UTF-8; "
        "convert it with: iconv -f UTF-16 -t UTF-8 prompts.jsonl"
    )


def test_not_utf8(tmp_path: Path) -> None:
    assert refused(written(tmp_path, GOOD + '{"prompt": "é"}'.encode("latin-1"))) == (
        "prompts.jsonl:2: byte 13 of the line is 0xe9, which is not UTF-8; save the file as UTF-8"
    )


@pytest.mark.parametrize("data", [b"", b"\n", b" \r\n", b"\xef\xbb\xbf"])
def test_empty_file(tmp_path: Path, data: bytes) -> None:
    sentence = "prompts.jsonl: the file is empty; write one JSON object a line"
    assert refused(written(tmp_path, data)) == sentence


def test_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "promts.jsonl"
    sentence = "promts.jsonl: no such file; give the path of a JSONL file"
    assert refused(path) == sentence
    written(tmp_path, GOOD)
    assert refused(path) == 'promts.jsonl: no such file; did you mean "prompts.jsonl"?'


def test_missing_folder(tmp_path: Path) -> None:
    folder = tmp_path / "nowhere"
    sentence = f"a.jsonl: no such file; the folder {folder} does not exist either"
    assert refused(folder / "a.jsonl") == sentence


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    sentence = "data: Is a directory; give a readable JSONL file"
    assert refused(tmp_path / "data") == sentence


def test_a_file_goes_to_one_endpoint(tmp_path: Path) -> None:
    chat = b'{"messages": [{"role": "user", "content": "a"}]}\n'
    plain = b'{"prompt": "a"}\n'
    assert refused(written(tmp_path, chat * 2 + plain + chat + plain)) == (
        'prompts.jsonl:3: "prompt" after lines with "messages", which go to another endpoint; '
        "write one kind a file"
    )
    assert len(read_prompts(written(tmp_path, chat * 2))) == 2


def test_limit_past_the_end_names_both_numbers(tmp_path: Path) -> None:
    assert refused(written(tmp_path, GOOD * 2), limit=3) == (
        "prompts.jsonl: the limit asks for 3 prompts and the file holds 2; "
        "lower the limit to 2 or leave it out"
    )


@pytest.mark.parametrize("limit", [0, -1])
def test_limit_below_one(tmp_path: Path, limit: int) -> None:
    sentence = f"prompts.jsonl: the limit is {limit}; ask for 1 prompt or more, or null: all"
    assert refused(written(tmp_path, GOOD), limit=limit) == sentence


# --- the shipped files


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("cod", 'no shipped dataset "cod"; did you mean "code"? shipped: chat, code'),
        ("../data/code", 'no shipped dataset "../data/code"; shipped: chat, code'),
    ],
)
def test_unknown_shipped_name(name: str, sentence: str) -> None:
    with pytest.raises(DatasetError) as caught:
        shipped(name)
    assert str(caught.value) == sentence


def categories(name: str, limit: int | None = None) -> Counter[str | None]:
    return Counter(prompt.category for prompt in read_prompts(shipped(name), limit=limit))


def test_shipped_categories() -> None:
    code = {"write": 24, "edit": 16, "explain": 4, "convert": 4}
    chat = {"question": 12, "advice": 8, "writing": 8, "summarize": 8, "extract": 8, "roleplay": 4}
    assert categories("code") == code
    assert categories("chat") == chat


def test_first_twelve_are_a_fair_mix() -> None:
    code = {"write": 6, "edit": 4, "explain": 1, "convert": 1}
    chat = {"question": 3, "advice": 2, "writing": 2, "summarize": 2, "extract": 2, "roleplay": 1}
    assert categories("code", 12) == code
    assert categories("chat", 12) == chat


@pytest.mark.parametrize("name", ["code", "chat"])
def test_shipped_ids_and_texts_are_distinct(name: str) -> None:
    prompts = read_prompts(shipped(name))
    assert [prompt.id for prompt in prompts] == [f"{name}-{n:03}" for n in range(1, 49)]
    assert len({prompt.messages for prompt in prompts}) == 48


TESTED = [prompt for prompt in read_prompts(shipped("code")) if prompt.tests is not None]


@pytest.mark.parametrize("prompt", TESTED, ids=lambda prompt: prompt.id)
def test_reference_passes_its_tests_and_an_empty_answer_does_not(prompt: Prompt) -> None:
    assert prompt.reference and prompt.entry_point and prompt.tests
    space: dict[str, Json] = {}
    exec(prompt.reference, space)
    exec(prompt.tests, space)
    assert prompt.entry_point in prompt.tests
    with pytest.raises(NameError):
        exec(prompt.tests, {})


def test_most_code_prompts_are_tested() -> None:
    assert Counter(prompt.category for prompt in TESTED) == {"write": 24, "edit": 14, "convert": 3}


def fenced(prompt: Prompt) -> str:
    """The code a prompt gives between its fences."""
    assert prompt.messages
    return prompt.messages[-1].content.split("```")[1].split("\n", 1)[1]


EDITS = [prompt for prompt in read_prompts(shipped("code")) if prompt.category == "edit"]


TIDIED = ("code-031", "code-046")
"""Edits that change how the code reads and not what it does: the given code passes already."""


@pytest.mark.parametrize("prompt", EDITS, ids=lambda prompt: prompt.id)
def test_edit_tasks_give_8_to_25_lines(prompt: Prompt) -> None:
    assert 8 <= len(fenced(prompt).splitlines()) <= 25


@pytest.mark.parametrize(
    "prompt", [prompt for prompt in EDITS if prompt.tests], ids=lambda prompt: prompt.id
)
def test_code_given_back_unchanged_fails_unless_it_only_needs_tidying(prompt: Prompt) -> None:
    space: dict[str, Json] = {}
    exec(fenced(prompt), space)
    if prompt.id in TIDIED:
        exec(prompt.tests or "", space)
        return
    with pytest.raises((AssertionError, AttributeError, IndexError, NameError, TypeError)):
        exec(prompt.tests or "", space)


# --- nothing is copied


def texts_of(row: Json) -> list[str]:
    """The prompt texts of a row of HumanEval, GSM8K or Spec-Bench."""
    return [*(row[key] for key in ("prompt", "question") if key in row), *row.get("turns", [])]


def squeezed(text: str) -> str:
    return " ".join(text.lower().split())


def test_no_prompt_is_that_of_a_known_benchmark() -> None:
    folder = os.environ.get(DATA)
    if not folder:
        pytest.skip(f"{DATA} does not name a folder with benchmark files to compare with")
    names = ("humaneval.jsonl", "gsm8k_test.jsonl", "spec_bench.jsonl")
    files = [(Path(folder) / name).read_text(encoding="utf-8") for name in names]
    rows = [json.loads(line) for text in files for line in text.splitlines()]
    known = {squeezed(text) for row in rows for text in texts_of(row)}
    assert len(known) > 1000
    prompts = [prompt for name in ("code", "chat") for prompt in read_prompts(shipped(name))]
    ours = {squeezed(message.content) for p in prompts for message in p.messages or ()}
    assert not ours & known
