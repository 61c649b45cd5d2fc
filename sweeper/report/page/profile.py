"""Where a step's time goes, drawn: one bar a point."""

from __future__ import annotations

from collections.abc import Iterator

from sweeper.report.columns import STEP_SHARES
from sweeper.report.labels import Group, labels
from sweeper.report.page.drawing import Drawing
from sweeper.report.page.svg import COLOURS, axes

_WORDS = ("draft", "verify", "sampling", "rest")


def step_drawing(group: Group) -> Iterator[Drawing]:
    """Nothing where no profile was taken."""
    shown = [c for c in group if c.profile.step_ms is not None]
    if not shown:
        return
    names = labels(group)
    figure, ax = axes()
    left = [0.0] * len(shown)
    for word, share, colour in zip(_WORDS, STEP_SHARES.values(), COLOURS, strict=False):
        wide = [100 * (share(c.profile).value or 0.0) for c in shown]
        ax.barh(range(len(shown)), wide, left=left, color=colour, label=word, height=0.6, zorder=2)
        left = [a + b for a, b in zip(left, wide, strict=True)]
    ax.set_yticks(range(len(shown)), [names[c.number] for c in shown], fontsize=7)
    ax.invert_yaxis()
    ax.set(xlabel="% of a decode step", xlim=(0, 100))
    figure.subplots_adjust(left=0.3, top=0.88)
    ax.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.4, 1.0))
    yield Drawing(
        name="profile",
        title="Where a step's time goes",
        caption="Decode steps of a few requests, on a server of their own that records them: read "
        "shares, not times. Verify is the target's forward pass and its logits.",
        figure=figure,
    )
