"""How long judging a large sweep takes, and in how much memory.

    python -m benchmarks.judge [--points 1000] [--requests 500] [--keep DIR]

Writes the folder of a sweep that was never measured, in the project's own file format and through
its own store, then runs ``python -m sweeper.judge`` on it as a user would. Prints the seconds and
the peak of the memory of all its processes together; the bounds are 20 s and 2 GB for 1,000 points
of 500 requests. Ends with 1 where one is broken.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
import psutil

from sweeper.plan.grid import plan
from sweeper.store import PointFolder, SweepFolder, to_json, write_json
from sweeper.values import (
    Dataset,
    Job,
    Load,
    PlannedPoint,
    Point,
    PointResult,
    RequestRecord,
    Sampling,
    ServerSpec,
    SpecCounts,
    Sweep,
)

SECONDS, GIGABYTES = 20.0, 2.0
"""The bounds, for 1,000 points of 500 requests on two cores."""
GAMMAS = (1, 2, 3, 4, 5, 6, 7, 8, 10)
METHODS = ("ngram", "suffix", "draft_model", "eagle3", "mtp", "dflash", "eagle", "medusa", "dspark")
CATEGORIES = ("code", "chat")
TOKENS = (40, 160)
"""Completion tokens of the shortest and the longest answer."""
GREEDY = Sampling(
    name="greedy", temperature=0.0, top_p=1.0, top_k=0, min_p=0.0, presence_penalty=0.0,
    frequency_penalty=0.0, repetition_penalty=1.0, seed=0, max_tokens=TOKENS[1],
)  # fmt: skip
PROVENANCE = {
    "host": {"hostname": "node1", "cpu": "none", "cores": 2, "gpu": None},
    "versions": {"vllm": "0.32.0"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """What one run of the judge needed; ``verdicts`` counts the workloads it judged."""

    seconds: float
    gigabytes: float
    verdicts: int


def points(count: int, requests: int) -> Iterator[Point]:
    """Every γ of every method on one dataset after another."""
    for number in range(count):
        at, dataset = number % (len(GAMMAS) * len(METHODS)), number // len(GAMMAS) // len(METHODS)
        yield _point(METHODS[at // len(GAMMAS)], GAMMAS[at % len(GAMMAS)], dataset, requests)


def _point(method: str, gamma: int, dataset: int, requests: int) -> Point:
    config = json.dumps({"method": method, "num_speculative_tokens": gamma}, sort_keys=True)
    name = f"prompts-{dataset}"
    return Point(
        method=method,
        gamma=gamma,
        target="org/model",
        server=ServerSpec(
            kind="vllm",
            command=("vllm", "serve"),
            model="org/model",
            speculative_config=config,
        ),
        dataset=Dataset(name=name, path=f"{name}.jsonl", digest=name, prompts=requests),
        sampling=GREEDY,
        load=Load(name="sequential"),
    )


def write(path: Path, *, count: int, requests: int) -> SweepFolder:
    """A sweep of ``count`` points, baselines among them, of ``requests`` requests each."""
    folder = SweepFolder(path)
    asked = list(points(count, requests))
    while len(planned := _planned(asked)) > count:
        asked.pop()
    sweep = Sweep(
        id="benchmark",
        created_at="2026-01-31T12:00:00+00:00",
        command=("python", "-m", "benchmarks.judge"),
        plan=plan(_jobs(asked), baseline="shared"),
        settings={"seed": 0},
        versions={},
    )
    write_json(folder.sweep, to_json(sweep))
    for one in planned:
        _write_point(folder.point(one), one, requests)
    return folder


def _jobs(asked: list[Point]) -> list[Job]:
    return [Job(number=n, overrides=(), point=p) for n, p in enumerate(asked)]


def _planned(asked: list[Point]) -> tuple[PlannedPoint, ...]:
    return plan(_jobs(asked), baseline="shared").points


def _write_point(home: PointFolder, planned: PlannedPoint, requests: int) -> None:
    home.path.mkdir(parents=True)
    generator = np.random.default_rng(planned.number)
    with home.requests.open("wb") as file:
        for number in range(requests):
            record = _record(planned.point, number, generator)
            file.write(msgspec.json.encode(record) + b"\n")
    result = PointResult(
        number=planned.number, key=planned.key, sweep="benchmark", status="completed", reason="",
        requests=requests, failed=0, started_at="2026-01-31T12:00:05+00:00", wall_s=60.0,
        server_folder="", counters={}, warnings=(), provenance=PROVENANCE,
    )  # fmt: skip
    write_json(home.result, to_json(result))


def _record(point: Point, number: int, generator: np.random.Generator) -> RequestRecord:
    """One greedy answer, the same in every arm, in steps as vLLM reports them."""
    ids = _answer(number)
    tokens = len(ids)
    steps, spec = _drafts(point.gamma, tokens, generator)
    seconds = 0.02 * steps * (1 + 0.04 * point.gamma) * float(generator.lognormal(0, 0.1))
    return RequestRecord(
        prompt_id=f"prompt-{number}", category=CATEGORIES[number % len(CATEGORIES)], repeat=0,
        turn=0, sent_ns=0, first_ns=None, done_ns=round(1e9 * (seconds + 0.02)), prompt_tokens=64,
        cached_tokens=0, completion_tokens=tokens, finish_reason="stop", spec=spec,
        decode_steps=steps, text=" word" * tokens, token_ids=ids, prompt_digest=f"digest-{number}",
        error="", decode_ms=1e3 * seconds,
    )  # fmt: skip


@cache
def _answer(number: int) -> tuple[int, ...]:
    """The token ids of a prompt's answer."""
    generator = np.random.default_rng(number)
    return tuple(generator.integers(50_000, size=generator.integers(*TOKENS)).tolist())


def _drafts(
    gamma: int, tokens: int, generator: np.random.Generator
) -> tuple[int, SpecCounts | None]:
    """Decode steps of an answer, and its drafts: each position is accepted three times in four."""
    if not gamma:
        return tokens - 1, None
    hits = generator.random((tokens, gamma)) < 0.75
    all_steps = np.where(hits.all(axis=1), gamma, hits.argmin(axis=1))
    steps = 1 + int(np.searchsorted(np.cumsum(all_steps + 1), tokens - 1))
    accepted = all_steps[:steps]
    return steps, SpecCounts(
        verify_steps=steps,
        drafted=gamma * steps,
        accepted=int(accepted.sum()),
        histogram=tuple(np.bincount(accepted, minlength=gamma + 1).tolist()),
        per_step_drafted=(gamma,) * steps,
        per_step_accepted=tuple(accepted.tolist()),
    )


def judge(folder: SweepFolder) -> Took:
    """Run the command; memory is that of it and its children, ten times a second."""
    began, peak = time.perf_counter(), 0
    command = [sys.executable, "-m", "sweeper.judge", "--json", str(folder.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        watched = psutil.Process(running.pid)
        out: str | None = None
        while out is None:
            peak = max(peak, _resident(watched))
            with suppress(subprocess.TimeoutExpired):
                out, _ = running.communicate(timeout=0.1)
    seconds = time.perf_counter() - began
    verdicts = len(json.loads(out)["workloads"])
    return Took(seconds=seconds, gigabytes=peak / 1e9, verdicts=verdicts)


def _resident(process: psutil.Process) -> int:
    """Bytes of a process and all below it; what they share counts once for each."""
    total = 0
    try:
        for one in (process, *process.children(recursive=True)):
            total += one.memory_info().rss
    except psutil.Error:
        pass
    return total


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--keep", type=Path, help="a folder to write to, or to judge again")
    args = parser.parse_args()
    with TemporaryDirectory() as scratch:
        path = args.keep or Path(scratch)
        folder = SweepFolder(path)
        if not folder.sweep.exists():
            folder = write(path, count=args.points, requests=args.requests)
        size = sum(file.stat().st_size for file in path.rglob("*.jsonl")) / 1e6
        took = judge(folder)
    load = psutil.getloadavg()[0]
    print(
        f"{args.points:,} points x {args.requests} requests ({size:,.0f} MB), {took.verdicts} "
        f"workloads: {took.seconds:.1f} s, {took.gigabytes:.2f} GB; load average {load:.1f}"
    )
    return int(took.seconds > SECONDS or took.gigabytes > GIGABYTES)


if __name__ == "__main__":
    sys.exit(main())
