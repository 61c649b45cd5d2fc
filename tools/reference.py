"""The configuration reference, made from the yaml files of conf/; a hook of mkdocs, or a program.

python -m tools.reference > configuration.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = "configuration.md"
CONF = Path(__file__).resolve().parents[1] / "conf"
_HEAD = """\
# Configuration

Every setting, made from the files in `conf/` when these pages were built. `group=choice` takes a
file of a group, `name=value` overrides a value, a comma sweeps: `method=ngram,suffix gamma=2,4`.
Files of your own: `--config-dir my` with `my/<group>/<choice>.yaml`.
"""


def reference(conf: Path = CONF) -> str:
    """The page: what holds for a sweep as a table, then every group with its choices."""
    top = (conf / "config.yaml").read_text(encoding="utf-8")
    sections = [_HEAD, "## Of a sweep\n", *_table(top)]
    for folder in sorted(p for p in conf.rglob("*") if p.is_dir() and any(p.glob("*.yaml"))):
        group = folder.relative_to(conf).as_posix()
        sections.append(f"## {group}\n")
        for path in sorted(folder.glob("*.yaml")):
            text = path.read_text(encoding="utf-8").rstrip()
            sections.append(f"### {group}={path.stem}\n\n```yaml\n{text}\n```\n")
    return "\n".join(sections)


def _table(text: str) -> Iterator[str]:
    """Top-level values with the comment behind them; groups and Hydra's own part are elsewhere."""
    yield "| setting | default | |\n|---|---|---|"
    for line in text.splitlines():
        name, colon, rest = line.partition(":")
        if colon and name.isidentifier() and rest.strip() and not rest.strip().startswith("#"):
            value, _, comment = rest.partition(" #")
            yield f"| `{name}` | `{value.strip()}` | {_cell(comment.strip())} |"
    yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def on_files(files: Any, config: Any) -> Any:
    """mkdocs calls this before it builds: the page is there and is never an old one."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, PAGE, content=reference()))
    return files


if __name__ == "__main__":
    sys.stdout.write(reference())
