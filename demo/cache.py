"""Where the demo's checkpoints are kept, and how a finished folder appears there at once."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TARGET = "smollm2-135m-instruct"
DRAFT = "smollm2-135m-draft"
# Not "eagle": vLLM guesses the method anew from such a word in a draft's path.
HEAD = "smollm2-135m-speculator-head"


def cache_dir() -> Path:
    """``$SWEEPER_CACHE``, or ``~/.cache/sweeper``."""
    return Path(os.environ.get("SWEEPER_CACHE") or Path.home() / ".cache" / "sweeper")


def checkpoint(name: str) -> Path | None:
    """The finished folder of that name, or ``None``; costs no import of torch."""
    folder = cache_dir() / name
    return folder if (folder / "config.json").is_file() else None


@contextmanager
def building(name: str) -> Iterator[Path]:
    """A folder to fill, renamed to its place when the block ends well.

    Two processes may build the same folder: the first one to finish wins, the other's work is
    thrown away. A folder that is half there is never seen under its name.
    """
    place = cache_dir() / name
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=place.parent) as temporary:
        folder = Path(temporary) / name
        folder.mkdir()
        yield folder
        if place.exists() and checkpoint(name) is None:
            shutil.rmtree(place)
        try:
            folder.rename(place)
        except OSError:
            if checkpoint(name) is None:
                raise
