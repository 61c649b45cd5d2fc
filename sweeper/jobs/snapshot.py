"""The program as it was when a job was submitted: a copy that jobs run, and its digest."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import sweeper
from sweeper.errors import StoreError

PACKAGES = ("sweeper", "launchers")


def code_root() -> Path:
    """The folder of the packages that run now."""
    return Path(sweeper.__file__).resolve().parents[1]


def code_digest(root: Path | None = None) -> str:
    """First 16 hex digits of the SHA-256 of names and contents of every file of the program."""
    top = root or code_root()
    digest = hashlib.sha256()
    for path in _files(top):
        digest.update(f"{path.relative_to(top)}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def copy_code(target: Path) -> str:
    """Copy the program into ``target`` in place of what is there; returns its digest."""
    root = code_root()
    shutil.rmtree(target, ignore_errors=True)
    for path in _files(root):
        copy = target / path.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy)
    return code_digest(target)


def check_code(expected: str) -> None:
    """Is what runs here what was submitted?

    :raises StoreError: when it is not.
    """
    found = code_digest()
    if found != expected:
        raise StoreError(
            f"the program in {code_root()} is not the one that was submitted "
            f"(digest {found}, submitted {expected}); submit again"
        )


def _files(root: Path) -> list[Path]:
    found = (p for name in PACKAGES for p in (root / name).rglob("*") if p.is_file())
    return sorted(p for p in found if "__pycache__" not in p.parts and p.suffix != ".pyc")
