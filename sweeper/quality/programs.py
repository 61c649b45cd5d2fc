"""From an answer to a coding task to the program that is tested."""

from __future__ import annotations

import re

from sweeper.values import Prompt

_FENCED = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)
_IMPORT = re.compile(r"^(?:from|import)\s.*$", re.MULTILINE)
_BEYOND = re.compile(r"^(?:def |class |if |print\(|assert |#|```|@)", re.MULTILINE)
"""What a completion goes on with after the body of its function."""


def program(prompt: Prompt, answer: str) -> tuple[str, ...]:
    """The answer's code and the tests, to be run one after the other in one scope."""
    tests = prompt.tests or ""
    call = f"check({prompt.entry_point})"
    if re.search(r"^def check\(", tests, re.MULTILINE) and call not in tests:
        tests += f"\n\n{call}\n"  # HumanEval's own tests are called by whoever runs them
    return code(prompt, answer), tests


def code(prompt: Prompt, answer: str) -> str:
    """What of the answer is code.

    A completion goes on with its prompt, up to the end of the function. Of a chat answer it is the
    fenced block that defines the function that is asked for (else the longest block, else all of
    it), after the imports of the question, which an answer may leave out.
    """
    if prompt.messages is None:
        body = (prompt.text or "") + _first_function(answer)
        return body if _defines(prompt, body) else answer
    blocks = _FENCED.findall(answer)
    wanted = [block for block in blocks if _defines(prompt, block)]
    found = wanted[-1] if wanted else max(blocks, key=len, default=answer)
    asked = next(m.content for m in reversed(prompt.messages) if m.role == "user")
    return "\n".join([*_IMPORT.findall(asked), found])


def _first_function(answer: str) -> str:
    beyond = _BEYOND.search(answer)
    return answer[: beyond.start()] if beyond else answer


def _defines(prompt: Prompt, source: str) -> bool:
    name = prompt.entry_point
    return name is None or re.search(rf"^(?:async )?def {name}\(", source, re.MULTILINE) is not None
