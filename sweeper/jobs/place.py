"""What a job has to itself on its node: a short folder, compile caches, a range of ports."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sweeper.jobs.snapshot import code_root

PORTS, PORTS_EACH = range(20000, 32000, 100), 100
"""Below the ports that outgoing connections use; vLLM counts upwards from ``VLLM_PORT``."""

_CACHES = {
    "VLLM_CACHE_ROOT": "vllm",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "triton",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
}


@contextlib.contextmanager
def own_place(temporary: str) -> Iterator[None]:
    """Variables that keep this process and its servers apart from every other job of the node.

    ``temporary`` must be short and local to the node: paths of Unix sockets end at 107 bytes, and
    compile caches on a shared file system are damaged by two writers. All of it is removed at the
    end. Servers inherit the variables; what a user sets in ``server.env`` wins there.
    """
    folder = Path(tempfile.mkdtemp(prefix="sweeper-", dir=temporary))
    before = dict(os.environ)
    with _ports(Path(temporary)) as first_port:
        os.environ |= {"TMPDIR": str(folder), "VLLM_PORT": str(first_port)}
        os.environ |= {name: str(folder / cache) for name, cache in _CACHES.items()}
        _forget_code()
        tempfile.tempdir = None  # it is remembered from the first use
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)
            tempfile.tempdir = None
            shutil.rmtree(folder, ignore_errors=True)


def _forget_code() -> None:
    """Servers do not see how we were made to run the submitted copy of the program."""
    os.environ.pop("PYTHONSAFEPATH", None)
    others = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(code_root()) in others:
        others.remove(str(code_root()))
        os.environ["PYTHONPATH"] = os.pathsep.join(others)
        if not others:
            del os.environ["PYTHONPATH"]


@contextlib.contextmanager
def _ports(temporary: Path) -> Iterator[int]:
    """The first port of a range that no other job of this node has; held by a lock, not a guess."""
    for first in random.sample(PORTS, len(PORTS)):
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            file = stack.enter_context((temporary / f"sweeper-ports-{first}.lock").open("w"))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _in_use(first):
                continue
            held = stack.pop_all()
            break
    else:
        raise OSError(f"{temporary}: no range of ports is left between {PORTS.start} and 32000")
    with held:
        yield first


def _in_use(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
