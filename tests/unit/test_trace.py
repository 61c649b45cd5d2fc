"""Traces of PyTorch's profiler: a recorded one, and made-up ones of what is not here."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from sweeper.judge.profile import IN_THE_REST, profile, profile_notes
from sweeper.measure.trace import TOO_FEW, UNNAMED, read_trace
from sweeper.profiles import StepSplit

RECORDED = Path(__file__).parents[1] / "fakes" / "recorded.pt.trace.json.gz"

Event = dict[str, Any]


def event(name: str, ts: float, dur: float, cat: str = "user_annotation", **args: int) -> Event:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "ts": ts, "dur": dur, "args": args}


def step(start: float, context: int = 0, generation: int = 1) -> Event:
    name = f"execute_context_{context}({9 * context})_generation_{generation}({4 * generation})"
    return event(name, start, 50)


def named(part: str, ts: float, dur: float) -> Event:
    return event(f"gpu_model_runner: {part}", ts, dur)


def split(folder: Path, *events: Event) -> StepSplit:
    path = folder / "rank0.1.pt.trace.json"
    other: list[Event] = [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [*other, *events]}))
    return read_trace(path)


def test_decode_steps_that_are_followed_by_another_are_split(tmp_path: Path) -> None:
    found = split(
        tmp_path,
        step(0, context=1, generation=0),
        *(named("forward", 10, 900), named("draft", 950, 40)),  # of reading a prompt
        step(1000),
        *(named("forward", 1010, 50), named("postprocess", 1060, 10), named("sample", 1070, 8)),
        named("draft", 1080, 12),
        step(1100),
        *(named("forward", 1110, 70), named("sample", 1180, 2), named("draft", 1185, 8)),
        step(1300),  # the last of its request: how long it lasted is not known
        named("forward", 1310, 70),
        step(9000, context=1, generation=0),
    )
    assert found == StepSplit(
        steps=2, total_ms=0.3, verify_ms=0.13, sample_ms=0.01, draft_ms=0.02, device="CPU"
    )


def test_a_baseline_drafts_nothing(tmp_path: Path) -> None:
    found = split(tmp_path, step(0), named("forward", 1, 60), step(100), named("forward", 101, 60))
    assert (found.steps, found.draft_ms) == (1, None)
    base, drafting = profile(found, baseline=True), profile(found, baseline=False)
    assert base.draft.reason == "no speculation" and list(profile_notes(base)) == []
    assert list(profile_notes(drafting)) == [f"a step's time: {IN_THE_REST}"]
    assert base.verify.value == 0.6 and base.rest.value == pytest.approx(0.4)


def test_on_a_gpu_a_part_is_the_kernels_launched_in_it(tmp_path: Path) -> None:
    """Ranges end long before their kernels do."""
    kernels = (
        *(event("cudaLaunchKernel", 12, 1, "cuda_runtime", correlation=1),),
        *(event("cudaGraphLaunch", 22, 1, "cuda_runtime", correlation=2),),
        *(event("cudaLaunchKernel", 112, 1, "cuda_driver", correlation=3),),
        event("gemm", 500, 40, "kernel", correlation=1),
        event("graphed", 540, 25, "kernel", correlation=2),
        event("graphed too", 565, 25, "kernel", correlation=2),
        event("gemm", 600, 40, "kernel", correlation=3),
        event("of nothing known", 700, 40, "kernel", correlation=99),
    )
    found = split(
        tmp_path,
        *(step(10), named("forward", 11, 5), named("draft", 20, 5)),
        *(step(110), named("forward", 111, 5)),
        *kernels,
    )
    assert found == StepSplit(steps=1, total_ms=0.1, verify_ms=0.04, draft_ms=0.05, device="GPU")


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ((step(0), event("aten::mm", 5, 9, "cpu_op"), step(20)), UNNAMED),
        ((step(0), named("forward", 5, 9)), TOO_FEW),
    ],
)  # fmt: skip
def test_what_cannot_be_split_is_said(
    tmp_path: Path, events: tuple[Event, ...], problem: str
) -> None:
    found = profile(split(tmp_path, *events), baseline=False)
    assert found.problem == found.draft.reason == problem
    assert list(profile_notes(found)) == [f"a step's time is {problem}"]


def test_half_a_trace_is_none(tmp_path: Path) -> None:
    path = tmp_path / "rank0.2.pt.trace.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": []}')[:-9])
    assert read_trace(path).problem.startswith("not split: rank0.2.pt.trace.json.gz is no trace: ")


def test_without_a_profile_nothing_is_said() -> None:
    found = profile(None, baseline=False)
    assert found.verify.reason == "no profile was taken (profile=none)"
    assert list(profile_notes(found)) == []


def test_a_recorded_trace() -> None:
    """ngram γ=4 on the demo target, vLLM 0.32 on a CPU, cut to its named ranges and some others.

    Counted by hand: of its 28 steps two read prompts and one does nothing; ten and fifteen steps
    decode, and the last of each request is not followed by another.
    """
    found = read_trace(RECORDED)
    assert (found.steps, found.device, found.problem) == (23, "CPU", "")
    shares = profile(found, baseline=False)
    assert shares.draft.value == pytest.approx(9.282465 / 2532.019764)
    assert shares.verify.value == pytest.approx(2267.008552 / 2532.019764)
    assert shares.sample.value == pytest.approx(31.059977 / 2532.019764)
    assert shares.step_ms == pytest.approx(2532.019764 / 23)
