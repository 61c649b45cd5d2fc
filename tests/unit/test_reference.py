"""The configuration reference names every setting and every choice there is."""

from __future__ import annotations

from pathlib import Path

import yaml

from tools.reference import CONF, PAGE, on_files, reference


def test_every_top_level_setting_is_there_with_its_default_and_what_it_is() -> None:
    page = reference()
    settings = yaml.safe_load((CONF / "config.yaml").read_text())
    for name in settings.keys() - {"defaults", "hydra"}:
        assert any(line.startswith(f"| `{name}` |") for line in page.splitlines()), name
    assert "| `gamma` | `4` | draft tokens per step" in page


def test_every_choice_is_there_as_it_is_in_conf() -> None:
    page = reference()
    for path in CONF.rglob("*.yaml"):
        if path.name != "config.yaml":
            group = path.parent.relative_to(CONF).as_posix()
            assert f"### {group}={path.stem}\n\n```yaml\n{path.read_text().rstrip()}\n```" in page


def test_a_page_made_of_other_files_is_another(tmp_path: Path) -> None:
    (tmp_path / "load").mkdir()
    (tmp_path / "config.yaml").write_text("defaults: [load: a]\nnew: 1  # a | b\nhydra:\n  x: 1\n")
    (tmp_path / "load" / "a.yaml").write_text("name: a\n")
    page = reference(tmp_path)
    assert "| `new` | `1` | a \\| b |" in page
    assert "### load=a" in page and "hydra" not in page
    assert (PAGE, callable(on_files)) == ("configuration.md", True)
