"""Judging by several processes says what one says, and the benchmark measures it."""

from __future__ import annotations

from pathlib import Path

from benchmarks.judge import judge, write
from sweeper.judge.bootstrap import one_thread
from sweeper.judge.compare import Share, compared
from sweeper.judge.shared import LARGE, shared_out
from sweeper.report.columns import row
from sweeper.store import read_sweep
from sweeper.values import Slo


def test_several_processes_say_the_same_to_the_last_digit(tmp_path: Path) -> None:
    folder = write(tmp_path, count=7, requests=40)
    base, *others = read_sweep(folder).plan.points
    shares = [
        Share(folder=folder, baseline=base, points=tuple(part), seed=0, slo=Slo(), missing="none")
        for part in (others[:2], others[2:4], others[4:])
    ]
    several = shared_out(compared, shares, size=LARGE)
    with one_thread():
        alone = [compared(share) for share in reversed(shares)][::-1]
    assert [[c.number for c in made] for made in several] == [[1, 2], [3, 4], [5, 6]]
    rows = [[row(c) for made in all_of_them for c in made] for all_of_them in (several, alone)]
    assert rows[0] == rows[1]
    assert all(cells["speedup_low"] is not None for cells in rows[0])


def test_the_benchmark_runs_the_command_and_watches_it(tmp_path: Path) -> None:
    took = judge(write(tmp_path, count=4, requests=30))
    assert took.verdicts == 1
    assert 0 < took.gigabytes < 1 and took.seconds > 0
    assert (tmp_path / "report" / "recommended.json").exists()
