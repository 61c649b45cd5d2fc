"""The groups that run elsewhere, one row each."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table

from sweeper.values import Event

_COLUMNS = ("group", "job", "node", "state", "points", "now")


def job_table(rows: Iterable[Event]) -> Table:
    """Live view of the last ``job`` event of every group."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in _COLUMNS:
        table.add_column(name, justify="right" if name == "points" else "left")
    for row in rows:
        now = " ".join(filter(None, (_point(row), row.doing)))
        table.add_row(
            row.server, row.job, row.node, row.text, f"{row.done}/{row.total}", now,
            style="dim" if row.text == "ended" else "",
        )  # fmt: skip
    return table


def job_line(row: Event) -> str:
    """``ngram γ=4 on own: job 12_3 running on n1``."""
    where = f" on {row.node}" if row.node else ""
    why = f" ({row.doing})" if row.text == "pending" and row.doing else ""
    job = row.job if row.job.startswith("worker") else f"job {row.job}"
    return f"{row.server}: {job} {row.text}{where}{why}"


def _point(row: Event) -> str:
    return "" if row.point is None else f"point {row.point}"
