"""The installed vLLM's own rendering of conversations, and ours; no server is started."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sweeper.drive.requests import prompt_fields
from sweeper.plan.chat import ChatFlags, TemplateRefusal, chat_template
from sweeper.values import Json, Prompt
from tests.unit.test_chat import AS_TEXT, ASKS, IN_PARTS, MACRO, PICKY, SAYS, TOOLS, USER, prompt

CACHE = Path(os.environ.get("SWEEPER_CACHE", Path.home() / ".cache" / "sweeper"))
MODEL = CACHE / "smollm2-135m-instruct"

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore"),  # those of vLLM's imports are not ours
    pytest.mark.skipif(not MODEL.is_dir(), reason=f"{MODEL} is not there: make setup"),
]

SYSTEM = {"role": "system", "content": "Be brief."}
DEVELOPER = {"role": "developer", "content": [{"type": "text", "text": "No lists."}]}
PARTS = {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
ASKED = (
    prompt(USER),
    prompt(SYSTEM, PARTS),
    prompt(DEVELOPER, USER),
    prompt(SYSTEM, USER, {"role": "assistant", "content": "c", "refusal": None}, DEVELOPER, PARTS),
    prompt(USER | {"name": "ann"}, ASKS, SAYS, tools=TOOLS),
    prompt(USER, ASKS | {"content": "One moment."}, SAYS | {"content": ""}, USER),
)
THE_MODELS = ""
TEMPLATES = [AS_TEXT, IN_PARTS, MACRO, PICKY, IN_PARTS + "{# 'developer' #}", THE_MODELS]


@pytest.mark.parametrize("template", TEMPLATES, ids=range(len(TEMPLATES)))
def test_conversations_are_rendered_as_vllm_renders_them(template: str) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("vllm")
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL)
    flags = ChatFlags(template=f"{template}\n" if template else None)
    for one in ASKED:
        text = f"{template}\n" if template else tokenizer.chat_template
        assert ours(one, flags) == theirs(one, text, tokenizer)


def ours(one: Prompt, flags: ChatFlags) -> str:
    found = chat_template(MODEL, flags, tools=bool(one.tools))
    assert found is not None
    try:
        return found.render(one, [message.sent for message in one.messages or ()])
    except TemplateRefusal as refused:
        return f"refused: {refused}"


def theirs(one: Prompt, template: str, tokenizer: Any) -> str:
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.exceptions import VLLMValidationError
    from vllm.renderers import chat_utils, hf

    body: dict[str, Json] = {"model": "m"} | prompt_fields(one)
    request = ChatCompletionRequest.model_validate(body)
    tools = [tool.model_dump() for tool in request.tools] if request.tools else None
    text_only: Any = SimpleNamespace(multimodal_config=None, enable_prompt_embeds=False)
    how = hf._detect_content_format(template, default="string")
    said, _, _ = chat_utils.parse_chat_messages(request.messages, text_only, content_format=how)
    try:
        text: str = hf.safe_apply_chat_template(
            text_only,
            tokenizer,
            said,
            tools=tools,
            chat_template=template,
            tokenize=False,
            add_generation_prompt=True,
        )
        return text
    except VLLMValidationError as refused:
        return f"refused: {refused}"
