"""How much the client costs and how exact it is, beside ``vllm bench serve``.

    python -m benchmarks.client [--tokens 40000] [--rounds 3] [--streams 1,64,256]
    python -m benchmarks.client --processes 2     # this client alone: one process beside two

One run prints both clients' figures and their ratio: the same server, the same requests, one after
the other in turns. Look at the ratios: the figures themselves depend on the machine and on what
else it does.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
CLIENTS = {"sweeper": "benchmarks.run_sweeper", "vllm bench serve": "benchmarks.run_vllm_bench"}
OTHERS = {"GuideLLM": "benchmarks.run_guidellm"}
ANSWER = 200  # tokens, one a chunk
PER_STREAM = 8  # requests at least, so that opening connections is a small part of a load

Outcome = dict[str, Any]


@contextmanager
def server(*flags: str) -> Iterator[str]:
    """The URL of ``benchmarks.server`` in a process of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "benchmarks.server", "--port", str(port), *flags]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def drive(
    client: str,
    url: str,
    streams: int,
    requests: int,
    answer: int = ANSWER,
    truth: bool = True,
    processes: int = 1,
) -> Outcome:
    """One load by one client in a process of its own; ``truth`` is what the server says of it.
    Only this project's client has more ``processes``."""
    amounts = [str(n) for n in (streams, requests, answer)]
    amounts += [str(processes)] if processes > 1 else []
    done = subprocess.run(
        [sys.executable, "-m", (CLIENTS | OTHERS)[client], url, *amounts],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{client} failed:\n{done.stderr[-2000:]}")
    found: Outcome = json.loads(done.stdout)
    if found["failed"]:
        raise SystemExit(f"{client}: {found['failed']} of {requests} requests failed")
    if truth:
        with urllib.request.urlopen(f"{url}/timings") as answered:
            found["truth"] = json.load(answered)
    found.setdefault("tokens", requests * answer)
    return found


def cost(clients: Sequence[str], streams: Sequence[int], tokens: int, rounds: int) -> None:
    """Streamed tokens a second of the client's CPU time, the median round."""
    for title, flags in (
        ("a chunk every 5 ms a stream", ("--first-ms=20", "--spread-ms=100", "--step-ms=5")),
        ("as fast as they go", ()),
    ):
        print(f"\nstreamed tokens per CPU-second, {title}")
        with server(*flags) as url:
            for count in streams:
                # One stream at 5 ms a token takes 5 s for 1,000.
                wanted = min(tokens, 2000) if flags and count == 1 else tokens
                requests = max(PER_STREAM * count, wanted // ANSWER)
                rates: dict[str, list[float]] = {client: [] for client in clients}
                for _ in range(rounds):
                    for client in clients:
                        found = drive(client, url, count, requests)
                        # GuideLLM's start takes more CPU than a small load, and varies by more.
                        rates[client].append(
                            found["tokens"] / found["cpu_s"] if found["cpu_s"] > 0 else np.nan
                        )
                show(count, {c: float(np.median(r)) for c, r in rates.items()}, ",.0f", True)


def several(streams: Sequence[int], tokens: int, rounds: int, processes: int) -> None:
    """What more processes bring: tokens a second by the clock, and what they cost in CPU time of
    all of them together. As fast as they go, so that one process is what limits."""
    by = {f"{processes} processes": processes, "1 process": 1}
    print(f"\nsweeper with {processes} processes beside one, as fast as they go")
    with server() as url:
        for count in streams:
            requests = max(PER_STREAM * count, tokens // ANSWER)
            runs: dict[str, list[Outcome]] = {name: [] for name in by}
            for _ in range(rounds):
                for name, number in by.items():
                    runs[name].append(drive("sweeper", url, count, requests, processes=number))
            for title, of in (("second", "wall_s"), ("CPU-second", "cpu_s")):
                rates = {n: [r["tokens"] / r[of] for r in each] for n, each in runs.items()}
                print(f"  streamed tokens per {title}:", end="")
                show(count, {n: float(np.median(r)) for n, r in rates.items()}, ",.0f", True)


def exactness(clients: Sequence[str], streams: Sequence[int]) -> None:
    """What each client says of TTFT and TPOT, less what the server did.

    Requests that open a connection are left out: opening it is in a client's TTFT, but no server
    knows of it.
    """
    print("\nerror against the server's own times, a chunk every 20 ms a stream, 50 a request")
    with server("--first-ms=50", "--spread-ms=400", "--step-ms=20") as url:
        for count in streams:
            errors: dict[str, tuple[Any, Any]] = {}
            for client in clients:
                found = drive(client, url, count, max(20, 3 * count), 50)
                later = [f"prompt {n}" for n in range(count, max(20, 3 * count))]
                pairs = [(found["times"][p], found["truth"][p]) for p in later]
                first = [(ours[0] - true[0]) / 1e6 for ours, true in pairs]
                each = [(ours[1] - (true[1] - true[0]) / 49) / 1e6 for ours, true in pairs]
                errors[client] = (np.abs(first), np.abs(each))
            for at, name in enumerate(("TTFT", "TPOT")):
                for share in (50, 99):
                    print(f"  {name} P{share}, ms:", end="")
                    picked = {c: float(np.percentile(e[at], share)) for c, e in errors.items()}
                    show(count, picked, ".4f", False)


def show(streams: int, figures: dict[str, float], form: str, more_is_better: bool) -> None:
    known = {client: figure for client, figure in figures.items() if np.isfinite(figure)}
    parts = [f"{client} {figure:{form}}" for client, figure in known.items()]
    parts += [f"{client} not measured" for client in figures if client not in known]
    ours, *others = known.values()
    ratios = [ours / theirs if more_is_better else theirs / ours for theirs in others]
    parts += ["ratio " + ", ".join(f"{ratio:.2f}" for ratio in ratios)] if ratios else []
    print(f"  {streams:>4} streams: {', '.join(parts)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=40_000, help="a load, about")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--streams", default="1,64,256")
    parser.add_argument(
        "--processes",
        type=int,
        default=1,
        help="above 1: only this client, with so many beside one",
    )
    parser.add_argument("--only-cost", action="store_true")
    parser.add_argument("--only-exactness", action="store_true")
    args = parser.parse_args()
    streams = [int(n) for n in args.streams.split(",")]
    clients = [c for c in CLIENTS if c == "sweeper" or find_spec("vllm")]
    print(f"load average at the start {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    if args.processes > 1:
        several(streams, args.tokens, args.rounds, args.processes)
        return
    if not args.only_exactness:
        others = [*OTHERS] if os.environ.get("GUIDELLM") else []
        cost([*clients, *others], streams, args.tokens, args.rounds)
    if not args.only_cost:
        exactness(clients, streams)
    print(f"\nload average at the end {os.getloadavg()[0]:.1f}; ratio above 1: sweeper is better")


if __name__ == "__main__":
    main()
