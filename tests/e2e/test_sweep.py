"""A whole sweep against the fake engine: files, counts, faults, interruptions."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import psutil
import pytest

from sweeper.serve.process import is_listening
from sweeper.store import SweepFolder
from tests.e2e.running import (
    BEFORE_A_POINT,
    ENGINE,
    ROOT,
    command,
    engines,
    environment,
    interrupted,
    only_sweep,
    own_port,
    read,
    records,
    run,
    served,
    wait_until,
)

SWEEP = ("method=ngram,suffix", "gamma=2,4", "dataset=code,chat", "dataset.limit=3")


def test_one_start_serves_many_points(tmp_path: Path) -> None:
    done = run(command(*SWEEP, outputs=tmp_path))
    assert done.status == 0, done.out + done.err
    folder = only_sweep(tmp_path)
    sweep, results = read(folder)
    assert [results[p.number].status for p in sweep.plan.points] == ["completed"] * 10
    # methods × γ + 1 starts, counted where they happened: in the servers' own logs
    logs = sorted(folder.path.glob("servers/*/server.log"))
    assert len(logs) == 2 * 2 + 1
    assert sum(log.read_text().count("non-default args") for log in logs) == 5
    assert len(records(folder)) == 10 * 3
    assert "10/10" in done.out and "8 jobs, 10 points, 5 servers" in done.out
    assert engines(tmp_path) == []


def test_every_server_has_its_own_baseline_right_before_it(tmp_path: Path) -> None:
    asked = ("baseline=per_group", "preflight=false")
    argv = command("method=ngram", "gamma=2,4", "dataset.limit=2", *asked, outputs=tmp_path)
    done = run(argv)
    assert done.status == 0, done.out + done.err
    assert "2 jobs, 4 points, 4 servers" in done.out
    folder = only_sweep(tmp_path)
    sweep, results = read(folder)
    assert [(p.point.label, p.baseline) for p in sweep.plan.points] == [
        ("none", None),
        ("ngram γ=2", 0),
        ("none", None),
        ("ngram γ=4", 2),
    ]
    ran = [results[n].server_folder for n in range(4)]
    assert ran[2] == ran[0].replace("-1", "-2")  # started again
    logs = [folder.path / "servers" / name / "server.log" for name in ran]
    ends = [log.stat().st_mtime for log in logs]
    assert ends == sorted(ends)
    table = pd.read_csv(folder.points_csv)
    assert table["baseline"].dropna().tolist() == [0, 2]
    assert table["speedup"].notna().tolist() == [False, True, False, True]


def test_every_promised_file_is_there(tmp_path: Path) -> None:
    done = run(command("method=ngram", "dataset.limit=2", "tracker=mlflow", outputs=tmp_path))
    assert done.status == 0, done.out + done.err
    folder = only_sweep(tmp_path)
    for point in folder.path.glob("points/*"):
        names = {path.name for path in point.iterdir()} - {"scores.json"}  # of the baseline
        assert names == {
            "config.yaml",
            "requests.jsonl",
            "counters.json",
            "result.json",
            "point.log",
            "requests.parquet",
            "series.jsonl",
        }
    for server in folder.path.glob("servers/*"):
        assert {path.name for path in server.iterdir()} == {"server.log", "server.json"}
        facts = json.loads((server / "server.json").read_text())
        assert facts["start_s"] > 0 and facts["stop_s"] > 0 and facts["end"]["left"] == []
    assert (folder.path / "report" / "report.md").is_file()
    table = pd.read_csv(folder.points_csv)
    assert list(table["method"]) == ["none", "ngram"]
    assert len(pd.read_parquet(folder.points_parquet)) == 2
    assert (tmp_path / "out" / "mlflow.db").is_file()


def test_the_same_sweep_twice_gives_the_same_greedy_counts(tmp_path: Path) -> None:
    argv = command("method=ngram", "gamma=4", "dataset.limit=4", outputs=tmp_path)
    assert run(argv).status == run(argv).status == 0
    one, other = (
        [(r.prompt_id, r.completion_tokens, r.token_ids, r.spec) for r in records(SweepFolder(f))]
        for f in (path.parent for path in tmp_path.glob("out/*/*/sweep.json"))
    )
    assert one == other and len(one) == 8


def test_a_server_that_exits_fails_its_own_points_only(tmp_path: Path) -> None:
    faults = {"when_gamma": 4, "exit_at_start": {"code": 1, "message": "ValueError: no such thing"}}
    done = run(
        command("method=ngram", "gamma=2,4", "dataset.limit=2", outputs=tmp_path), faults=faults
    )
    assert done.status == 1
    _, results = read(only_sweep(tmp_path))
    assert [results[n].status for n in sorted(results)] == ["completed", "completed", "failed"]
    assert "the server exited with status 1 before it was ready" in results[2].reason
    assert "ValueError: no such thing" in results[2].reason
    assert "ValueError: no such thing" in done.out


def test_a_server_that_dies_keeps_what_was_measured(tmp_path: Path) -> None:
    faults = {"when_gamma": 4, "die_after_requests": BEFORE_A_POINT + 3}
    done = run(
        command(
            "method=ngram", "gamma=4", "dataset=code,chat", "dataset.limit=6", outputs=tmp_path
        ),
        faults=faults,
    )
    assert done.status == 1
    folder = only_sweep(tmp_path)
    sweep, results = read(folder)
    broken = [p for p in sweep.plan.points if results[p.number].status == "failed"]
    assert [p.point.label for p in broken] == ["ngram γ=4", "ngram γ=4"]
    kept = [r for r in folder.point(broken[0]).records() if not r.error]
    assert 1 <= len(kept) < 6
    assert "while it was serving" in results[broken[0].number].reason
    assert engines(tmp_path) == []


def test_a_difference_between_asked_and_resolved_fails_the_point(tmp_path: Path) -> None:
    done = run(
        command("method=ngram", "gamma=4", "dataset.limit=2", outputs=tmp_path),
        faults={"when_gamma": 4, "wrong_gamma": 3},
    )
    assert done.status == 1
    _, results = read(only_sweep(tmp_path))
    assert results[1].reason == (
        "the server resolved other settings: num_speculative_tokens: asked 4, server has 3"
    )


def test_a_server_that_never_gets_ready(tmp_path: Path) -> None:
    """It does not hear TERM either, as vLLM while it starts: its end is not waited for."""
    short, long = "server.start_timeout_s=2.0", "server.stop_timeout_s=1000.0"
    done = run(
        command("method=none", "dataset.limit=1", short, long, outputs=tmp_path),
        faults={"never_ready": True, "ignore_sigterm": True},
    )
    assert done.status == 1
    assert "the server was not ready after 2 s (server.start_timeout_s)" in done.out
    assert engines(tmp_path) == []


def test_child_death_is_noticed_at_once(tmp_path: Path) -> None:
    argv = command(
        "method=none", "dataset.limit=1", "server.start_timeout_s=600.0", outputs=tmp_path
    )
    done = run(argv, faults={"exit_at_start": {"code": 3, "after_s": 0.5}})
    assert done.status == 1
    assert "the server exited with status 3 before it was ready" in done.out


def test_nothing_of_a_stubborn_server_is_left(tmp_path: Path) -> None:
    done = run(
        command("method=none", "dataset.limit=1", "server.stop_timeout_s=1.0", outputs=tmp_path),
        faults={"ignore_sigterm": True, "spawn_child": True},
    )
    assert done.status == 0, done.out
    (info,) = only_sweep(tmp_path).path.glob("servers/*/server.json")
    end = json.loads(info.read_text())["end"]
    assert end["forced"] is True and end["left"] == []
    assert any("sleep" in one for one in end["killed"])
    assert engines(tmp_path) == []


IN_THE_MIDDLE: dict[str, object] = {"hang_after_requests": BEFORE_A_POINT + 3}
"""The first server is silent after three requests of its first point."""


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("stubborn", [False, True])  # vLLM ignores TERM while it starts
def test_a_killed_sweep_leaves_files_and_no_server(
    tmp_path: Path, signum: int, stubborn: bool
) -> None:
    argv = command("method=ngram", "gamma=4", "dataset.limit=5", outputs=tmp_path)
    faults = IN_THE_MIDDLE | {"spawn_child": True, "ignore_sigterm": stubborn}
    with subprocess.Popen(
        argv, env=environment(faults), cwd=ROOT, stdout=subprocess.PIPE
    ) as process:
        assert wait_until(lambda: _lines(tmp_path) == 3)
        children = [c.pid for c in psutil.Process(process.pid).children(recursive=True)]
        process.send_signal(signum)
        process.wait()
    assert children
    assert wait_until(lambda: not any(_alive(pid) for pid in children))
    assert engines(tmp_path) == []
    folder = only_sweep(tmp_path)
    assert len(records(folder)) >= 3  # a half-written last line would be left out
    again = run([a for a in argv if not a.startswith("dataset.limit")] + ["dataset.limit=1"])
    assert again.status == 0


def test_ctrl_c_stops_servers_and_reports_what_is_there(tmp_path: Path) -> None:
    argv = command("method=ngram", "gamma=4", "dataset.limit=5", outputs=tmp_path)
    done = interrupted(argv, lambda: _lines(tmp_path) == 3, IN_THE_MIDDLE)
    assert done.status == 130
    assert "interrupted; servers are stopped, finished points are kept" in done.out
    _, results = read(only_sweep(tmp_path))
    assert results[0].status == "preempted"
    assert engines(tmp_path) == []


def test_two_sweeps_at_once_do_not_meet(tmp_path: Path) -> None:
    argv = command("method=ngram", "dataset.limit=2", outputs=tmp_path)
    both = [
        subprocess.Popen(argv, env=environment(), cwd=ROOT, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    for process in both:
        process.communicate(timeout=120)
    assert [process.returncode for process in both] == [0, 0]
    assert len(list(tmp_path.glob("out/*/*/sweep.json"))) == 2


def test_one_point_without_multirun(tmp_path: Path) -> None:
    done = run(
        command("method=ngram", "gamma=4", "dataset.limit=2", outputs=tmp_path, multirun=False)
    )
    assert done.status == 0, done.out + done.err
    assert "1 jobs, 2 points, 2 servers" in done.out
    sweep, results = read(only_sweep(tmp_path))
    assert {p.point.label for p in sweep.plan.points} == {"none", "ngram γ=4"}
    assert all(result.status == "completed" for result in results.values())


def test_attach_to_a_running_server(tmp_path: Path) -> None:
    engine = [sys.executable, str(ENGINE), "--model", "m", "--served-model-name", "mine"]
    with served(engine, environment()) as (server, url):
        argv = command(
            "server=external",
            f"server.base_url={url}",
            "method=none",
            "dataset.limit=2",
            outputs=tmp_path,
        )
        argv = [a for a in argv if not a.startswith("server.command")]
        assert run(argv).status == 0
        assert server.poll() is None  # it is not ours to stop
        other = run([*argv, "method=ngram", "gamma=2"])
        assert other.status == 1
        assert "speculation was asked for, but the server" in other.out


def test_a_squatter_on_the_port_is_named(tmp_path: Path) -> None:
    squatter = [sys.executable, str(ROOT / "tests/fakes/squatter.py")]
    with (
        own_port() as port,
        subprocess.Popen([*squatter, str(port)], stdout=subprocess.DEVNULL) as process,
    ):
        try:
            assert wait_until(lambda: is_listening(port))
            argv = command(
                "method=none", "dataset.limit=1", f"server.port={port}", outputs=tmp_path
            )
            assert "answered by something else" in run(argv).out
        finally:
            process.kill()


def _lines(outputs: Path) -> int:
    files = outputs.glob("out/*/*/points/*/requests.jsonl")
    return sum(len(path.read_text().splitlines()) for path in files)


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_the_second_point_finds_a_cold_cache(tmp_path: Path) -> None:
    """The same prompts under another ``max_tokens``: the same server, none of it cached."""
    argv = command(
        "method=none",
        "sampling.max_tokens=8,9",
        "dataset.limit=3",
        "load.warmup_requests=0",
        "+server.args.enable_prompt_tokens_details=true",
        outputs=tmp_path,
    )
    assert run(argv).status == 0
    sweep, results = read(only_sweep(tmp_path))
    assert len(sweep.plan.groups) == 1 and len(results) == 2
    for result in results.values():
        assert result.counters["change"]["cached_tokens"] == 0
        assert result.provenance["caches"]["prefix"] == "reset before every repeat"


def test_as_is_leaves_the_cache_to_the_next_point(tmp_path: Path) -> None:
    """Neither canary nor probes empty it: the second point finds the prompts of the first."""
    argv = command(
        *("method=none", "cache=as_is", "sampling.max_tokens=8,9", "dataset.limit=3"),
        *("load.warmup_requests=0", "+server.args.enable_prompt_tokens_details=true"),
        outputs=tmp_path,
    )
    done = run(argv)
    assert done.status == 0, done.err
    _, results = read(only_sweep(tmp_path))
    cached = sorted(r.counters["change"]["cached_tokens"] for r in results.values())
    assert cached[0] == 0 < cached[1]
    assert {r.provenance["caches"]["prefix"] for r in results.values()} == {"left as it was"}


def test_too_many_failed_requests_make_a_point_invalid(tmp_path: Path) -> None:
    argv = command("method=none", "dataset.limit=10", "load.warmup_requests=0", outputs=tmp_path)
    faults = {"http_503_share": 0.3, "http_503_after": 4}  # the start, the canary, two probes
    done = run(argv, faults=faults)
    assert done.status == 1
    _, results = read(only_sweep(tmp_path))
    assert results[0].status == "invalid"
    assert "requests failed (max_error_rate=0); first: HTTP 503" in results[0].reason
    assert run([*argv, "max_error_rate=0.5"], faults=faults).status == 0
