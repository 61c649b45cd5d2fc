"""Whether the page of a large sweep is small and opens at once.

    python -m benchmarks.page [--points 1000] [--requests 20] [--keep DIR]

Writes a sweep folder as a sweep would, makes its page, and opens it in headless Chromium. A point
has random acceptance and answers of some hundred characters; nothing of it means anything. Exit
status 1: larger than 20 MB, or not open within 3 seconds.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from selenium.webdriver.common.by import By

from sweeper.judge.judgement import judge
from sweeper.report.page.build import write_page
from sweeper.store import SweepFolder
from sweeper.values import Dataset, RequestRecord
from tests.e2e.browser import chromium, until
from tests.unit.sweeps import CHAT, Made, counts, folder, point, record

SECONDS, MEGABYTES = 3.0, 20.0
A_WORKLOAD = 20
"""Points: the baseline and 19 settings."""
METHODS = ("ngram", "suffix", "draft_model", "eagle3")
TEXT = "the model drafts some tokens and the target accepts those it would have said"


def made(points: int, requests: int) -> list[Made]:
    """Workloads one after another, each with its baseline first."""
    found: list[Made] = []
    for number in range(points):
        place = number % A_WORKLOAD
        base = number - place
        dataset = replace(CHAT, name=f"set {base // A_WORKLOAD}", digest=f"d{base}")
        found.append(_point(place, requests, dataset, base))
    return found


def _point(place: int, requests: int, dataset: Dataset, base: int) -> Made:
    method = METHODS[place % len(METHODS)] if place else "none"
    gamma = 1 + place // len(METHODS) if place else 0
    records = tuple(_answer(n, gamma) for n in range(requests))
    return Made(point=point(method, gamma, dataset=dataset), records=records, baseline=base)


def _answer(number: int, gamma: int) -> RequestRecord:
    steps = [random.randint(0, gamma) for _ in range(40)] if gamma else []
    histogram = [steps.count(k) for k in range(gamma + 1)]
    spec = replace(counts(histogram), per_step_drafted=(gamma,) * 40,
                   per_step_accepted=tuple(steps)) if gamma else None  # fmt: skip
    tokens = 1 + len(steps) + sum(steps) if gamma else 96
    sent = number * 3 * 10**9
    return record(
        f"prompt {number}",
        done_ns=sent + random.randint(10**9, 3 * 10**9),
        tokens=tokens,
        steps=40 if gamma else 95,
        spec=spec,
        text=" ".join(random.choices(TEXT.split(), k=80)),
        token_ids=tuple(random.choices(range(50_000), k=tokens)),
        sent_ns=sent,
    )


def opened(page: Path, points: int) -> tuple[float, float]:
    """Seconds until the page says how many points it has, and until a search narrowed them."""
    with chromium() as browser:
        browser.get("about:blank")
        began = time.perf_counter()
        browser.get(page.as_uri())
        until(lambda: browser.find_element(By.ID, "shown").text == f"{points} points", 60)
        there = time.perf_counter() - began
        browser.find_element(By.ID, "search").send_keys("eagle3")
        until(lambda: " of " in browser.find_element(By.ID, "shown").text, 60)
        return there, time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--requests", type=int, default=20)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="write the sweep there")
    args = parser.parse_args()
    random.seed(0)
    with ExitStack() as ended:
        home = args.keep or Path(ended.enter_context(TemporaryDirectory()))
        sweep: SweepFolder = folder(home, *made(args.points, args.requests))
        began = time.perf_counter()
        judgement = judge(sweep)
        judged = time.perf_counter()
        page = write_page(sweep, judgement)
        written = time.perf_counter()
        beside = sum(f.stat().st_size for f in (page.parent / "requests").glob("*.js")) / 1e6
        size, (seconds, narrowed) = page.stat().st_size / 1e6, opened(page, args.points)
    print(f"{args.points} points, {args.requests} requests each")
    print(f"judged in {judged - began:.0f} s, page written in {written - judged:.0f} s")
    print(f"page {size:.1f} MB (at most {MEGABYTES:g}), {beside:.1f} MB of requests beside it")
    print(f"open after {seconds:.2f} s (at most {SECONDS:g}), narrowed after {narrowed:.2f} s")
    return 0 if size <= MEGABYTES and seconds <= SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
