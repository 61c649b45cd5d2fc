"""Acceptance of draft and head on real vLLM on the CPU, with prompts neither was trained on.

    python -m demo.measure                  # both, gamma 2 and 4: four server starts
    python -m demo.measure draft --gamma 4

Greedy, 128 tokens, one request at a time. A, D and S are summed over the prompts of a set before
dividing. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from demo.build import build_draft, build_head
from demo.heldout import HELDOUT
from demo.prompts import seen_like_prompts
from demo.target import build_target

TOKENS = 128
START_SECONDS = 600
METHODS = {"draft": ("draft_model", build_draft), "head": ("eagle3", build_head)}


def sets() -> dict[str, list[str]]:
    """Prompts by set: held out, and unseen combinations of the training templates."""
    found: dict[str, list[str]] = {}
    for held in HELDOUT:
        found.setdefault(f"held-out {held.kind}", []).append(held.text)
    for seen in seen_like_prompts():
        found.setdefault(f"seen-like {seen.kind}", []).append(seen.text)
    return found


def row(name: str, gamma: int) -> list[str]:
    """One line of the table: ``A/D / 1 + A/S`` for each set."""
    method, folder = METHODS[name]
    spec = {"method": method, "model": str(folder()), "num_speculative_tokens": gamma}
    cells = []
    with vllm(spec) as url:
        for prompts in sets().values():
            counts = [ask(url, prompt) for prompt in prompts]
            steps, drafted, accepted = (sum(column) for column in zip(*counts, strict=True))
            cells.append(f"{accepted / drafted:.3f} / {1 + accepted / steps:.2f}")
            print(f"{name} {gamma}: S {steps}, D {drafted}, A {accepted}", file=sys.stderr)
    return [name, str(gamma), *cells]


@contextmanager
def vllm(spec: dict[str, Any]) -> Iterator[str]:
    """A server with that speculative config; yields its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            serve_command(spec, port),
            env=environment(),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            wait_until_ready(process, f"http://127.0.0.1:{port}")
            yield f"http://127.0.0.1:{port}"
        except BaseException:
            log.seek(0)
            print("".join(log.readlines()[-40:]), file=sys.stderr)
            raise
        finally:
            stop(process)


def serve_command(spec: dict[str, Any], port: int) -> list[str]:
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    command += ["--model", str(build_target()), "--served-model-name", "target"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--max-model-len", "2048"]
    command += ["--enforce-eager", "--no-enable-prefix-caching", "--max-num-seqs", "4"]
    command += ["--per-request-spec-decode-metrics", "detailed"]
    return [*command, "--speculative-config", json.dumps(spec)]


def environment() -> dict[str, str]:
    """One GB of cache, and Intel's OpenMP where it is installed: it is faster."""
    openmp = Path(sys.prefix) / "lib" / "libiomp5.so"
    preload = {"LD_PRELOAD": str(openmp)} if openmp.is_file() else {}
    return dict(os.environ) | {"VLLM_CPU_KVCACHE_SPACE": "1"} | preload


def wait_until_ready(process: subprocess.Popen[bytes], url: str) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            raise SystemExit(f"vLLM exited with {process.returncode} before it was ready")
        try:
            urllib.request.urlopen(f"{url}/health", timeout=5).close()
            return
        except OSError:
            time.sleep(1)
    raise SystemExit(f"vLLM was not ready after {START_SECONDS} s")


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def ask(url: str, prompt: str) -> tuple[int, int, int]:
    """(S, D, A) of one greedy answer."""
    body = {
        "model": "target",
        "messages": [{"role": "user", "content": prompt}],
        "temperature": 0,
        "max_tokens": TOKENS,
    }
    request = urllib.request.Request(
        f"{url}/v1/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=300) as response:
        counts = json.load(response)["metrics"]["speculative_decoding"]
    return (
        counts["num_spec_steps"],
        counts["num_draft_tokens"],
        counts["num_accepted_draft_tokens"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m demo.measure", description=__doc__)
    parser.add_argument("names", nargs="*", default=list(METHODS), metavar="draft|head")
    parser.add_argument("--gamma", type=int, nargs="+", default=[2, 4])
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(METHODS):
        parser.error(f"{sorted(unknown)} is not draft or head")
    print("| checkpoint | gamma | " + " | ".join(sets()) + " |")
    print("|---" * (2 + len(sets())) + "|")
    for name in arguments.names:
        for gamma in arguments.gamma:
            print("| " + " | ".join(row(name, gamma)) + " |", flush=True)


if __name__ == "__main__":
    main()
