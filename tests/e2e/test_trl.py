"""TRL itself: its command line against ours, its client against our server, its old server wrapped.

``SWEEPER_TEST_TRL_PYTHON`` is a Python with TRL 1.11 or newer beside vLLM,
``SWEEPER_TEST_MIDDLE_TRL_PYTHON`` one with TRL 1.3 to 1.10, and ``SWEEPER_TEST_OLD_TRL_PYTHON`` one
with TRL 1.2 or older.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from sweeper.config import config_dir, this_python
from sweeper.errors import ServerError
from sweeper.measure.counters import Counters, parse
from sweeper.plan.arguments import tokens
from sweeper.serve.process import free_port, start
from sweeper.serve.session import Session, serve
from sweeper.store import ServerFolder
from sweeper.values import ServerSpec

NEW = os.environ.get("SWEEPER_TEST_TRL_PYTHON", "")
MIDDLE = os.environ.get("SWEEPER_TEST_MIDDLE_TRL_PYTHON", "")
OLD = os.environ.get("SWEEPER_TEST_OLD_TRL_PYTHON", "")
CACHE = Path(os.environ.get("SWEEPER_CACHE", Path.home() / ".cache" / "sweeper"))
MODEL = CACHE / "smollm2-135m-instruct"
NGRAM = (
    '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4, '
    '"prompt_lookup_min": 2}'
)
TEXT = "The same line comes again and again. The same line comes again"

needs_trl = pytest.mark.skipif(not NEW, reason="SWEEPER_TEST_TRL_PYTHON is not set")
needs_middle_trl = pytest.mark.skipif(
    not MIDDLE, reason="SWEEPER_TEST_MIDDLE_TRL_PYTHON is not set"
)
needs_old_trl = pytest.mark.skipif(not OLD, reason="SWEEPER_TEST_OLD_TRL_PYTHON is not set")
pytestmark = [pytest.mark.long, pytest.mark.vllm, pytest.mark.timeout(1800)]


def rollout_flags() -> list[str]:
    args = yaml.safe_load((config_dir() / "server" / "rollout.yaml").read_text())["args"]
    found, mistakes = tokens(args, "server.args")
    assert mistakes == []
    return [part for token in found for part in token.split("=", 1)]


def spec(command: tuple[str, ...], *args: str) -> ServerSpec:
    return ServerSpec(
        kind="vllm",
        command=command,
        model=str(MODEL),
        speculative_config=NGRAM,
        args=("--enforce-eager", "--max-model-len", "1024", *args),
        env=(("VLLM_CPU_KVCACHE_SPACE", "1"),),
        workarounds=("vllm-55005",),
        start_timeout_s=900.0,
    )


def counters(session: Session) -> Counters:
    return parse(session.endpoint.metrics() or "")


@needs_trl
def test_our_rollout_server_is_the_one_trl_would_start() -> None:
    code = (
        "import json; from trl.scripts.vllm_serve import ScriptArguments, build_command; "
        "print(json.dumps(build_command(ScriptArguments(model='m'))))"
    )
    done = subprocess.run([NEW, "-c", code], capture_output=True, text=True, check=True)
    theirs = json.loads(done.stdout.splitlines()[-1])
    assert sorted(theirs[theirs.index("--enable-scale-out") :]) == sorted(rollout_flags())


CLIENT = """
import json, sys, requests
plain = requests.Session.__init__
def with_key(self):
    plain(self)
    self.headers["Authorization"] = "Bearer " + sys.argv[2]
requests.Session.__init__ = with_key
from trl.generation.vllm_client import VLLMClient
client = VLLMClient(base_url=sys.argv[1])
found = client.generate([sys.argv[3]], n=4, temperature=1.0, max_tokens=24)
spec = client.get_server_info()["speculative_config"]
print(json.dumps({"ids": found["completion_ids"], "logprobs": found["logprobs"], "spec": spec}))
"""


@needs_trl
def test_trls_own_client_generates_with_speculation_and_drafts_are_counted(tmp_path: Path) -> None:
    command = this_python(("python", "-m", "vllm.entrypoints.openai.api_server"))
    with serve(spec(command, *rollout_flags()), ServerFolder(tmp_path)) as session:
        before = counters(session)
        end = session.endpoint
        argv = [NEW, "-c", CLIENT, end.base_url, end.api_key, TEXT]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        change = counters(session).since(before)
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found["ids"]) == 4
    assert [len(one) for one in found["ids"]] == [len(one) for one in found["logprobs"]]
    assert json.loads(NGRAM).items() <= found["spec"].items()
    assert change is not None and change.drafted and change.accepted
    print(f"drafts {change.verify_steps:g} drafted {change.drafted:g} accepted {change.accepted:g}")


@needs_trl
def test_the_latest_trl_runs_what_was_asked_for_and_an_attached_point_checks_it(
    tmp_path: Path,
) -> None:
    ours, theirs = ServerFolder(tmp_path / "ours"), ServerFolder(tmp_path / "attached")
    for folder in (ours, theirs):
        folder.path.mkdir()
    with serve(spec(this_python((NEW, "trl_serve.py"))), ours) as session:
        assert session.api == "completions" and session.info is not None
        resolved = session.info["vllm_config"]["speculative_config"]
        assert json.loads(NGRAM).items() <= resolved.items()
        running = ServerSpec(
            kind="external", command=(), model=str(MODEL), base_url=session.endpoint.base_url,
            api_key_env="SWEEPER_TEST_KEY", speculative_config=NGRAM,
        )  # fmt: skip
        os.environ["SWEEPER_TEST_KEY"] = session.endpoint.api_key
        try:
            with serve(running, theirs) as attached:
                assert attached.notes == []
            other = replace(running, speculative_config=NGRAM.replace("4,", "3,", 1))
            with (
                pytest.raises(ServerError, match=r"num_speculative_tokens: asked 3, server has 4$"),
                serve(other, theirs),
            ):
                pass
        finally:
            del os.environ["SWEEPER_TEST_KEY"]


DROPPED = """
import sys
from trl.scripts.vllm_serve import main, make_parser
(arguments,) = make_parser().parse_args_and_config(args=sys.argv[1:], fail_with_unknown_args=False)
if __name__ == "__main__":
    main(arguments)
"""


@needs_old_trl
def test_an_old_trl_alone_drops_the_setting(tmp_path: Path) -> None:
    """Read from a file as TRL's own error message advises, the setting is gone without a word."""
    settings = {"model": str(MODEL), "max_model_len": 1024, "enforce_eager": True}
    config, script, log = (tmp_path / name for name in ("trl.yaml", "serve.py", "server.log"))
    config.write_text(yaml.safe_dump(settings | {"speculative_config": NGRAM}))
    script.write_text(DROPPED)
    env = os.environ | {"VLLM_LOGGING_LEVEL": "INFO", "VLLM_CPU_KVCACHE_SPACE": "1"}
    server = start(
        (OLD, str(script), "--config", str(config), "--port", str(free_port())), env, log, 5.0
    )
    try:
        said = engine_settings(log, seconds=600)
    finally:
        server.stop()
    assert "speculative_config=None" in said


def engine_settings(log: Path, seconds: float) -> str:
    """The line in which an engine says what it was given."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        text = log.read_text(errors="replace") if log.exists() else ""
        for line in text.splitlines():
            if "speculative_config=" in line:
                return line
        time.sleep(0.5)
    raise AssertionError(f"no engine said what it was given:\n{text[-2000:]}")


@pytest.mark.parametrize(
    ("python", "further"),
    [
        pytest.param(OLD, ("--wrapper",), marks=needs_old_trl, id="up to 1.2, wrapped"),
        pytest.param(MIDDLE, (), marks=needs_middle_trl, id="1.3 to 1.10"),
    ],
)
def test_trls_own_server_has_the_setting_and_drafts_are_counted(
    tmp_path: Path, python: str, further: tuple[str, ...]
) -> None:
    command = this_python((python, "trl_serve.py", *further))
    with serve(spec(command), ServerFolder(tmp_path)) as session:
        assert session.api == "generate"
        before = counters(session)
        body = {"prompts": [TEXT], "n": 4, "max_tokens": 24, "temperature": 1.0}
        answer = session.endpoint.complete(dict(body), 600.0, "/generate/")
        change = counters(session).since(before)
    assert session.info is not None
    resolved = session.info["vllm_config"]["speculative_config"]
    assert json.loads(NGRAM).items() <= resolved.items()
    said = engine_settings(ServerFolder(tmp_path).log, seconds=0.1)
    assert "speculative_config=SpeculativeConfig(method='ngram'" in said
    assert len(answer["completion_ids"]) == 4
    assert change is not None and change.drafted
    print(f"drafts {change.verify_steps:g} drafted {change.drafted:g} accepted {change.accepted:g}")


@needs_old_trl
def test_an_old_trl_alone_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(ServerError, match=r"its vllm-serve passes no speculative_config to vLLM"),
        serve(spec(this_python((OLD, "trl_serve.py"))), ServerFolder(tmp_path)),
    ):
        pass
