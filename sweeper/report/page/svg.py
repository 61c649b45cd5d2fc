"""A matplotlib figure as markup that follows the page's colours, and as a PNG file.

Text and lines are drawn in the colours of :data:`THEME`, which the markup replaces by variables
of the page's style sheet, so one drawing serves light, dark and paper.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any

from sweeper.values import BASELINE

INK, LINE, SOFT = "#1b1f24", "#d3d7dc", "#6b7280"
THEME = {INK: "var(--ink)", LINE: "var(--line)", SOFT: "var(--soft)"}
COLOURS = ("#3b7dd8", "#d9730d", "#2a9d6f", "#9b5fc0", "#d1495b", "#0f9aa8", "#a98600", "#6d7fa8")
"""Of methods, in order of appearance; readable on white and on black."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
SIZE = (4.6, 3.2)
"""Inches; the margins are fixed, as fitting them takes longer than drawing."""
_LINK = re.compile(r'<a xlink:href="#point-(\d+)"[^>]*>')
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "sweeper",
    "font.size": 9,
    "axes.edgecolor": LINE,
    "axes.labelcolor": INK,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.5,
    "lines.markersize": 5,
    "figure.subplot.left": 0.125,
    "figure.subplot.right": 0.975,
    "figure.subplot.bottom": 0.14,
    "figure.subplot.top": 0.97,
}


@contextmanager
def style() -> Iterator[None]:
    """Everything drawn inside looks alike, and the user's own matplotlib settings do not count."""
    import matplotlib  # takes a second to import

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


def axes() -> tuple[Any, Any]:
    """A figure with one pair of axes; no window and no global state."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE)
    return figure, figure.subplots()


def panels(count: int) -> tuple[Any, list[Any]]:
    """A figure with axes below each other over the same x."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE)
    return figure, list(figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0])


def legend(figure: Any, ax: Any) -> None:
    """Above the axes, where it hides nothing."""
    handles, names = ax.get_legend_handles_labels()
    columns = 4 if max(map(len, names)) < 12 else 3
    rows = -(-len(names) // columns)
    figure.subplots_adjust(top=0.97 - 0.055 * rows)
    ax.legend(
        handles, names, loc="lower left", bbox_to_anchor=(-0.1, 1.0), ncols=columns,
        borderaxespad=0.2, columnspacing=1.2, handletextpad=0.3, handlelength=1.2,
    )  # fmt: skip


def beside(ax: Any, text: str, x: float, y: float) -> None:
    """A small number at the upper right of a marker."""
    ax.annotate(text, (x, y), (5, 3), textcoords="offset points", fontsize=7, color=SOFT)


def save(figure: Any, path: Path) -> None:
    """The PNG, for slides and mail."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, facecolor="white", metadata={"Software": None})


def markup(figure: Any, label: str, titles: Mapping[int, str]) -> str:
    """Inline SVG; links to points get ``titles`` to be pointed at, ``label`` is read aloud."""
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    for colour, variable in THEME.items():
        text = text.replace(colour, variable)
    text = _LINK.sub(lambda m: _titled(m, titles), text)
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', text)
    box = size.group(0) if size else ""
    head = f'<svg {box} role="group" aria-label="{escape(label)}">'
    return re.sub(r"<svg[^>]*>", lambda _: head, text, count=1)


def _titled(match: re.Match[str], titles: Mapping[int, str]) -> str:
    number = int(match.group(1))
    title = escape(titles.get(number, f"point {number}"))
    return f'<a href="#point-{number}"><title>{title}</title>'


def styles(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Colour and marker by name, told apart without colour too; the baseline is grey."""
    drawn = [name for name in dict.fromkeys(names) if name != BASELINE]
    found = {
        name: (COLOURS[n % len(COLOURS)], MARKERS[n % len(MARKERS)]) for n, name in enumerate(drawn)
    }
    return found | {BASELINE: (SOFT, "x")}
