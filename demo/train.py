"""Everything from scratch: prompts, the target's answers, draft, head, packed weights, folders.

    python -m demo.train          # about an hour on two cores, one thread each for draft and head

Intermediate results are kept under ``<cache>/train``; a finished stage is not repeated. Remove that
folder to begin again.
"""

from __future__ import annotations

import subprocess
import sys

from demo.build import build_all
from demo.cache import cache_dir
from demo.command import no_arguments


def main() -> None:
    stage("demo.teacher")
    both = [subprocess.Popen(command(module)) for module in ("demo.draft", "demo.eagle3")]
    failed = [process.wait() for process in both]  # of both, before judging either
    if any(failed):
        raise SystemExit(f"training stopped; intermediate results are in {cache_dir() / 'train'}")
    stage("demo.pack")
    build_all()


def stage(module: str) -> None:
    if subprocess.run(command(module), check=False).returncode:
        raise SystemExit(f"python -m {module} failed; its message is above")


def command(module: str) -> list[str]:
    return [sys.executable, "-m", module]


if __name__ == "__main__":
    no_arguments(__doc__)
    main()
