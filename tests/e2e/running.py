"""The program as a user starts it, and its servers as processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

from sweeper import store
from sweeper.store import SweepFolder
from sweeper.values import PointResult, RequestRecord, Sweep

ROOT = Path(__file__).resolve().parents[2]
ENGINE = ROOT / "tests" / "fakes" / "engine.py"
BEFORE_A_POINT = 5
"""Requests that a server gets before those of its first point: the one that proves the start, the
canary, two probes, and one to warm up where they are sent one by one."""
PATIENT_S = 180.0
"""For what takes a second or two: the machine may be loaded."""


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    status: int
    out: str
    err: str


def command(*overrides: str, outputs: Path, multirun: bool = True) -> list[str]:
    """``python -m sweeper`` against the fake engine, with a model folder that is there."""
    model = outputs / "model"
    model.mkdir(exist_ok=True)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": 100,
        "max_position_embeddings": 4096,
        "num_hidden_layers": 2,
    }
    (model / "config.json").write_text(json.dumps(config))
    return [
        sys.executable,
        "-m",
        "sweeper",
        *(["-m"] if multirun else []),
        "target=own",
        "target.max_tokens=96",
        f"target.model={model}",
        f"output_dir={outputs}/out",
        f"server.command=[{sys.executable},{ENGINE}]",
        f"server.start_timeout_s={PATIENT_S}",
        "server.stop_timeout_s=3.0",
        "tracker=none",
        *overrides,
    ]


def environment(faults: Mapping[str, object] | None = None) -> dict[str, str]:
    return os.environ | {"FAKE_ENGINE": json.dumps(faults or {}), "PYTHONPATH": str(ROOT)}


def run(
    argv: Sequence[str],
    *,
    faults: Mapping[str, object] | None = None,
    timeout: float = 240,
    cwd: Path | None = None,
    **env: str,
) -> Done:
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment(faults) | env,
        cwd=cwd or ROOT,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def only_sweep(outputs: Path) -> SweepFolder:
    """The one sweep folder that a test made."""
    (found,) = outputs.glob("out/*/*/sweep.json")
    return SweepFolder(found.parent)


def read(folder: SweepFolder) -> tuple[Sweep, dict[int, PointResult]]:
    sweep = store.read_sweep(folder)
    return sweep, store.read_results(folder, sweep.plan)


def records(folder: SweepFolder) -> list[RequestRecord]:
    sweep = store.read_sweep(folder)
    return [r for p in sweep.plan.points for r in folder.point(p).records()]


def interrupted(
    argv: Sequence[str], when: Callable[[], object], faults: Mapping[str, object]
) -> Done:
    """Ctrl-C once ``when`` says so; everything the command printed on standard output."""
    with subprocess.Popen(
        argv, env=environment(faults), cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert wait_until(when)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENT_S)
    return Done(process.returncode, out, "")


def engines(marker: Path) -> list[psutil.Process]:
    """Living processes whose command line names ``marker`` (a test's own folder)."""
    found = []
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
            ours = str(marker) in line and str(ENGINE) in line
            zombie = process.status() == psutil.STATUS_ZOMBIE
            if ours and not zombie and "sweeper" not in process.cmdline():
                found.append(process)
        except psutil.Error:
            continue
    return found


@contextmanager
def own_port() -> Iterator[int]:
    """A port of 127.0.0.1 that nobody else is given while the block runs: it stays bound, and a
    server that sets SO_REUSEADDR, as all of ours do, can listen there all the same."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def wait_for_server(process: subprocess.Popen[Any], port: int) -> None:
    """Until it answers on /health."""

    def healthy() -> bool:
        assert process.poll() is None, f"ended with status {process.returncode}"
        try:
            answer = httpx.get(f"http://127.0.0.1:{port}/health", timeout=PATIENT_S)
        except httpx.ConnectError:
            return False
        return answer.status_code == 200

    assert wait_until(healthy)


@contextmanager
def served(
    line: Sequence[str], env: Mapping[str, str]
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A server of a port of its own, started and ready, and its URL; killed at the end."""
    with (
        own_port() as port,
        subprocess.Popen(
            [*line, "--port", str(port)], env=env, stdout=subprocess.DEVNULL
        ) as process,
    ):
        try:
            wait_for_server(process, port)
            yield process, f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def wait_until(truth: Callable[[], object], seconds: float = PATIENT_S) -> bool:
    """Poll a callable until it says yes."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if truth():
            return True
        time.sleep(0.05)
    return bool(truth())
