"""Messages in a chat template as vLLM renders them: counted, or refused before any server."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sweeper.drive.datasets.entry import mistakes_of, to_prompt
from sweeper.plan.chat import ChatFlags, ChatTemplate, chat_template
from sweeper.plan.findings import Findings
from sweeper.plan.prompts import check_prompts, count_prompt_tokens
from sweeper.values import Json, Message, Point, Prompt
from tests.unit.asked import LLAMA, checkpoint, point

CACHE = Path(os.environ.get("SWEEPER_CACHE", Path.home() / ".cache" / "sweeper"))
DEMO = CACHE / "smollm2-135m-instruct"

USER = {"role": "user", "content": "b"}
CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": "<é>"}'}}
ASKS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
SAYS = {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "r"}]}
TOOLS = [{"type": "function", "function": {"name": "f", "extra": 1}}]

AS_TEXT = (
    "{{ bos_token }}{{ tools | tojson }}{% for m in messages %}|{{ m.role }}:{{ m.content }}"
    "{% for c in m.tool_calls or () %}{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}"
)
IN_PARTS = (
    "{% for m in messages %}|{{ m.role }}:"
    "{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for part in m['content'] %}<{{ part.text }}>{% endfor %}{% endif %}{% endfor %}"
)
MACRO = (
    "{% macro show(said) %}{% for part in said %}<{{ part.text }}>{% endfor %}{% endmacro %}"
    "{% set rest = messages[1:] %}{% for m in rest %}{{ show(m.content | list) }}{% endfor %}"
)
PICKY = (
    "{% for m in messages %}"
    "{% if m.role not in ('user', 'assistant') %}{{ raise_exception('no  ' + m.role) }}{% endif %}"
    "{% if m.role == 'assistant' and not m.content %}{{ raise_exception('say it') }}{% endif %}"
    "{{ m.content }}{% endfor %}"
)


def prompt(*messages: Json, line: int = 1, **more: Json) -> Prompt:
    entry = {"messages": list(messages)} | more
    assert not list(mistakes_of(entry))
    found = to_prompt(entry, f"line-{line}")
    return Prompt(id=found.id, messages=found.messages, tools=found.tools, line=line)


def target(folder: Path, template: Json, **settings: Json) -> Path:
    made = Path(checkpoint(folder / "t", LLAMA))
    config = {"chat_template": template, "bos_token": {"content": "<s>"}} | settings
    (made / "tokenizer_config.json").write_text(json.dumps(config))
    return made


def template_of(folder: Path, flags: ChatFlags | None = None, tools: bool = False) -> ChatTemplate:
    found = chat_template(folder, flags or ChatFlags(), tools)
    assert found is not None
    return found


def rendered(folder: Path, one: Prompt, flags: ChatFlags | None = None) -> str:
    found = template_of(folder, flags, bool(one.tools))
    return found.render(one, [message.sent for message in one.messages or ()])


def asked_of(folder: Path, method: str = "none", **args: Any) -> Point:
    return point(method, target__model=str(folder), server__args=args)


# --- what reaches the template


def test_calls_arguments_and_tools_reach_it_as_objects(tmp_path: Path) -> None:
    text = rendered(target(tmp_path, AS_TEXT), prompt(USER, ASKS, SAYS, tools=TOOLS))
    tools = '[{"type": "function", "function": {"name": "f", "description": null, '
    assert text == (f'<s>{tools}"parameters": null}}}}]|user:b|assistant:{{"a": "<é>"}}|tool:r')


def test_contents_are_lines_or_parts_as_the_template_reads_them(tmp_path: Path) -> None:
    two = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    both = prompt({"role": "system", "content": "s"}, {"role": "user", "content": two}, ASKS, SAYS)
    as_text, in_parts = target(tmp_path / "1", AS_TEXT), target(tmp_path / "2", IN_PARTS)
    assert rendered(as_text, both).startswith("<s>null|system:s|user:a\nb|assistant:{")
    assert rendered(in_parts, both) == "|system:<s>|user:<a><b>|assistant:|tool:r"
    assert rendered(in_parts, both, ChatFlags(contents="string")).startswith("|system:s|user:a\nb|")
    assert rendered(target(tmp_path / "3", MACRO), both) == "<a><b><>"


def test_developers_speak_as_the_system_where_the_template_knows_none(tmp_path: Path) -> None:
    developer = {"role": "developer", "content": [{"type": "text", "text": "d"}]}
    folder = target(tmp_path / "1", IN_PARTS)
    assert rendered(folder, prompt(developer, USER)) == "|system:<d>|user:<b>"
    system = {"role": "system", "content": "s"}
    assert (
        rendered(folder, prompt(USER, system, developer, USER))
        == "|system:s\n\nd|user:<b>|user:<b>"
    )
    knows = target(tmp_path / "2", IN_PARTS + "{# 'developer' #}")
    assert rendered(knows, prompt(system, developer, USER)) == "|system:<s>|developer:<d>|user:<b>"


def test_names_are_given(tmp_path: Path) -> None:
    folder = target(tmp_path, "{% for m in messages %}{{ m.name }},{% endfor %}")
    assert rendered(folder, prompt(USER | {"name": "ann"}, USER)) == "ann,,"


def test_the_template_is_the_flags_or_the_checkpoints_for_tools(tmp_path: Path) -> None:
    named = [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]
    folder = target(tmp_path / "1", named)
    assert template_of(folder).text == "d" and template_of(folder, tools=True).text == "t"
    file = tmp_path / "own.jinja"
    file.write_text("own")
    assert template_of(folder, ChatFlags(template=str(file)), tools=True).text == "own"
    assert template_of(folder, ChatFlags(template="{{ 1 }}\\n")).text == "{{ 1 }}\n"
    assert chat_template(folder, ChatFlags(template=f"{tmp_path}/no.jinja"), tools=False) is None
    assert chat_template(folder, ChatFlags(other=True), tools=False) is None
    with_file = target(tmp_path / "2", named)
    (with_file / "chat_template.jinja").write_text("{% generation %}f{% endgeneration %}")
    assert rendered(with_file, prompt(USER)) == "f"


def test_template_arguments_of_server_and_request(tmp_path: Path) -> None:
    folder, flags = target(tmp_path, "{{ a }}{{ b }}"), ChatFlags(kwargs='{"a": 1, "b": 2}')
    one = Prompt(id="p", messages=(Message(role="user", content="x"),), template_kwargs='{"b": 3}')
    assert rendered(folder, one, flags) == "13"


# --- what is said before anything starts


def test_a_refused_prompt_is_a_mistake_with_its_line(tmp_path: Path) -> None:
    folder = target(tmp_path, PICKY)
    asked = asked_of(folder)
    system = {"role": "system", "content": "s"}
    found = check_prompts(asked, [prompt(USER), prompt(USER, system, USER, line=2)])
    assert found.mistakes == (
        "/chat:2: the target's chat template refuses the messages: no system; change them, or give "
        "a template that takes them with +server.args.chat_template=FILE",
    )
    file = tmp_path / "own.jinja"
    file.write_text(AS_TEXT)
    other = asked_of(folder, chat_template=str(file))
    assert check_prompts(other, [prompt(USER, system, USER)]) == Findings()


def test_a_template_that_fails_is_a_mistake_and_one_unknown_here_is_not(tmp_path: Path) -> None:
    fails = target(tmp_path / "1", "{{ messages[0].content + 1 }}")
    (found,) = check_prompts(asked_of(fails), [prompt(USER)]).mistakes
    assert 'messages: TypeError: can only concatenate str (not "int") to str; change' in found
    unknown = target(tmp_path / "2", "{{ of_tomorrow() }}")
    assert check_prompts(asked_of(unknown), [prompt(USER)]) == Findings()
    assert count_prompt_tokens(asked_of(unknown), [prompt(USER)]) == 1 + 8


def test_later_turns_are_no_mistake_of_a_template_that_wants_answers(tmp_path: Path) -> None:
    turns = Prompt(id="p", messages=(Message(role="user", content="a"),), follow_ups=("b",))
    asked = asked_of(target(tmp_path, PICKY))
    assert check_prompts(asked, [turns]) == Findings()
    assert count_prompt_tokens(asked, [turns]) == 3 + 3 * 8 + asked.sampling.max_tokens


@pytest.mark.parametrize(
    "change",
    [
        {"args": {"tokenizer": "/other"}},
        {"args": {"tokenizer_mode": "mistral"}},
        {"config": {"architectures": ["GptOssForCausalLM"]}},
        {"file": "tekken.json"},
    ],
    ids=str,
)
def test_what_the_server_renders_otherwise_is_not_refused(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    folder = target(tmp_path, PICKY)
    if "config" in change:
        (folder / "config.json").write_text(json.dumps(LLAMA | change["config"]))
    if "file" in change:
        (folder / change["file"]).write_text("{}")
    asked = asked_of(folder, **change.get("args", {}))
    assert check_prompts(asked, [prompt(USER, ASKS, SAYS)]) == Findings()


def test_what_a_template_never_shows_is_said(tmp_path: Path) -> None:
    asked = asked_of(target(tmp_path, IN_PARTS))
    calls = prompt(USER, ASKS, SAYS, tools=TOOLS)
    said = check_prompts(asked, [prompt(USER), calls, prompt(USER, ASKS, SAYS)]).warnings
    assert said == (
        "the target's chat template does not show tools: the model reads 1 of 3 prompts without "
        "theirs",
        "the target's chat template does not show tool calls: the model reads 2 of 3 prompts "
        "without theirs",
    )


# --- the demo target


@pytest.mark.skipif(not DEMO.is_dir(), reason=f"{DEMO} is not there: make setup")
def test_the_demo_target_counts_tool_conversations() -> None:
    pytest.importorskip("tokenizers")
    asked = asked_of(DEMO)
    plain = {"role": "user", "content": "Rain in Oslo?"}
    calls = prompt(plain, ASKS | {"content": "One moment."}, SAYS, tools=TOOLS)
    text = (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        "<|im_end|>\n<|im_start|>user\nRain in Oslo?<|im_end|>\n<|im_start|>assistant\nOne moment."
        "<|im_end|>\n<|im_start|>tool\nr<|im_end|>\n<|im_start|>assistant\n"
    )
    assert rendered(DEMO, calls) == text
    assert count_prompt_tokens(asked, [calls]) == 49
    assert [w.partition(" the model")[0] for w in check_prompts(asked, [calls]).warnings] == [
        "the target's chat template does not show tools:",
        "the target's chat template does not show tool calls:",
    ]
