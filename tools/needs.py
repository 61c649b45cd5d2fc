"""What the environment must hold, what stands in the way, and what to do about it; runs nothing."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
DISK_GB = 6
OLDEST_PIP = (25, 1)  # the first that knows --group
GROUPS = ("test", "lint", "demo")
CHECKED = ("pip", "sweeper", "vllm", "torch", "hydra", "mlflow", "pytest", "gguf")
FRAGILE = ("torchvision", "torchaudio", "torchcodec")  # vLLM asks for them; text models do not
# The build requirements of arctic-inference 0.3.0 but for torch: pip would fetch a second one, of
# several GB, only to build with it.
SUFFIX_BUILD = (
    *("setuptools>=61", "wheel", "ninja", "cmake>=3.12", "nanobind==2.9.2"),
    *("protobuf==5.29.6", "grpcio-tools"),
)


def stamp_of(root: Path, machine: Sequence[str]) -> str:
    """Changes whenever a finished ``.venv`` may no longer be what this tree asks for."""
    digest = hashlib.sha256("\0".join(machine).encode())
    tools = sorted((root / "tools").glob("*.py"))
    for file in (root / "pyproject.toml", root / "constraints.txt", *tools):
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def install_arguments(extra: str, *, torch_index: bool) -> list[str]:
    """pip's arguments; ``torch_index`` adds the index that has the CPU builds of torch."""
    groups = [word for group in GROUPS for word in ("--group", group)]
    index = ["--extra-index-url", TORCH_INDEX] if torch_index else []
    return ["install", "-c", "constraints.txt", *index, "-e", f".[{extra}]", *groups]


def missing_torch(output: str) -> str | None:
    """The torch that pip found no file of (``torch==2.13.0+cpu``), from pip's own words."""
    found = re.search(r"No matching distribution found for (torch==[\w.+]+)", output)
    return found[1] if found else None


def pip_is_old(version_line: str) -> bool:
    """Of the output of ``pip --version``."""
    found = re.match(r"pip (\d+)\.(\d+)", version_line)
    return found is None or (int(found[1]), int(found[2])) < OLDEST_PIP


def suffix_requirement(root: Path) -> str:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["optional-dependencies"]["suffix"][0])


def suffix_obstacle(*, compiler: str | None, header: Path) -> str | None:
    """Why arctic-inference cannot be compiled here, or ``None``."""
    if compiler is None:
        return "no C++ compiler (apt install g++)"
    if not header.is_file():
        return f"no {header} (apt install python3-dev)"
    return None


def find_compiler(environ: Mapping[str, str]) -> str | None:
    """The C++ compiler that CMake would take."""
    names = (environ.get("CXX", ""), "c++", "g++", "clang++")
    paths = (shutil.which(name, path=environ.get("PATH")) for name in names if name)
    return next((path for path in paths if path), None)


def disk_problem(root: Path, free_bytes: int) -> str | None:
    free = free_bytes / 1e9
    if free >= DISK_GB:
        return None
    return f"about {DISK_GB} GB of disk are needed, {free:.1f} GB are free in {root}"


def last_line(output: str) -> str:
    return (output.strip().splitlines() or ["it printed nothing"])[-1][:200]


def explain(output: str) -> str:
    """The end of a failed pip's output, and what to do about it."""
    tail = "\n".join(f"  | {line[:300]}" for line in output.strip().splitlines()[-15:])
    return f"pip failed:\n{tail}\n  {advice(output)}"


def advice(output: str) -> str:
    torch = missing_torch(output)
    offline = "Failed to resolve" in output or "connection broken" in output
    if torch and offline:
        return f"{torch} lies on {TORCH_INDEX}, which this machine cannot reach"
    if torch:  # pip says nothing of an index that did not answer when it may not retry
        here = f"Python {sys.version_info[0]}.{sys.version_info[1]} on {os.uname().machine}"
        another = "try another Python, as in `make PYTHON=python3.12 setup`"
        return f"{TORCH_INDEX} has no {torch} for {here}, or did not answer: {another}"
    if "No space left on device" in output:
        return f"about {DISK_GB} GB of disk are needed, and some in $TMPDIR"
    if offline:
        return "the package index cannot be reached: check the network and `pip config list`"
    return "all of pip's output is in .venv/sweeper-setup.log; `make setup` goes on from here"
