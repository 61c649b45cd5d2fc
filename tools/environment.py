"""The folder ``.venv`` of a checkout: its Python, its pip, and the record of a finished set-up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.needs import CHECKED, explain


class SetupError(Exception):
    """What went wrong and what to do about it, ready to print."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What ``.venv/sweeper-setup.json`` says; ``left_out`` maps a part (suffix) to the reason."""

    stamp: str
    extra: str
    left_out: dict[str, str]


@contextmanager
def step(what: str) -> Iterator[None]:
    """Say on stderr what is being done and how many seconds it took."""
    print(f"  {what} ...", end=" ", file=sys.stderr, flush=True)
    start = time.perf_counter()
    try:
        yield
    except BaseException:
        print("failed", file=sys.stderr)
        raise
    print(f"{time.perf_counter() - start:.1f} s", file=sys.stderr)


class Environment:
    """``.venv`` below ``root``, whether it is there, half there or not."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / ".venv"
        self.python = self.folder / "bin" / "python"
        self.log = self.folder / "sweeper-setup.log"
        self.record_file = self.folder / "sweeper-setup.json"

    def record(self) -> Record | None:
        """Of the last set-up that came to its end."""
        try:
            return Record(**json.loads(self.record_file.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def write(self, record: Record) -> None:
        """At once or not at all."""
        part = self.record_file.with_suffix(".part")
        part.write_text(json.dumps(asdict(record), indent=2) + "\n", encoding="utf-8")
        part.replace(self.record_file)

    def run(self, *arguments: str, **variables: str) -> tuple[int, str]:
        """Exit status and output of this environment's Python, run in ``root``."""
        try:
            done = subprocess.run(
                [str(self.python), *arguments],
                cwd=self.root,
                env={**os.environ, **variables},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                check=False,
            )
        except OSError as error:  # the Python that it was made from is gone
            return 127, str(error)
        return done.returncode, done.stdout

    def try_pip(self, *arguments: str, **variables: str) -> tuple[int, str]:
        status, output = self.run("-m", "pip", *arguments, **variables)
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"$ pip {' '.join(arguments)}\n{output}\n")
        return status, output

    def pip(self, *arguments: str, **variables: str) -> None:
        status, output = self.try_pip(*arguments, **variables)
        if status:
            raise SetupError(explain(output))

    def usable(self) -> bool:
        """Its Python starts, has pip, and is of the version that runs this."""
        expected = f"{sys.version_info[0]} {sys.version_info[1]}"
        if not os.access(self.python, os.X_OK):
            return False
        status, output = self.run("-c", "import pip, sys; print(*sys.version_info[:2])")
        return status == 0 and output.strip() == expected

    def lacks(self) -> list[str]:
        """Which of the packages that matter are not there; looks for them, imports none."""
        if not os.access(self.python, os.X_OK):
            return list(CHECKED)
        code = "import sys; from importlib.util import find_spec; print(*filter(lambda name: "
        status, output = self.run(
            "-I", "-c", f"{code}not find_spec(name), sys.argv[1:]))", *CHECKED
        )
        return output.split() if status == 0 else list(CHECKED)
