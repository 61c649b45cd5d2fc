"""Work-arounds as plugins: what is written, what the server's environment gets, what proves it."""

from __future__ import annotations

import ast
import sys
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from sweeper.errors import ServerError
from sweeper.serve.plugins import check_in_force, install, with_plugins
from sweeper.values import ServerSpec

PLAIN = ServerSpec(kind="vllm", command=("python",), model="m")
MENDED = ServerSpec(kind="vllm", command=("python",), model="m", workarounds=("vllm-55005",))


def test_nothing_is_written_and_nothing_changes_unless_asked(tmp_path: Path) -> None:
    assert install(PLAIN, tmp_path) is None
    assert list(tmp_path.iterdir()) == []
    assert with_plugins({"PATH": "/bin"}, PLAIN, None) == {"PATH": "/bin"}
    check_in_force(PLAIN, "")


def test_any_python_finds_the_plugin_in_the_folder(tmp_path: Path) -> None:
    home = install(MENDED, tmp_path)
    assert home is not None
    (about,) = home.glob("*.dist-info")
    (entry,) = PathDistribution(about).entry_points
    assert (entry.group, entry.name) == ("vllm.general_plugins", "vllm-55005")
    assert entry.value == "vllm_55005:register"
    source = (home / "vllm_55005.py").read_text()
    assert "def register()" in source


def test_the_module_needs_nothing_but_python_torch_and_vllm(tmp_path: Path) -> None:
    home = install(MENDED, tmp_path)
    assert home is not None
    tree = ast.parse((home / "vllm_55005.py").read_text())
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported - set(sys.stdlib_module_names) == {"torch", "vllm"}


def test_it_comes_before_the_users_path_and_onto_the_users_list(tmp_path: Path) -> None:
    env = with_plugins({"PYTHONPATH": "/mine", "VLLM_PLUGINS": "other"}, MENDED, tmp_path)
    assert env == {"PYTHONPATH": f"{tmp_path}:/mine", "VLLM_PLUGINS": "other,vllm-55005"}
    assert with_plugins({"VLLM_PLUGINS": ""}, MENDED, tmp_path)["VLLM_PLUGINS"] == "vllm-55005"
    assert with_plugins({}, MENDED, tmp_path) == {"PYTHONPATH": str(tmp_path)}


def test_a_server_without_the_proof_in_its_log_is_refused() -> None:
    check_in_force(MENDED, "(Worker) sweeper: work-around vllm-55005 in force (pid 1)\n")
    with pytest.raises(ServerError, match=r"vllm-55005: not in force, so this server would"):
        check_in_force(MENDED, "sweeper: work-around vllm-55005 not needed here: (pid 1)\n")


def test_workarounds_are_identity_and_their_absence_is_not() -> None:
    assert MENDED.key != PLAIN.key
    assert "workarounds" not in PLAIN.identity
