"""Where a step's time goes, as a small table."""

from __future__ import annotations

from collections.abc import Iterator

from sweeper.judge.bootstrap import Figure
from sweeper.report.labels import NOT_MEASURED, Group, labels
from sweeper.report.slices import SliceTable, slice_tables

KEY = (
    "shares of the decode steps of a few requests on a server of their own that records them; "
    "verify is the target's forward pass and logits; read shares, recording makes steps longer"
)
HEADER = ("", "steps", "draft", "verify", "sampling", "rest", "ms a step, recorded", "time of")


def small_tables(group: Group, *, intervals: bool) -> Iterator[SliceTable]:
    """All tables under that of a group's points."""
    yield from slice_tables(group, intervals=intervals)
    yield from _step_table(group)


def _step_table(group: Group) -> Iterator[SliceTable]:
    names = labels(group)
    rows = tuple(
        (
            names[one.number],
            str(one.profile.steps),
            *(_share(getattr(one.profile, part)) for part in ("draft", "verify", "sample", "rest")),
            f"{one.profile.step_ms:.1f}",
            one.profile.device,
        )
        for one in group
        if one.profile.step_ms is not None
    )
    if rows:
        yield SliceTable(title="where a step's time goes", rows=(HEADER, *rows), key=KEY)


def _share(figure: Figure) -> str:
    if figure.value is None:
        return "-" if figure.reason == "no speculation" else NOT_MEASURED
    return f"{100 * figure.value:.1f} %"
