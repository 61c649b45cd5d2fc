"""Work-arounds for engine defects as vLLM plugins: put before a server's Python, and proven."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from sweeper.errors import ServerError
from sweeper.values import ServerSpec

_SOURCES = Path(__file__).resolve().parent.parent / "workarounds"
_METADATA = "Metadata-Version: 2.1\nName: sweeper-workarounds\nVersion: 0\n"


def install(spec: ServerSpec, folder: Path) -> Path | None:
    """Write the plugins ``spec`` asks for below ``folder``; the path to put on PYTHONPATH.

    The folder holds a copy of each module and the entry points that name it, so it works in a
    Python that does not have sweeper, and shows afterwards what ran. ``None`` when none is asked.
    """
    if not spec.workarounds:
        return None
    home = folder / "plugins"
    about = home / "sweeper_workarounds-0.dist-info"
    about.mkdir(parents=True, exist_ok=True)
    lines = ["[vllm.general_plugins]"]
    for name in spec.workarounds:
        module = name.replace("-", "_")
        shutil.copy(_SOURCES / f"{module}.py", home)
        lines.append(f"{name} = {module}:register")
    (about / "METADATA").write_text(_METADATA)
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return home.resolve()


def with_plugins(env: Mapping[str, str], spec: ServerSpec, home: Path | None) -> dict[str, str]:
    """``env`` with the plugins first on PYTHONPATH, and on the user's own list of plugins."""
    if home is None:
        return dict(env)
    path = ":".join(item for item in (str(home), env.get("PYTHONPATH", "")) if item)
    added = {"PYTHONPATH": path}
    if "VLLM_PLUGINS" in env:
        added["VLLM_PLUGINS"] = ",".join([env["VLLM_PLUGINS"], *spec.workarounds]).lstrip(",")
    return dict(env) | added


def check_in_force(spec: ServerSpec, log: str) -> None:
    """Each plugin says in the server's log that it has done its work.

    :raises ServerError: when one has not; the point would be measured with the defect.
    """
    missing = [n for n in spec.workarounds if f"sweeper: work-around {n} in force" not in log]
    if missing:
        raise ServerError(
            f"server.workarounds: {', '.join(missing)}: not in force, so this server would "
            f"measure with the defect; is PYTHONPATH kept by server.command, without -I or -E?"
        )
