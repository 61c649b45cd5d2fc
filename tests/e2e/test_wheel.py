"""The wheel, made by way of the sdist, holds all that a run needs and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str | Path, folder: Path) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, folder=folder)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an environment with the wheel, and what it depends on, but not the checkout.

    A folder that a .pth file names joins sys.path, yet the .pth files in it are not read: so the
    tests' packages are there and their editable install of the checkout is not.
    """
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index")
    run(*pip, wheel, folder=folder)
    site = next(folder.glob("lib/python*/site-packages"))
    packages = "\n".join(sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}))
    (site / "tests-environment.pth").write_text(f"{packages}\n", encoding="utf-8")
    return python


def test_the_top_level_is_ours_only(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    info = "-".join([*wheel.name.split("-")[:2]]) + ".dist-info"
    assert {name.split("/")[0] for name in names} == {
        *("sweeper", "launchers", "hydra_plugins", info),
    }
    assert f"{info}/licenses/LICENSE" in names
    assert "hydra_plugins/__init__.py" not in names


def test_every_yaml_and_every_prompt_is_inside(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    yamls = {f"sweeper/{file.relative_to(ROOT)}" for file in ROOT.glob("conf/**/*.yaml")}
    prompts = {str(file.relative_to(ROOT)) for file in ROOT.glob("sweeper/**/data/*.jsonl")}
    modules = {str(file.relative_to(ROOT)) for file in ROOT.glob("sweeper/**/*.py")}
    assert "sweeper/conf/config.yaml" in yamls
    assert any(name.endswith("/code.jsonl") for name in prompts)
    assert sorted((yamls | prompts | modules) - names) == []


def test_it_plans_a_sweep_far_from_the_checkout(python: Path, tmp_path: Path) -> None:
    code = "import json, sys, sweeper; print(json.dumps([sweeper.__file__, sys.path]))"
    file, path = json.loads(run(python, "-c", code, folder=tmp_path))
    assert Path(file).is_relative_to(python.parent.parent)
    assert str(ROOT) not in path
    options = ("mode=plan", "method=ngram", "gamma=2")
    for command in ([python, "-m", "sweeper"], [python.parent / "sweeper"]):
        output = run(*command, "-m", *options, folder=tmp_path)
        assert output.splitlines()[-1] == "1 jobs, 2 points, 2 servers"
