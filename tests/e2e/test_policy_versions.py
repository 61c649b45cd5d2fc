"""A weight sync under a fixed draft, on real vLLM: the version at which it was left behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sweeper.rollout import RolloutLog, by_version


@pytest.mark.long
@pytest.mark.vllm
@pytest.mark.timeout(2400)
def test_a_draft_left_behind_by_the_policy_is_named_at_its_version(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "demo.policy", "--folder", str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr  # the alarm's exit status
    assert "version 1: acceptance 0.0" in done.stdout
    (log,) = tmp_path.glob("*/rollouts.jsonl")
    versions = by_version(RolloutLog(log).batches())
    assert [bool(one.collapsed) for one in versions] == [False, True, False]
