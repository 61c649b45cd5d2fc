"""The commands of a verdict are taken by vLLM as they stand."""

from __future__ import annotations

import shlex
import socket
import subprocess
from dataclasses import replace
from pathlib import Path

import httpx
import psutil
import pytest

from sweeper.judge.judgement import judge
from sweeper.judge.verdict import Recommendation
from sweeper.serve.preflight import preflight
from sweeper.values import ServerSpec
from tests.e2e.running import wait_until
from tests.e2e.test_preflight import MODEL, PYTHON
from tests.unit.sweeps import PROVENANCE, Made, folder
from tests.unit.test_judgement import at_loads

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not MODEL.is_dir(), reason=f"{MODEL} is not there: make setup"),
]

FLAGS = ("--enforce-eager", "--max-model-len", "1024")


def recommended(path: Path) -> tuple[Recommendation, ...]:
    """One for a single load, and a schedule for three, of points as this machine measures them."""
    made = [_here(one) for one in at_loads((1, 2.0), (8, 1.4), (32, 0.7))]
    found = judge(folder(path, *made, settings={"seed": 0}))
    one, several = found.workloads[0].recommendation, found.schedules[0].recommendation
    assert one is not None
    return one, several


def _here(made: Made) -> Made:
    server = replace(
        made.point.server,
        command=(PYTHON, "-m", "vllm.entrypoints.openai.api_server"),
        model=str(MODEL),
        args=FLAGS,
        env=(("VLLM_CPU_KVCACHE_SPACE", "1"),),
    )
    versions = {"versions": {"vllm": "0.32.0", "torch": "2.13.0+cpu"}}
    point = replace(made.point, server=server)
    return replace(made, point=point, provenance=PROVENANCE | versions)


def parsed(command: str) -> ServerSpec:
    """What a shell makes of the text."""
    variable, *words = shlex.split(command)
    name, value = variable.split("=", 1)
    at = words.index("--model")
    assert words[at + 2 : -2] == list(FLAGS)
    assert words[-2] == "--speculative-config"
    return ServerSpec(
        kind="vllm",
        command=tuple(words[:at]),
        model=words[at + 1],
        args=FLAGS,
        env=((name, value),),
        speculative_config=words[-1],
    )


def test_vllm_takes_what_is_recommended(tmp_path: Path) -> None:
    specs = [parsed(one.command) for one in recommended(tmp_path)]
    asked = preflight(specs)
    assert asked.unasked == ()
    assert [asked.findings[spec.key].error for spec in specs] == ["", ""]
    schedules = [
        (asked.findings[spec.key].resolved or {}).get("num_speculative_tokens_per_batch_size")
        for spec in specs
    ]
    assert schedules[0] is None
    assert schedules[1] is not None


@pytest.mark.long
def test_the_recommended_command_starts_a_server(tmp_path: Path) -> None:
    command = recommended(tmp_path)[1].command
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = (tmp_path / "log").open("wb")
    shell = subprocess.Popen(
        f"{command} --host 127.0.0.1 --port {port}", shell=True, stdout=log, stderr=log
    )
    try:
        assert wait_until(lambda: shell.poll() is not None or _healthy(port), 300)
        assert _healthy(port), (tmp_path / "log").read_text()[-2000:]
    finally:
        for process in psutil.Process(shell.pid).children(recursive=True):
            process.kill()
        shell.wait()
        log.close()


def _healthy(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200
    except httpx.TransportError:
        return False
