"""Conversations with tool calls: every mistake has its line, and all that was given is sent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sweeper.drive.datasets import describe, prompts_of, read_prompts
from sweeper.drive.datasets.messages import A_CALL, A_PART
from sweeper.drive.requests import prompt_fields
from sweeper.errors import DatasetError
from sweeper.quality.programs import program
from sweeper.report.page.answers import prompts as shown
from sweeper.values import Json, Message, Prompt

USER = {"role": "user", "content": "Rain in Oslo?"}
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "rain", "arguments": '{"city": "Oslo"}'},
}
ASKS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
SAYS = {"role": "tool", "tool_call_id": "call_1", "content": '{"mm": 3}'}
TOOLS = [{"type": "function", "function": {"name": "rain"}}]
EVERYTHING: list[Json] = [
    {"role": "system", "content": [{"type": "text", "text": "Be"}, {"type": "text", "text": "é"}]},
    {"role": "developer", "content": "Use tools."},
    {"role": "user", "name": "ann", "content": "Rain in Oslo?"},
    {"role": "assistant", "tool_calls": [CALL], "content": None, "refusal": None, "audio": None},
    SAYS,
    {"role": "assistant", "content": "3 mm", "annotations": []},
    {"role": "user", "content": [{"type": "text", "text": "And now?"}]},
    {"role": "assistant", "tool_calls": [CALL | {"id": "call_2"}]},
    {"role": "tool", "tool_call_id": "call_2", "content": "", "name": "rain"},
]


def written(folder: Path, *messages: Json, **more: Json) -> Path:
    """A file whose second line holds the messages."""
    lines = [{"messages": [USER]}, {"messages": list(messages)} | more]
    path = folder / "prompts.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def read(folder: Path, *messages: Json, **more: Json) -> Prompt:
    return read_prompts(written(folder, *messages, **more))[1]


def refused(folder: Path, *messages: Json) -> list[str]:
    """The mistakes, each without the file and line that all must have."""
    with pytest.raises(DatasetError) as caught:
        read_prompts(written(folder, *messages))
    start = f"{folder}/prompts.jsonl:2: "
    lines = str(caught.value).split("\n")
    assert all(line.startswith(start) for line in lines)
    return [line.removeprefix(start) for line in lines]


# --- what is sent and shown


def test_everything_that_was_given_is_sent(tmp_path: Path) -> None:
    sent = prompt_fields(read(tmp_path, *EVERYTHING, tools=TOOLS))
    assert sent == {"messages": EVERYTHING, "tools": TOOLS, "tool_choice": "none"}
    assert [list(message) for message in sent["messages"]] == [list(m) for m in EVERYTHING]


def test_a_role_and_a_text_are_a_message_as_before(tmp_path: Path) -> None:
    assert read(tmp_path, USER).messages == (Message(role="user", content="Rain in Oslo?"),)


def test_people_read_texts_calls_and_results(tmp_path: Path) -> None:
    prompt = read(tmp_path, USER, ASKS, SAYS)
    assert prompt.asked == (
        'user: Rain in Oslo?\n\nassistant: rain({"city": "Oslo"})\n\ntool: {"mm": 3}'
    )
    dataset = describe("mine", tmp_path / "prompts.jsonl", None)
    assert shown(dataset) == {"line-1": ["Rain in Oslo?"], "line-2": [prompt.asked]}
    assert prompts_of(dataset)[1] == prompt


def test_a_call_may_come_with_a_text_and_parts_are_lines(tmp_path: Path) -> None:
    both = ASKS | {"content": [{"type": "text", "text": "One"}, {"type": "text", "text": "moment"}]}
    messages = read(tmp_path, USER, both, SAYS).messages
    assert messages and messages[1].content == 'One\nmoment\nrain({"city": "Oslo"})'


def test_the_digest_of_plain_messages_is_what_it_was(tmp_path: Path) -> None:
    path = written(tmp_path, USER)
    options = {"chat_template_kwargs": {"a": 1}}
    assert describe("mine", path, None, options=options).digest == (
        "597e7c519887a9bf6a96455d04fda77aca32470c001af18c15337124235d6aeb"
    )
    calls = written(tmp_path, USER, ASKS, SAYS)
    first = describe("mine", calls, None, options=options).digest
    calls.write_text(calls.read_text().replace('"mm\\": 3', '"mm\\": 4'))
    assert describe("mine", calls, None, options=options).digest != first


def test_code_is_tested_with_what_the_user_asked(tmp_path: Path) -> None:
    asked = USER | {"content": "from math import pi\nWrite f."}
    prompt = read(tmp_path, asked, ASKS, SAYS, tests="assert f()", entry_point="f")
    assert program(prompt, "def f(): return pi")[0].startswith("from math import pi\n")


# --- what is refused

CONTENTS: list[tuple[Json, str]] = [
    ({"role": "user", "content": []}, f"messages[1].content is empty; write [{A_PART}]"),
    ({"role": "user", "content": [{"type": "text", "text": " "}]},
     f"messages[1].content is empty; write [{A_PART}]"),
    ({"role": "user", "content": ["a"]},
     f"messages[1].content[0] is a string, not an object; write {A_PART}"),
    ({"role": "user", "content": [{"text": "a"}]},
     f'messages[1].content[0] has no "type"; write {A_PART}'),
    ({"role": "user", "content": [{"type": "text"}]},
     f'messages[1].content[0] has no "text"; write {A_PART}'),
    ({"role": "user", "content": [{"type": "text", "text": 5}]},
     "messages[1].content[0].text is the number 5, not a string; put quotes around it"),
    ({"role": "user", "content": [{"type": "text", "text": "a", "txt": "b"}]},
     'unknown key "txt" in messages[1].content[0]; did you mean "text"?'),
    ({"role": "user", "content": [{"type": "text", "text": "a"},
                                  {"type": "image_url", "image_url": {"url": "x"}}]},
     'messages[1].content[1] is of type "image_url"; only text is measured here: leave out what is '
     "not text"),
    ({"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]},
     'messages[1].content[0] is of type "input_audio"; only text is measured here: leave out what '
     "is not text"),
    ({"role": "user", "content": {"text": "a"}},
     "messages[1].content is an object, not a string; write the text itself"),
    ({"role": "user", "content": "a", "name": None},
     "messages[1].name is null, not a string; put quotes around it"),
    ({"role": "user", "content": "a", "refusal": "no"},
     'unknown key "refusal" in messages[1]; the keys are role, content, name, tool_calls, '
     "tool_call_id"),
    ({"role": "user", "content": "a", "tool_calls": [CALL]},
     "messages[1].tool_calls: only an assistant message calls tools; remove it"),
    ({"role": "user", "content": "a", "tool_call_id": "call_1"},
     "messages[1].tool_call_id: only a tool message answers a call; remove it"),
    ({"role": "tol", "content": "a"}, 'messages[1].role is "tol"; did you mean "tool"?'),
    ({"role": "critic", "content": "a"},
     'messages[1].role is "critic"; the roles are system, developer, user, assistant, tool'),
    ({"role": "assistant"},
     'messages[1] has neither "content" nor "tool_calls"; write what was said'),
    ({"role": "assistant", "content": ""},
     "messages[1].content is empty; write a text or leave it out"),
    ({"role": "tool", "content": "a"},
     'messages[1] has no "tool_call_id"; write the id of the call it answers'),
    ({"role": "tool", "content": "a", "tool_call_id": "call_1"},
     'messages[1].tool_call_id: no earlier call has the id "call_1"; none is before it'),
]  # fmt: skip


@pytest.mark.parametrize(("message", "sentence"), CONTENTS, ids=range(len(CONTENTS)))
def test_one_mistake_in_a_message(tmp_path: Path, message: Json, sentence: str) -> None:
    assert refused(tmp_path, USER, message, USER) == [sentence]


WHERE = "messages[1].tool_calls[0]"
CALLS: list[tuple[Json, str]] = [
    ({}, "messages[1].tool_calls is an object, not a list; write [" + A_CALL + "]"),
    ([], "messages[1].tool_calls is empty; leave it out"),
    (["rain"], f"{WHERE} is not the call of a function; write {A_CALL}"),
    ([CALL | {"type": "custom"}], f"{WHERE} is not the call of a function; write {A_CALL}"),
    ([CALL | {"function": "rain"}], f"{WHERE} is not the call of a function; write {A_CALL}"),
    ([CALL | {"index": 0}],
     f'unknown key "index" in {WHERE}; the keys are id, type, function'),
    ([CALL | {"id": None}], f"{WHERE}.id is missing; write {A_CALL}"),
    ([CALL | {"id": 7}], f"{WHERE}.id is the number 7, not a string; put quotes around it"),
    ([CALL | {"function": {"arguments": "{}"}}],
     f"{WHERE}.function.name is missing; write {A_CALL}"),
    ([CALL | {"function": {"name": "f"}}],
     f"{WHERE}.function.arguments is null, not a string; write the object as JSON text"),
    ([CALL | {"function": {"name": "f", "arguments": {"a": 1}}}],
     f"{WHERE}.function.arguments is an object, not a string; write the object as JSON text"),
    ([CALL | {"function": {"name": "f", "arguments": ""}}],
     f'{WHERE}.function.arguments is not JSON text; write that of an object, "{{}}" for no '
     "arguments"),
    ([CALL | {"function": {"name": "f", "arguments": "[1]"}}],
     f'{WHERE}.function.arguments is a list as JSON text; write an object, "{{}}" for no '
     "arguments"),
]  # fmt: skip


@pytest.mark.parametrize(("calls", "sentence"), CALLS, ids=range(len(CALLS)))
def test_one_mistake_in_calls(tmp_path: Path, calls: Json, sentence: str) -> None:
    said = {"role": "assistant", "content": "a", "tool_calls": calls}
    assert refused(tmp_path, USER, said, USER) == [sentence]


def test_a_result_names_a_call_before_it(tmp_path: Path) -> None:
    other, unlike = SAYS | {"tool_call_id": "call_9"}, SAYS | {"tool_call_id": 3}
    assert refused(tmp_path, USER, ASKS, other, unlike) == [
        'messages[2].tool_call_id: no earlier call has the id "call_9"; those before it are call_1',
        "messages[3].tool_call_id: no earlier call has the id 3; those before it are call_1",
    ]
    assert refused(tmp_path, USER, SAYS, ASKS, USER) == [
        'messages[1].tool_call_id: no earlier call has the id "call_1"; none is before it'
    ]


def test_a_conversation_ends_with_what_is_to_be_answered(tmp_path: Path) -> None:
    last = "end with the user turn or the tool's result to be answered"
    assert refused(tmp_path, USER, ASKS) == [f"the last message is from the assistant; {last}"]
    developer = {"role": "developer", "content": "a"}
    assert refused(tmp_path, USER, developer) == [f"the last message is from the developer; {last}"]
    assert refused(tmp_path, ASKS, SAYS)[0].startswith('"messages" has no user turn; add {"role"')
