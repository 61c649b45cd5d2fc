"""vLLM's own word on command lines before anything starts: its checks, without weights."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sweeper.errors import ServerError
from sweeper.serve.command import argv, environment
from sweeper.serve.installed import installed, reports
from sweeper.serve.process import ask
from sweeper.serve.startlog import start_warnings
from sweeper.values import Json, ServerSpec

log = logging.getLogger(__name__)

_CHILD = Path(__file__).with_name("preflight_child.py")
_OF_VLLM = {
    ("-m", "vllm.entrypoints.openai.api_server"),
    ("-m", "vllm.entrypoints.launchers.api_server.entry"),
    ("-m", "vllm.entrypoints.cli.main", "serve"),
}
"""What follows the Python of a command whose flags are vLLM's and nothing else's."""
_LONGEST = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What vLLM makes of one server; ``error`` is one line, empty when it would start.

    ``resolved`` is its speculative config without empty fields and copies of other configurations,
    ``None`` without speculation. ``runner`` is V1 or V2, ``scheduler`` sync or async.
    """

    error: str = ""
    resolved: Json | None = None
    runner: str | None = None
    scheduler: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """Findings by :attr:`ServerSpec.key`; ``unasked`` says why others have none."""

    findings: Mapping[str, Finding]
    unasked: tuple[str, ...] = ()


def preflight(specs: Sequence[ServerSpec], timeout_s: float = 300) -> Preflight:
    """Ask the vLLM of each server's Python about all its servers, one process per environment.

    Nothing is found where vLLM cannot be imported, as on a login node without it, or has no device.
    """
    findings: dict[str, Finding] = {}
    unasked: dict[str, None] = {}
    for of_one in _by_environment(specs):
        why_not = _not_askable(of_one[0])
        if not why_not:
            found, why_not = _ask(of_one, timeout_s)
            findings |= found
        if why_not:
            unasked[why_not] = None
            log.info("servers are not checked before their start: %s", why_not)
    return Preflight(findings=findings, unasked=tuple(unasked))


def one_line(problems: Sequence[Mapping[str, str]]) -> str:
    """vLLM's message as one line; fields of the speculative config as they are set here."""
    return "; ".join(dict.fromkeys(_sentence(**problem) for problem in problems))


def _sentence(of: str, at: str, message: str) -> str:
    text = " ".join(message.removeprefix("Value error, ").split())
    text = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    if of == "SpeculativeConfig" and at:
        return f"method.speculative.{at}: {text[:1].lower()}{text[1:]}"
    return f"{at}: {text}" if at else text or of


def _by_environment(specs: Sequence[ServerSpec]) -> list[list[ServerSpec]]:
    """Different servers only, together where Python and variables are the same."""
    groups: dict[Json, dict[str, ServerSpec]] = {}
    for spec in specs:
        if spec.kind == "vllm":
            groups.setdefault((spec.command, spec.env), {})[spec.key] = spec
    return [list(group.values()) for group in groups.values()]


def _not_askable(spec: ServerSpec) -> str:
    if spec.command[1:] not in _OF_VLLM:
        return f"{' '.join(spec.command)} is not vLLM's own command"
    here = installed(spec.command)
    if here is None:
        return f"{spec.command[0]} is not a Python of this machine"
    return "" if here.vllm else f"vLLM is not installed in {here.python}"


def _ask(specs: Sequence[ServerSpec], timeout_s: float) -> tuple[dict[str, Finding], str]:
    env = environment(specs[0], os.environ, api_key="", preload=())
    questions = [{"key": spec.key, "argv": _flags(spec)} for spec in specs]
    try:
        said = ask([specs[0].command[0], str(_CHILD)], timeout_s, env, json.dumps(questions))
        answer = json.loads(said)
    except (ServerError, ValueError) as problem:
        return {}, f"vLLM did not answer: {problem}"
    return {key: _finding(found) for key, found in answer["found"].items()}, answer["unasked"]


def _flags(spec: ServerSpec) -> list[str]:
    command = argv(spec, port=8000, name="preflight", **reports(spec.command))
    return list(command[len(spec.command) :])


def _finding(found: Mapping[str, Json]) -> Finding:
    return Finding(
        error=one_line(found.get("problems", ())),
        resolved=found.get("resolved"),
        runner=found.get("runner"),
        scheduler=found.get("scheduler"),
        warnings=start_warnings("\n".join(found["warnings"])),
    )
