"""This machine: disk, temporary folder, sandbox, memory, GPUs and who holds their memory."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil

from sweeper.doctor.check import Check
from sweeper.errors import ServerError
from sweeper.serve.process import ask

LONGEST_TMPDIR = 70
"""Characters: vLLM binds sockets named by 36 more there, and a socket's path has at most 107."""
_GB = 10**9
_FULL_GB, _TIGHT_GB = 0.5, 5.0
_SMALL = _GB // 10
"""Bytes: what only waits for a server, such as its guard, has less."""


def machine_checks(outputs: Path) -> Iterator[Check]:
    yield _disk("disk for results", outputs)
    yield _disk("disk for temporary files", Path(tempfile.gettempdir()))
    yield temporary_folder(tempfile.gettempdir())
    yield _sandbox()
    yield _memory()
    yield from gpu_checks()


def _disk(name: str, folder: Path) -> Check:
    place = next(p for p in (folder.resolve(), *folder.resolve().parents) if p.exists())
    free = shutil.disk_usage(place).free / _GB
    found = f"{free:.1f} GB free in {place}"
    if not os.access(place, os.W_OK):
        return Check(
            name=name,
            state="failure",
            found=f"{place} cannot be written",
            fix="another folder: output_dir=… for results, TMPDIR for the rest",
        )
    if free < _FULL_GB:
        return Check(name=name, state="failure", found=found, fix="make room, or use another disk")
    return Check(name=name, state="warning" if free < _TIGHT_GB else "ok", found=found)


def temporary_folder(path: str) -> Check:
    """vLLM's processes talk over sockets in there; too long a name fails at the start."""
    found = f"{path} ({len(path)} characters)"
    if len(path) <= LONGEST_TMPDIR:
        return Check(name="TMPDIR", state="ok", found=found)
    return Check(
        name="TMPDIR",
        state="failure",
        found=f"{found}: vLLM's sockets there would have too long a name",
        fix=f"export TMPDIR=/tmp, or another of at most {LONGEST_TMPDIR} characters",
    )


def _sandbox() -> Check:
    """Runs the tests of code prompts; bubblewrap can be there and not be allowed to work."""
    name, found = "bubblewrap", shutil.which("bwrap")
    if found is None:
        return Check(
            name=name,
            state="warning",
            found="bwrap not found: answers to code prompts cannot be run apart from this machine",
            fix="apt install bubblewrap, or dnf install bubblewrap",
        )
    try:
        ask([found, "--ro-bind", "/", "/", "--unshare-net", "true"], 10)
    except ServerError as problem:
        return Check(
            name=name,
            state="warning",
            found=f"{found} does not work here: {problem}",
            fix="permit unprivileged user namespaces",
        )
    return Check(name=name, state="ok", found=found)


def _memory() -> Check:
    memory = psutil.virtual_memory()
    found = f"{memory.available / _GB:.1f} of {memory.total / _GB:.1f} GB available"
    others = list(_other_servers())
    if not others:
        return Check(name="memory", state="ok", found=found)
    return Check(
        name="memory",
        state="warning",
        found=f"{found}; other vLLM processes run here: {', '.join(others)}",
        fix="wait for them or stop them: they would share processor and memory with what is timed",
    )


def _other_servers() -> Iterator[str]:
    """vLLM's engines and servers, by process id."""
    for process in psutil.process_iter(["pid", "name", "cmdline", "memory_info"]):
        line = " ".join(process.info["cmdline"] or ())
        held = process.info["memory_info"]
        served = "vllm.entrypoints" in line or "VLLM::" in line or line.startswith("vllm serve")
        if served and held and held.rss > _SMALL:
            yield f"pid {process.pid} ({held.rss / _GB:.1f} GB)"


def gpu_checks() -> Iterator[Check]:
    """What ``nvidia-smi`` says; where there is none, there is no GPU that we know of."""
    smi = shutil.which("nvidia-smi")
    if smi is None:
        amd = shutil.which("rocm-smi") or shutil.which("amd-smi")
        said = f"AMD ({amd}); its memory is not looked at" if amd else "none (no nvidia-smi)"
        yield Check(name="GPU", state="note", found=said)
        return
    query = "index,name,memory.used,memory.total,driver_version"
    try:
        said = ask([smi, f"--query-gpu={query}", "--format=csv,noheader,nounits"], 20)
        held = ask(
            [
                smi,
                "--query-compute-apps=gpu_name,pid,process_name,used_memory",
                "--format=csv,noheader,nounits",
            ],
            20,
        )
    except ServerError as problem:
        yield Check(
            name="GPU",
            state="failure",
            found=f"nvidia-smi: {problem}",
            fix="the driver does not answer: reboot, or ask whoever runs the machine",
        )
        return
    yield from read_gpus(said, held)


def read_gpus(said: str, held: str) -> Iterator[Check]:
    """Of nvidia-smi's two lists, in MiB: each GPU, and who holds memory of them."""
    for line in said.strip().splitlines():
        index, name, used, total, driver = (part.strip() for part in line.split(","))
        yield Check(
            name=f"GPU {index}",
            state="ok",
            found=f"{name}, driver {driver}, {used} of {total} MiB in use",
        )
    holders = [[part.strip() for part in line.split(",")] for line in held.strip().splitlines()]
    if holders:
        who = "; ".join(f"pid {pid} {program}: {mib} MiB" for _, pid, program, mib in holders)
        yield Check(
            name="GPU memory",
            state="warning",
            found=f"held by others: {who}",
            fix="wait for them, stop them, or choose other GPUs with CUDA_VISIBLE_DEVICES",
        )
