"""Is an answer of the form it was asked for: JSON, a schema, a regular expression, a tool call?"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from jsonschema import Draft202012Validator

from sweeper.scores import Grader
from sweeper.values import Json

_FENCED = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)
_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)


def invalid(answer: str, grader: Grader, schema: Json) -> str:
    """Why the answer is not valid; empty when it is. ``schema`` is the one to hold it against."""
    if grader.valid == "regex":
        return "" if re.fullmatch(grader.pattern or "", answer.strip(), re.DOTALL) else "no match"
    if grader.valid == "tool_call":
        return _bad_calls(answer, grader.tools)
    value, problem = _parsed(answer)
    if problem or grader.valid == "json":
        return problem
    wrong = next(iter(Draft202012Validator(schema).iter_errors(value)), None)
    return "" if wrong is None else f"{wrong.json_path}: {wrong.message}"[:300]


def _parsed(answer: str) -> tuple[Json, str]:
    """The whole answer, or what its one fence holds, as JSON."""
    fenced = _FENCED.findall(answer)
    text = fenced[0] if len(fenced) == 1 else answer
    try:
        return json.loads(text), ""
    except (ValueError, RecursionError) as problem:
        return None, f"not JSON: {problem}"


def _bad_calls(answer: str, tools: Sequence[str]) -> str:
    """Calls between ``<tool_call>`` marks, or the whole answer as one call."""
    texts = _CALL.findall(answer) or [answer]
    for text in texts:
        call, problem = _parsed(text)
        if problem:
            return problem
        for one in call if isinstance(call, list) else [call]:
            if not isinstance(one, dict) or not isinstance(one.get("name"), str):
                return "a call without a name"
            if not isinstance(one.get("arguments", one.get("parameters")), dict):
                return f"{one['name']}: its arguments are no object"
            if tools and one["name"] not in tools:
                return f"{one['name']}: no such tool"
    return ""
