"""The server and its GPUs over the time of a point: a line every :data:`EVERY_S` seconds.

A thread reads the gauges of ``/metrics`` beside the requests that are timed, in every arm alike.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prometheus_client.parser import text_string_to_metric_families

from sweeper.measure.energy import meter
from sweeper.serve.session import Session
from sweeper.store import PointFolder

EVERY_S = 2.0
Hear = Callable[[int, str], None]
"""Told every text of ``/metrics``, and when it was asked for (``perf_counter_ns``)."""
RUNNING, WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
CACHE = "vllm:kv_cache_usage_perc"


@contextmanager
def sampled(
    session: Session, folder: PointFolder, hear: Hear, every_s: float = EVERY_S
) -> Iterator[None]:
    """While the block runs, what the server and its GPUs say goes to ``series.jsonl``; ``hear`` is
    called in the thread that reads it."""
    boards, began = meter(session.spec), time.monotonic()

    def look() -> None:
        at, asked_ns = time.monotonic() - began, time.perf_counter_ns()
        text = session.endpoint.metrics() or ""
        hear(asked_ns, text)
        found = gauges(text) | boards.now()
        if found:
            folder.append_sample({"second": round(at, 3), **found})

    with repeated(look, every_s):
        yield


@contextmanager
def repeated(look: Callable[[], None], every_s: float) -> Iterator[None]:
    """``look`` at once and every ``every_s`` seconds in a thread, which is gone at the end."""
    over = threading.Event()

    def go_on() -> None:
        look()
        while not over.wait(every_s):
            look()

    thread = threading.Thread(target=go_on, name="series", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def gauges(text: str) -> dict[str, float]:
    """Requests running and waiting, of all engines together, and the mean share of the KV cache
    in use; what the server does not have is absent."""
    found: dict[str, list[float]] = {RUNNING: [], WAITING: [], CACHE: []}
    # The whole text would take the timed requests' processor for too long.
    lines = "".join(f"{line}\n" for line in text.splitlines() if line.startswith(tuple(found)))
    for family in text_string_to_metric_families(lines):
        for sample in family.samples:
            if sample.name in found:
                found[sample.name].append(sample.value)
    sums = {"requests_running": found[RUNNING], "requests_waiting": found[WAITING]}
    seen = {name: sum(values) for name, values in sums.items() if values}
    shares = found[CACHE]
    return seen | ({"kv_cache_usage": sum(shares) / len(shares)} if shares else {})
