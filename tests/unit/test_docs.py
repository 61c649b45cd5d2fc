"""Links in the pages lead somewhere; the site's builder would refuse them later, in CI."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from sweeper.commands import NAMES
from tools.reference import PAGE

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")


@pytest.mark.parametrize(
    "page", sorted(DOCS.rglob("*.md")), ids=lambda path: path.relative_to(DOCS).as_posix()
)
def test_links_stay_within_the_site(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        found = (page.parent / target).resolve()
        assert found.is_relative_to(DOCS), f"{target}: name files outside docs/ without a link"
        assert found.exists() or found == DOCS / PAGE, f"{target} is not there"


def _pages(nav: object) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    items = nav.values() if isinstance(nav, dict) else nav
    assert hasattr(items, "__iter__")
    return [page for item in items for page in _pages(item)]


def test_the_table_of_contents_names_pages_that_are_there() -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    missing = [p for p in _pages(nav) if not (DOCS / p).is_file() and p != PAGE]
    assert missing == []


def test_commands_in_the_pages_exist() -> None:
    for page in [ROOT / "README.md", *DOCS.rglob("*.md")]:
        text = page.read_text(encoding="utf-8")
        for name in re.findall(r"python -m sweeper\.([a-z]+)", text):
            assert name in NAMES, f"{page.name}: python -m sweeper.{name}"
