"""Whether the client's memory stays flat over a long load.

    python -m benchmarks.memory [--requests 100000] [--tokens 16] [--streams 64]

Every record goes to disk as it comes, as in a measurement; resident memory of this process is
printed along the way. Then the checks of a measurement go through all records on disk.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from benchmarks.client import server
from benchmarks.run_sweeper import request
from sweeper.drive.load import run_load
from sweeper.measure.throughput import load_warnings
from sweeper.measure.windows import dead_windows
from sweeper.store import PointFolder
from sweeper.values import Load, RequestRecord


class Written:
    """The records on disk, read anew by every loop over them."""

    def __init__(self, folder: PointFolder) -> None:
        self.folder = folder

    def __iter__(self) -> Iterator[RequestRecord]:
        return self.folder.each_record()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--streams", type=int, default=64)
    args = parser.parse_args()
    load = Load(name="closed", concurrency=args.streams, stream=True, processes=1)
    process, began = psutil.Process(), time.perf_counter()
    sent = failed = 0

    def say(what: str) -> None:
        memory = process.memory_info().rss / 2**20
        print(f"{what}: {memory:.1f} MiB, {time.perf_counter() - began:.0f} s", flush=True)

    with TemporaryDirectory() as scratch, server() as url:
        folder = PointFolder(Path(scratch))

        def keep(record: RequestRecord) -> None:
            nonlocal sent, failed
            folder.append(record)
            sent, failed = sent + 1, failed + bool(record.error)
            if sent % max(1, args.requests // 10) == 0:
                say(f"{sent:>7,} requests")

        say("at the start")
        requests = (request(f"prompt {n}", args.tokens) for n in range(args.requests))
        run_load(url, "", "model", requests, load, keep)
        load_warnings(Written(folder), load)
        dead_windows(Written(folder))
        say("after the checks of all records")
        size = folder.requests.stat().st_size / 2**20
        print(f"{sent:,} records, {failed} failed, {size:.0f} MiB on disk")


if __name__ == "__main__":
    main()
