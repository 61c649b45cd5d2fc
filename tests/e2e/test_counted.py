"""Requests that tell nothing of their drafts: the server's counters are followed beside them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from sweeper import store
from tests.e2e.running import command, only_sweep, read, run

MENDED = "server.workarounds=[vllm-55005]"
IN_FORCE = ["sweeper: work-around vllm-55005 in force (pid 1)"]
LOAD = ("load=closed", "load.concurrency=2", "load.warmup_requests=0", "load.processes=1")
BEFORE = 9
"""Requests of the start, the canary and its probes."""


def test_a_draft_that_dies_half_way_is_told_from_the_counters_too(tmp_path: Path) -> None:
    """Two answers a request, which ends when the counters were read once more: so there are four
    readings or more while the draft lives, and four when it is dead."""
    values = ("method=ngram", "gamma=2", "baseline=off", "dataset.limit=16", "check=none")
    sampling = ("sampling=t07_p09", "sampling.n=2")
    faults = {"ends_when_read": BEFORE, "freeze_accepts_after": BEFORE + 8, "start_log": IN_FORCE}
    done = run(command(MENDED, *values, *sampling, *LOAD, outputs=tmp_path), faults=faults)
    assert done.status == 0, done.out + done.err
    folder = only_sweep(tmp_path)
    sweep, results = read(folder)
    (result,) = results.values()
    told = [w for w in result.warnings if w.startswith("no draft was accepted from ")]
    assert told  # more than once where the server stood still between two readings
    said = " ".join(done.out.split())  # in lines as long as the screen is wide
    assert all(w.endswith(" s (from the server's counters)") and w in said for w in told)
    windows = result.counters["over_time"]
    assert all(a["end"] == b["start"] for a, b in pairwise(windows))
    dead = [w["accepted"] == 0 for w in windows if w["drafted"]]
    assert dead == sorted(dead) and 0 < dead.count(True) < len(dead)
    for name in ("verify_steps", "drafted", "accepted"):
        assert sum(w[name] for w in windows) == result.counters["change"][name]
    (planned,) = sweep.plan.points
    assert len(store.read_json(folder.point(planned).counters)["between"]) > len(windows)
    page = folder.page.read_text()
    assert "Acceptance over time" in page and "(from counters)" in page
    assert "<li>Acceptance by sequence length: not measured: requests do not tell" in page
