"""The vLLM that would be started: where it is and what it can do."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence

from sweeper.doctor.check import Check
from sweeper.errors import get_extra
from sweeper.plan.rules import VLLM
from sweeper.serve.installed import Installed, installed, missing_vllm

_OFFERS = (
    ("per_request_metrics", "counts with every request (--per-request-spec-decode-metrics)"),
    ("synthetic", "synthetic acceptance"),
    ("schedule", "a γ for every batch size"),
    ("v2_runner", "model runner V2"),
)


def engine_checks(commands: Sequence[tuple[str, ...]]) -> Iterator[Check]:
    """Of every server command once."""
    for command in dict.fromkeys(commands):
        here = installed(command)
        if here is None:
            yield Check(
                name="vLLM",
                state="note",
                found=f"{' '.join(command)}: no Python of this machine, not looked into",
            )
            continue
        yield from of_installed(here, gpu=shutil.which("nvidia-smi") is not None)


def of_installed(here: Installed, *, gpu: bool) -> Iterator[Check]:
    """What one environment has, what a sweep cannot have with it, and what to do."""
    if here.vllm is None:
        missing = missing_vllm(here)
        found, _, fix = missing.partition(": ")
        yield Check(name="vLLM", state="failure", found=found, fix=fix)
        return
    yield _version(here, gpu)
    yield Check(name="methods", state="ok", found=", ".join(here.methods) or "not known")
    for field, what in _OFFERS:
        if getattr(here, field):
            yield Check(name="offers", state="ok", found=what)
        else:
            yield Check(
                name="offers",
                state="warning",
                found=f"not here: {what}",
                fix=f"a newer vLLM, such as {VLLM}",
            )
    yield _suffix(here)


def _version(here: Installed, gpu: bool) -> Check:
    build = "CPU" if here.cpu else "GPU"
    found = f"{here.vllm} ({build} build) in {here.python}"
    if gpu and here.cpu:
        return Check(
            name="vLLM",
            state="warning",
            found=f"{found}, and this machine has a GPU",
            fix=f"{get_extra('gpu')}, for an environment of its own",
        )
    if not gpu and not here.cpu:
        return Check(
            name="vLLM",
            state="warning",
            found=f"{found}, and this machine has no GPU",
            fix="start sweeps on a machine with one (hydra/launcher=slurm), or " + get_extra("cpu"),
        )
    if here.vllm != VLLM and (here.vllm or "").partition("+")[0] != VLLM:
        return Check(
            name="vLLM", state="note", found=f"{found}; the method rules were read from {VLLM}"
        )
    return Check(name="vLLM", state="ok", found=found)


def _suffix(here: Installed) -> Check:
    if here.arctic_inference:
        return Check(name="arctic-inference", state="ok", found=here.arctic_inference)
    same = " (make setup does it)" if here.python == sys.executable else ""
    return Check(
        name="arctic-inference",
        state="warning",
        found="not installed: method=suffix cannot run",
        fix=f"{get_extra('suffix', here.python)}{same}",
    )
