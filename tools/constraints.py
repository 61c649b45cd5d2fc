"""Print ``constraints.txt``: the versions in this environment of what the project names.

    .venv/bin/python -m tools.constraints > constraints.txt.new

Run it in an environment in which all tests passed. torch is left out: vLLM pins it, and the CPU and
the GPU build of vLLM pin different ones.
"""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# Not named by pyproject.toml, but a change of theirs changes what a server or the tracker does.
BENEATH = (
    *("compressed-tensors", "fastapi", "huggingface_hub", "numba", "protobuf", "pydantic_core"),
    *("safetensors", "sqlalchemy", "starlette", "tokenizers", "transformers", "uvicorn"),
)
HEADER = """# The versions that the tests passed with: pyproject.toml's, and some beneath.
# Written by `make constraints`. No torch: each build of vLLM pins its own.
"""


def named(pyproject: dict[str, Any]) -> set[str]:
    """Every distribution that pyproject.toml names, but those it pins itself (the extras)."""
    groups = pyproject["dependency-groups"].values()
    lines = [line for group in groups for line in group if isinstance(line, str)]
    return {
        re.split(r"[<>=!~;\[ ]", line)[0]
        for line in [*pyproject["project"]["dependencies"], *lines]
    }


def pin(name: str) -> str | None:
    try:
        return f"{name}=={version(name)}"
    except PackageNotFoundError:  # docs, and what another platform needs
        return None


def constraints(root: Path = ROOT) -> str:
    pyproject = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    pins = (pin(name) for name in sorted({*named(pyproject), *BENEATH}, key=str.lower))
    return HEADER + "".join(f"{line}\n" for line in pins if line)


if __name__ == "__main__":
    print(constraints(), end="")
