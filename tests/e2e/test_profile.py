"""``profile=torch`` asked of a whole sweep: the timed servers know nothing of it."""

from __future__ import annotations

from pathlib import Path

from sweeper import store
from sweeper.judge.compare import compare
from tests.e2e.running import command, engines, interrupted, only_sweep, run

SMALL = ("method=ngram", "dataset=chat", "dataset.limit=3", "preflight=false", "check=none")


def test_every_point_is_split_on_a_server_of_its_own(tmp_path: Path) -> None:
    done = run(command(*SMALL, "profile=torch", "profile.requests=2", outputs=tmp_path))
    assert done.status == 0, done.out + done.err
    assert "profile of ngram γ=4 chat greedy: 23 decode steps of a trace split" in done.out
    assert "where a step's time goes" in done.out
    folder = only_sweep(tmp_path)
    for one in compare(folder):
        home = folder.point(one.planned)
        found = home.read_profile()
        assert found is not None and found.problem == ""
        assert [path.name for path in home.traces.iterdir()] == list(found.traces)
        parts = (one.profile.draft, one.profile.verify, one.profile.sample, one.profile.rest)
        assert round(sum(p.value or 0.0 for p in parts), 9) == 1.0
        assert one.result is not None and one.result.requests == 3
        timed = folder.path / "servers" / one.result.server_folder / "server.json"
        assert "profiler" not in str(store.read_json(timed))
    logs = [p.read_text() for p in folder.path.glob("servers/profile-*/server.log")]
    assert len(logs) == 2 and all("VLLM_CUSTOM" not in log for log in logs)
    assert "### where a step's time goes" in (folder.report / "report.md").read_text()
    assert "Where a step&#39;s time goes" in folder.page.read_text()


def test_a_server_without_a_profiler_fails_no_point(tmp_path: Path) -> None:
    faults = {"no_profiler": True, "when_gamma": 4}
    done = run(command(*SMALL, "profile=torch", outputs=tmp_path), faults=faults)
    assert done.status == 0, done.out + done.err
    base, drafting = compare(only_sweep(tmp_path))
    assert base.profile.problem == ""
    assert drafting.status == "completed"
    why = "not profiled: the server exited with status 2 before it was ready"
    assert drafting.profile.problem.startswith(why)
    assert f"ngram γ=4: a step's time is {why}" in " ".join(done.out.split())


def test_ctrl_c_does_not_wait_for_a_trace(tmp_path: Path) -> None:
    argv = command(*SMALL, "profile=torch", "baseline=off", "tracker=none", outputs=tmp_path)
    logs = "out/*/*/servers/profile-*/server.log"
    done = interrupted(
        argv,
        lambda: any("has begun" in path.read_text() for path in tmp_path.glob(logs)),
        {"profiled_for_ever": True},
    )
    assert done.status == 130, done.out
    assert engines(tmp_path) == []
    (one,) = compare(only_sweep(tmp_path))
    assert one.status == "completed"
