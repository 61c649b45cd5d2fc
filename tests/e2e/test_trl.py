"""TRL itself: its command line against ours, its client against our server, its old server wrapped.

``SWEEPER_TEST_TRL_PYTHON`` is a Python with TRL 1.11 or newer beside vLLM,
``SWEEPER_TEST_OLD_TRL_PYTHON`` one with TRL 1.2 or older.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from sweeper.config import config_dir, this_python
from sweeper.errors import ServerError
from sweeper.measure.counters import Counters, parse
from sweeper.plan.arguments import tokens
from sweeper.serve.session import Session, serve
from sweeper.store import ServerFolder
from sweeper.values import ServerSpec

NEW = os.environ.get("SWEEPER_TEST_TRL_PYTHON", "")
OLD = os.environ.get("SWEEPER_TEST_OLD_TRL_PYTHON", "")
CACHE = Path(os.environ.get("SWEEPER_CACHE", Path.home() / ".cache" / "sweeper"))
MODEL = CACHE / "smollm2-135m-instruct"
NGRAM = (
    '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4, '
    '"prompt_lookup_min": 2}'
)
TEXT = "The same line comes again and again. The same line comes again"

needs_trl = pytest.mark.skipif(not NEW, reason="SWEEPER_TEST_TRL_PYTHON is not set")
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
    at = theirs.index("--weight-transfer-config")
    imposed = dict(zip(theirs[at::2], theirs[at + 1 :: 2], strict=True))
    ours = rollout_flags()
    assert dict(zip(ours[::2], ours[1::2], strict=True)) == imposed


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


@needs_old_trl
def test_an_old_trl_gets_speculation_from_the_wrapper_and_it_arrives(tmp_path: Path) -> None:
    wrapped = this_python((OLD, "trl_serve.py", "--wrapper"))
    with serve(spec(wrapped), ServerFolder(tmp_path)) as session:
        assert session.api == "generate"
        before = counters(session)
        body = {"prompts": [TEXT], "n": 4, "max_tokens": 24, "temperature": 1.0}
        answer = session.endpoint.complete(dict(body), 600.0, "/generate/")
        change = counters(session).since(before)
    assert session.info is not None
    resolved = session.info["vllm_config"]["speculative_config"]
    assert json.loads(NGRAM).items() <= resolved.items()
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
