"""A trace of PyTorch's profiler, split into the parts of vLLM's decode steps.

vLLM's V1 model runner names its parts as ranges on the CPU. On a CPU their length is the time they
took. On a GPU they only launch kernels, and a part's time is that of the kernels launched in it.
"""

from __future__ import annotations

import gzip
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal

import msgspec

from sweeper.profiles import StepSplit

Part = Literal["verify", "sample", "draft"]
PARTS: dict[str, Part] = {
    "gpu_model_runner: forward": "verify",
    "gpu_model_runner: postprocess": "verify",  # the logits
    "gpu_model_runner: sample": "sample",
    "gpu_model_runner: draft": "draft",
}
_STEP = re.compile(r"execute_(?:\d+_)?context_(\d+)\(.*\)_generation_(\d+)\(")
_KERNELS = ("kernel", "gpu_memcpy", "gpu_memset")
_LAUNCHES = ("cuda_runtime", "cuda_driver")
UNNAMED = (
    "not split: the trace names no parts of a step, as of vLLM's V2 model runner, which has none; "
    "+server.env.VLLM_USE_V2_MODEL_RUNNER=0 runs the V1 runner, in all arms"
)
TOO_FEW = "not split: no decode step is followed by another; ask for more (profile.tokens)"


class _Args(msgspec.Struct):
    correlation: int = -1


class _Event(msgspec.Struct):
    """One event of the trace; ``ts`` and ``dur`` are microseconds."""

    name: str = ""
    ph: str = ""
    cat: str = ""
    ts: float = 0.0
    dur: float = 0.0
    args: _Args = msgspec.field(default_factory=_Args)


class _Trace(msgspec.Struct):
    events: list[_Event] = msgspec.field(name="traceEvents")


@dataclass(slots=True)
class _Step:
    """From ``start``, where a part's time is looked up; ``decodes``: no prompt is read in it."""

    start: float
    decodes: bool
    first_kernel: float | None = None
    parts: dict[Part, float] = field(default_factory=lambda: defaultdict(float))


def read_trace(path: Path) -> StepSplit:
    """The split of the trace in ``path``, compressed or not."""
    data = path.read_bytes()
    try:
        text = gzip.decompress(data) if path.suffix == ".gz" else data
        events = msgspec.json.decode(text, type=_Trace).events
    except (OSError, EOFError, msgspec.MsgspecError) as problem:
        return StepSplit(problem=f"not split: {path.name} is no trace: {problem}")
    return split([e for e in events if e.ph == "X"])


def split(events: Sequence[_Event]) -> StepSplit:
    """Sums over the decode steps that are followed by another one: the time between two is known,
    and no waiting for the next request is in it."""
    ranges = sorted((e for e in events if e.cat == "user_annotation"), key=lambda e: e.ts)
    steps = list(_steps(ranges))
    named = [e for e in ranges if e.name in PARTS]
    if not any(PARTS[e.name] == "verify" for e in named):
        return StepSplit(problem=UNNAMED)
    kernels = [e for e in events if e.cat in _KERNELS]
    if kernels:
        _by_kernels(steps, named, kernels, [e for e in events if e.cat in _LAUNCHES])
    else:
        _by_ranges(steps, named)
    return _summed(steps, on_gpu=bool(kernels))


def _steps(ranges: Iterable[_Event]) -> Iterator[_Step]:
    for one in ranges:
        if found := _STEP.match(one.name):
            context, generation = map(int, found.groups())
            yield _Step(start=one.ts, decodes=context == 0 and generation > 0)


def _by_ranges(steps: Sequence[_Step], named: Iterable[_Event]) -> None:
    starts = [s.start for s in steps]
    for one in named:
        if at := bisect_right(starts, one.ts):
            steps[at - 1].parts[PARTS[one.name]] += one.dur


def _by_kernels(
    steps: Sequence[_Step],
    named: Sequence[_Event],
    kernels: Iterable[_Event],
    launches: Iterable[_Event],
) -> None:
    """A kernel belongs to the step and the part in which it was launched."""
    launched = {e.args.correlation: e.ts for e in launches}
    starts, begins = [s.start for s in steps], [e.ts for e in named]
    for kernel in kernels:
        when = launched.get(kernel.args.correlation)
        at = bisect_right(starts, when) if when is not None else 0
        if when is None or not at:
            continue
        step, part = steps[at - 1], bisect_right(begins, when)
        step.first_kernel = min(step.first_kernel or kernel.ts, kernel.ts)
        if part and when <= named[part - 1].ts + named[part - 1].dur:
            step.parts[PARTS[named[part - 1].name]] += kernel.dur


def _summed(steps: Sequence[_Step], *, on_gpu: bool) -> StepSplit:
    total, count, parts = 0.0, 0, defaultdict[Part, float](float)
    for one, following in pairwise(steps):
        began, ended = one.start, following.start
        if on_gpu:
            if one.first_kernel is None or following.first_kernel is None:
                continue
            began, ended = one.first_kernel, following.first_kernel
        if not (one.decodes and following.decodes):
            continue
        count, total = count + 1, total + ended - began
        for part, duration in one.parts.items():
            parts[part] += duration
    if not count:
        return StepSplit(problem=TOO_FEW)
    return StepSplit(
        steps=count,
        total_ms=total / 1e3,
        verify_ms=parts["verify"] / 1e3,
        sample_ms=parts["sample"] / 1e3,
        draft_ms=parts["draft"] / 1e3 if "draft" in parts else None,
        device="GPU" if on_gpu else "CPU",
    )
