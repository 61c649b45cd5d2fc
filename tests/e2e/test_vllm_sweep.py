"""A whole sweep with real vLLM on the CPU and the demo target."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sweeper import store
from sweeper.judge.acceptance import acceptance
from sweeper.judge.drafts import count
from sweeper.measure.checks import identity_violation
from sweeper.store import SweepFolder
from tests.e2e.running import only_sweep, read, run

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1200)]

SMALL = ("dataset.limit=3", "sampling.max_tokens=32", "load.warmup_requests=1", "tracker=none")


def sweep(outputs: Path, *overrides: str) -> SweepFolder:
    argv = [sys.executable, "-m", "sweeper", "-m", f"output_dir={outputs}/out", *SMALL, *overrides]
    done = run(argv, timeout=1000)
    assert done.status == 0, done.out + done.err
    return only_sweep(outputs)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> SweepFolder:
    return sweep(
        tmp_path_factory.mktemp("vllm"), "method=ngram,suffix", "gamma=2", "dataset=code,chat"
    )


def test_every_point_completed_without_a_warning(measured: SweepFolder) -> None:
    _, results = read(measured)
    assert len(results) == 6
    assert {r.status for r in results.values()} == {"completed"}
    assert {w for r in results.values() for w in r.warnings} == set()


def test_one_real_start_a_server(measured: SweepFolder) -> None:
    logs = [path.read_text() for path in measured.path.glob("servers/*/server.log")]
    assert len(logs) == 3
    assert all(log.count("non-default args") == 1 for log in logs)


def test_the_accounting_identity_holds_for_every_request(measured: SweepFolder) -> None:
    sweep_, _ = read(measured)
    for planned in sweep_.plan.points:
        for record in measured.point(planned).records():
            assert record.decode_steps is not None
            assert identity_violation(record, planned.point.gamma) is None


def test_requests_agree_with_the_servers_counters(measured: SweepFolder) -> None:
    _, results = read(measured)
    assert {r.counters["cross_check"]["agree"] for r in results.values()} == {True}


def test_editing_tasks_are_drafted_and_accepted(measured: SweepFolder) -> None:
    sweep_, _ = read(measured)
    (code,) = [
        p for p in sweep_.plan.points if (p.point.method, p.point.dataset.name) == ("ngram", "code")
    ]
    found = acceptance(count(measured.point(code).records(), gamma=2, baseline=False), seed=0)
    assert found.acceptance_rate.value is not None and found.acceptance_rate.value > 0
    assert found.draft_coverage.value is not None and 0 < found.draft_coverage.value < 1


def test_resolved_settings_and_provenance_are_recorded(measured: SweepFolder) -> None:
    sweep_, results = read(measured)
    for planned in sweep_.plan.points:
        provenance = results[planned.number].provenance
        assert provenance["versions"]["vllm"].startswith("0.")
        assert provenance["caches"]["prefix"] == "reset before every repeat"
        assert provenance["engine"]["runner"] in ("V1", "V2")
        resolved = provenance["resolved_speculative_config"]
        asked = planned.point.server.speculative
        assert (resolved is None) == (asked is None)
        assert all(resolved[key] == value for key, value in (asked or {}).items())


def test_the_key_is_nowhere_in_the_files(measured: SweepFolder) -> None:
    for path in measured.path.rglob("*"):
        if path.is_file():
            assert b"VLLM_API_KEY" not in path.read_bytes(), path


def test_nothing_is_left_running(measured: SweepFolder) -> None:
    """A server leads a session of its own, and all it starts stays in it."""
    infos = [json.loads(path.read_text()) for path in measured.path.glob("servers/*/server.json")]
    leaders = {info["pid"] for info in infos}
    assert len(leaders) == 3
    left = {pid: name for pid, name, session in sessions() if session in leaders}
    assert left == {}


def sessions() -> Iterator[tuple[int, str, int]]:
    for process in psutil.process_iter(["name"]):
        with contextlib.suppress(ProcessLookupError):
            yield process.pid, process.info["name"], os.getsid(process.pid)


def test_greedy_acceptance_is_the_same_a_second_time(measured: SweepFolder, tmp_path: Path) -> None:
    again = sweep(tmp_path, "method=ngram", "gamma=2", "dataset=code")
    counts = [
        [
            (r.prompt_id, r.completion_tokens, r.spec, r.token_ids)
            for p in store.read_sweep(folder).plan.points
            if (p.point.label, p.point.dataset.name) == ("ngram γ=2", "code")
            for r in folder.point(p).records()
        ]
        for folder in (measured, again)
    ]
    assert counts[0] == counts[1] and len(counts[0]) == 3
