"""A sweep made up for the benchmark is one of ours, and it can be judged."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.judge import write
from sweeper.judge.bootstrap import drawn_sums
from sweeper.judge.judgement import judge


def test_the_made_up_sweep_is_read_whole_and_judged(tmp_path: Path) -> None:
    folder = write(tmp_path, count=12, requests=20)
    found = judge(folder)
    assert [c.status for c in found.comparisons] == ["completed"] * 12
    assert [c.point.is_baseline for c in found.comparisons] == [True] + [False] * 11
    assert all(len(list(folder.point(c.planned).each_record())) == 20 for c in found.comparisons)
    (workload,) = found.workloads
    assert workload.verdict is not None and len(workload.words) == 11
    assert all(c.speedup.low is not None and len(c.slices) >= 4 for c in workload.candidates)
    checked = [c.acceptance for c in workload.candidates]
    assert sum(a.checked for a in checked) == 11 * 20 and not sum(a.violations for a in checked)


def test_equal_columns_are_drawn_once_and_come_out_alike() -> None:
    one = np.random.default_rng(1).random((30, 2))
    drawn = drawn_sums(np.column_stack([one[:, 0], one[:, 1], one[:, 0]]), seed=3)
    assert drawn.shape == (3, 2000)
    assert (drawn[0] == drawn[2]).all()
    assert np.allclose(drawn[:2], drawn_sums(one, seed=3))
