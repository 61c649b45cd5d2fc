"""One closed load by this project's client; prints JSON for ``benchmarks.client``."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from sweeper.drive.load import run_load
from sweeper.drive.requests import COMPLETIONS, Request
from sweeper.store import PointFolder
from sweeper.values import Load, RequestRecord


def request(prompt: str, tokens: int) -> Request:
    body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0.0, "repetition_penalty": 1.0}
    return Request(prompt_id=prompt, category=None, repeat=0, turn=0, path=COMPLETIONS, body=body)


def main() -> None:
    url, streams, count, tokens = sys.argv[1], *map(int, sys.argv[2:5])
    requests = [request(f"prompt {n}", tokens) for n in range(count)]
    times: dict[str, tuple[float, float]] = {}
    failed = written = 0
    with TemporaryDirectory() as scratch:
        folder = PointFolder(Path(scratch))

        def keep(record: RequestRecord) -> None:
            nonlocal failed, written
            failed += bool(record.error)
            written += record.completion_tokens or 0
            folder.append(record)  # to disk as it comes, as in a measurement
            if record.chunk_ns:
                gaps, answer = record.chunk_ns[1:], record.completion_tokens or 0
                times[record.prompt_id] = (record.chunk_ns[0], sum(gaps) / max(1, answer - 1))

        load = Load(name="closed", concurrency=streams, stream=True, processes=1)
        began, wall = time.process_time(), time.perf_counter()
        run_load(url, "", "model", requests, load, keep)
        used, wall = time.process_time() - began, time.perf_counter() - wall
    found = {"cpu_s": used, "wall_s": wall, "failed": failed, "times": times, "tokens": written}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
