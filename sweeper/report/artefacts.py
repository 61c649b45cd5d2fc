"""The files that go with a sweep and with each of its points to a tracker."""

from __future__ import annotations

from pathlib import Path

from sweeper.judge.compare import Comparison
from sweeper.store import SweepFolder


def sweep_files(folder: SweepFolder) -> tuple[Path, ...]:
    """Those there are of the plan, the report and the tables."""
    return _there(
        folder.page,
        folder.report / "report.md",
        folder.report / "recommended.json",
        folder.sweep,
        folder.points_csv,
        folder.points_parquet,
        folder.requests_parquet,
    )


def point_files(folder: SweepFolder, one: Comparison) -> tuple[Path, ...]:
    """Those there are of a point, its server's log and its traces among them."""
    files = folder.point(one.planned)
    return _there(
        files.config,
        files.result,
        files.requests_parquet,
        files.counters,
        files.series,
        files.profile,
        *sorted(files.traces.glob("*")),
        *_server_log(folder, one),
    )


def _server_log(folder: SweepFolder, one: Comparison) -> tuple[Path, ...]:
    name = one.result.server_folder if one.result else ""
    return (folder.path / "servers" / Path(name).name / "server.log",) if name else ()


def _there(*paths: Path) -> tuple[Path, ...]:
    return tuple(path for path in paths if path.is_file())
