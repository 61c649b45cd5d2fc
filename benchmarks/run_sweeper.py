"""One closed load by this project's client; prints JSON for ``benchmarks.client``."""

from __future__ import annotations

import json
import sys
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
    url, streams, count, tokens, processes = sys.argv[1], *map(int, [*sys.argv[2:], 1][:4])
    requests = [request(f"prompt {n}", tokens) for n in range(count)]
    times: dict[str, tuple[float, float]] = {}
    failed = written = last = 0
    with TemporaryDirectory() as scratch:
        folder = PointFolder(Path(scratch))

        def keep(record: RequestRecord) -> None:
            nonlocal failed, written, last
            last = max(last, record.done_ns)
            failed += bool(record.error)
            written += record.completion_tokens or 0
            folder.append(record)  # to disk as it comes, as in a measurement
            if record.chunk_ns:
                gaps, answer = record.chunk_ns[1:], record.completion_tokens or 0
                times[record.prompt_id] = (record.chunk_ns[0], sum(gaps) / max(1, answer - 1))

        load = Load(name="closed", concurrency=streams, stream=True, processes=processes)
        client = run_load(url, "", "model", requests, load, keep)
    # Of all its processes; and by the clock from when they all were ready.
    found = {"cpu_s": client.cpu_s, "wall_s": last / 1e9, "failed": failed, "times": times}
    print(json.dumps(found | {"tokens": written, "processes": client.processes}))


if __name__ == "__main__":
    main()
