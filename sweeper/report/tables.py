"""The comparison as ``points.csv``, ``points.parquet`` and ``report/report.md``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pandas as pd

from sweeper.errors import StoreError
from sweeper.judge.compare import Comparison
from sweeper.judge.judgement import Judgement
from sweeper.judge.words import recommended
from sweeper.report.columns import columns, positions, row
from sweeper.report.markdown import markdown
from sweeper.report.terminal import print_table
from sweeper.store import SweepFolder, write_json, write_text

__all__ = ["points_table", "print_table", "write_tables"]


def points_table(
    comparisons: Sequence[Comparison], words: Mapping[int, str] = MappingProxyType({})
) -> pd.DataFrame:
    """One row a point, in order; fixed columns, undefined cells are missing values. ``words`` are
    the verdicts by point number."""
    types = columns(positions(comparisons))
    rows = [row(one, words.get(one.number)) for one in comparisons]
    return pd.DataFrame(
        {name: pd.Series([r.get(name) for r in rows], dtype=kind) for name, kind in types.items()}
    )


def write_tables(folder: SweepFolder, judgement: Judgement) -> None:
    """Write all four files; each is replaced as a whole or not at all."""
    table = points_table(judgement.comparisons, judgement.words)
    try:
        write_text(folder.points_csv, table.to_csv(index=False, lineterminator="\n"))
        _write_parquet(folder, table)
        write_text(folder.report / "report.md", markdown(judgement))
        write_json(folder.report / "recommended.json", recommended(judgement))
    except OSError as problem:
        raise StoreError(f"{folder.path}: cannot write the tables: {problem}") from None


def _write_parquet(folder: SweepFolder, table: pd.DataFrame) -> None:
    path = folder.points_parquet
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    table.to_parquet(temporary, index=False)
    temporary.replace(path)
