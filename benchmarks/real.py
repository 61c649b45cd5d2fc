"""Does this project's client agree with ``vllm bench serve`` on a real server?

    python -m benchmarks.real --model PATH [--streams 4] [--requests 8] [--tokens 24] [--rounds 3]

Starts vLLM once, without prefix caching, and has both clients send the same prompts in turns,
greedily. A figure is the mean of the rounds, with their standard deviation: the noise. They agree
where the difference is within twice the noise of both.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile

import numpy as np

from benchmarks.client import CLIENTS, Outcome, drive

FLAGS = ("--enforce-eager", "--no-enable-prefix-caching", "--max-model-len", "2048")


@contextmanager
def vllm(model: str) -> Iterator[str]:
    """The URL of a server of ``model`` under the name ``model``."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    place = ("--host", "127.0.0.1", "--port", str(port), "--served-model-name", "model")
    entry = (sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", model)
    with TemporaryFile() as log:
        env = {"VLLM_CPU_KVCACHE_SPACE": "1"} | os.environ
        process = subprocess.Popen([*entry, *FLAGS, *place], stdout=log, stderr=log, env=env)
        try:
            if not ready(process, f"http://127.0.0.1:{port}/health"):
                log.seek(0)
                said = b"".join(log.readlines()[-30:]).decode(errors="replace")
                raise SystemExit(f"{said}\nvLLM exited with {process.returncode}")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


def ready(process: subprocess.Popen[bytes], url: str) -> bool:
    """Waits until the server answers, or has ended."""
    while process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except OSError:
            time.sleep(1.0)
        else:
            return True
    return False


def figures(found: Outcome) -> tuple[float, float, float]:
    """Median TTFT and TPOT in ms, output tokens a second."""
    times = np.array(list(found["times"].values())) / 1e6
    ttft, tpot = np.median(times, axis=0)
    return float(ttft), float(tpot), found["tokens"] / found["wall_s"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True)
    for name, default in (("streams", 4), ("requests", 8), ("tokens", 24), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    print(f"load average at the start {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    rows: dict[str, list[tuple[float, float, float]]] = {client: [] for client in CLIENTS}
    with vllm(args.model) as url:
        for number in range(args.rounds + 1):
            for client in CLIENTS:
                found = drive(client, url, args.streams, args.requests, args.tokens, truth=False)
                if number:  # the first round warms the server up
                    rows[client].append(figures(found))
    for at, name in enumerate(("TTFT, ms", "TPOT, ms", "output, tokens/s")):
        ours, theirs = (np.array([row[at] for row in rows[client]]) for client in CLIENTS)
        noise = float(np.hypot(ours.std(ddof=1), theirs.std(ddof=1)))
        apart = float(ours.mean() - theirs.mean())
        print(
            f"  {name}: sweeper {ours.mean():.2f} ± {ours.std(ddof=1):.2f}, vllm bench serve "
            f"{theirs.mean():.2f} ± {theirs.std(ddof=1):.2f}; apart {apart:+.2f}, noise of both "
            f"{noise:.2f}: {'agree' if abs(apart) <= 2 * noise else 'DIFFER'}"
        )
    print(f"load average at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
