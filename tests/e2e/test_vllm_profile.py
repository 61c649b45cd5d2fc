"""``profile=torch`` on real servers: what drafts with a model spends time on it, lookup hardly any.

Run by hand: ``pytest -m long tests/e2e/test_vllm_profile.py -s`` prints the shares.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest

from sweeper import store
from sweeper.judge.compare import Comparison, compare
from sweeper.store import SweepFolder
from tests.e2e.running import only_sweep, run

pytestmark = [pytest.mark.vllm, pytest.mark.long, pytest.mark.timeout(2400)]


def shares(one: Comparison) -> dict[str, float]:
    found = {name: getattr(one.profile, name).value for name in ("verify", "sample", "rest")}
    found["draft"] = one.profile.draft.value or 0.0
    print(one.point.label, {name: f"{share:.3f}" for name, share in found.items()})
    return found


def seen(folder: SweepFolder) -> dict[str, dict[str, float]]:
    """Shares by method, after everything else was found to be as it should."""
    by_method = {}
    for one in compare(folder):
        assert one.completed and one.profile.problem == "" and one.profile.device == "CPU"
        assert one.profile.steps >= 10
        found = by_method[one.point.method] = shares(one)
        assert sum(found.values()) == pytest.approx(1.0)
        assert (one.profile.draft.reason == "no speculation") == one.point.is_baseline
        assert one.result is not None
        timed = folder.path / "servers" / one.result.server_folder / "server.json"
        assert "profiler_config" not in store.read_json(timed)["command"].replace("-", "_")
        (trace,) = folder.point(one.planned).traces.iterdir()
        names = {e["name"] for e in json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]}
        assert "gpu_model_runner: forward" in names and any(n.startswith("aten::") for n in names)
    return by_method


def test_steps_are_split_by_what_is_drafted_with(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "sweeper", "-m", f"output_dir={tmp_path}/out", "profile=torch"]
    argv += ["method=ngram,draft_model,eagle3", "gamma=4", "dataset=code", "dataset.limit=2"]
    argv += ["sampling.max_tokens=24", "check=none", "quality=none", "tracker=none"]
    done = run(argv, timeout=2300)
    assert done.status == 0, done.out + done.err
    assert "where a step's time goes" in done.out
    found = seen(only_sweep(tmp_path))
    assert found["ngram"]["draft"] < 0.05
    assert 0.02 < found["eagle3"]["draft"] < found["draft_model"]["draft"]
    assert all(one["verify"] > 0.3 for one in found.values())
