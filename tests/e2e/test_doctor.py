"""The doctor, the console script and tab completion, as processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.e2e.running import ROOT, Done, command, environment, run

SCRIPT = Path(sys.executable).with_name("sweeper")


def doctor(tmp_path: Path, *words: str, faults: dict[str, object] | None = None) -> Done:
    """Whatever comes out, nothing is left behind in the folder for temporary files."""
    overrides = command(*words, outputs=tmp_path, multirun=False)[3:]
    with TemporaryDirectory(dir="/tmp", prefix="t") as short:  # sockets there need short names
        done = run(
            [sys.executable, "-m", "sweeper.doctor", "--json", *overrides],
            faults=faults,
            TMPDIR=short,
        )
        assert not list(Path(short).glob("sweeper-doctor-*"))
    assert not list(tmp_path.glob("out/*"))
    return done


def said(done: Done) -> dict[str, dict[str, str]]:
    return {check["name"]: check for check in json.loads(done.out)["checks"]}


def test_settings_are_tried_on_two_servers(tmp_path: Path) -> None:
    done = doctor(tmp_path, "method=ngram", "gamma=2")
    assert done.status == 0, done.out + done.err
    found = said(done)
    assert json.loads(done.out)["healthy"] is True
    assert found["settings"]["state"] == "ok"
    assert found["none"]["found"].startswith("ready after ")
    assert json.loads(found["resolved"]["found"])["num_speculative_tokens"] == 2
    assert found["drafts"]["state"] == "ok"
    assert "its baseline's output rate in 2 generations" in found["speed"]["found"]


def test_a_server_that_does_not_start_is_a_failure(tmp_path: Path) -> None:
    done = doctor(tmp_path, "method=ngram", faults={"exit_at_start": {"code": 3}})
    assert done.status == 1, done.out + done.err
    failed = said(done)["ngram γ=4"]
    assert failed["state"] == "failure"
    assert "the server exited with status" in failed["found"]
    assert "with --logs DIR" in failed["fix"]
    again = doctor(tmp_path, "--logs", str(tmp_path / "logs"), "method=ngram",
                   faults={"exit_at_start": {"code": 3}})  # fmt: skip
    assert said(again)["ngram γ=4"]["fix"] == f"the server's log is in {tmp_path}/logs/servers"
    assert list(tmp_path.glob("logs/servers/*/server.log"))


def test_wrong_settings_start_nothing(tmp_path: Path) -> None:
    done = doctor(tmp_path, "method=ngram", "gamma=0")
    assert done.status == 2
    assert said(done)["settings"]["fix"] == "gamma: 0: between 1 and 16, or method=none"
    assert "method=egram" in doctor(tmp_path, "method=egram").err


def test_no_start(tmp_path: Path) -> None:
    done = doctor(tmp_path, "--no-start", "method=ngram")
    assert done.status == 0, done.out + done.err
    assert "drafts" not in said(done)


def script(*words: str, **env: str) -> Done:
    done = subprocess.run(
        [str(SCRIPT), *words],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment() | env,
        cwd=ROOT,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.skipif(not SCRIPT.exists(), reason="the package is not installed here")
def test_the_console_script_has_the_same_reach(tmp_path: Path) -> None:
    assert "python -m sweeper.collect" in script("collect", "--help").out
    missing = script("servers", str(tmp_path))
    assert (missing.status, missing.err) == (
        2,
        f"sweeper.servers: {tmp_path}/sweep.json is missing\n",
    )
    wrong = script("colect", "DIR")
    assert (wrong.status, "Did you mean 'collect'?" in wrong.err) == (2, True)
    assert "examples:" in script("--help").out


COMPLETE = """
eval "$(sweeper -sc install=bash)"
COMP_LINE="sweeper -m $1" COMP_WORDS=(sweeper -m "$1") COMP_CWORD=2
COMP_POINT=${#COMP_LINE}
hydra_bash_completion
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.skipif(not SCRIPT.exists(), reason="the package is not installed here")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("method=eag", {"method=eagle", "method=eagle3"}),
        ("load.conc", {"load.concurrency="}),
        ("dataset=c", {"dataset=chat", "dataset=code"}),
    ],
)
def test_tab_completes_settings_and_choices(typed: str, offered: set[str]) -> None:
    path = f"{SCRIPT.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", COMPLETE, "bash", typed],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment() | {"PATH": path},
        check=False,
    )
    assert set(done.stdout.split()) == offered, done.stderr
