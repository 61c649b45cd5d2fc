"""Sweep folders made up for tests, written through the store like real ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from sweeper.store import SweepFolder, to_json, write_json
from sweeper.values import (
    Dataset,
    Group,
    Load,
    Plan,
    PlannedPoint,
    Point,
    PointResult,
    RequestRecord,
    RolloutBatch,
    Sampling,
    ServerSpec,
    SpecCounts,
    Status,
    Sweep,
)

PROVENANCE: dict[str, Any] = {
    "host": {"hostname": "node1", "cpu": "EPYC", "gpu": None},
    "versions": {"vllm": "0.32.0", "torch": "2.13.0"},
    "engine": {"scheduler": "async", "runner": "V1"},
    "caches": {"prefix": "reset before every repeat"},
}
GREEDY = Sampling(
    name="greedy",
    temperature=0.0,
    top_p=1.0,
    top_k=0,
    min_p=0.0,
    presence_penalty=0.0,
    frequency_penalty=0.0,
    repetition_penalty=1.0,
    seed=0,
    max_tokens=96,
)
CHAT = Dataset(name="chat", path="chat.jsonl", digest="d1", prompts=6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """One point to write; ``result`` ``None`` leaves the file out, a string is its text."""

    point: Point
    records: tuple[RequestRecord, ...] = ()
    status: Status = "completed"
    reason: str = ""
    result: str | bool = True
    baseline: int | None = 0
    failed: int = 0
    provenance: dict[str, Any] = field(default_factory=lambda: PROVENANCE)
    counters: dict[str, Any] = field(default_factory=dict)
    batches: tuple[RolloutBatch, ...] = ()
    wall_s: float = 6.0


def point(method: str, gamma: int, /, **changes: Any) -> Point:
    speculative = {} if method == "none" else {"method": method, "num_speculative_tokens": gamma}
    speculative |= changes.pop("speculative", {})
    server = ServerSpec(
        kind="vllm",
        command=("vllm", "serve"),
        model="org/model",
        speculative_config=json.dumps(speculative, sort_keys=True) if speculative else "",
    )
    made = Point(
        method=method,
        gamma=gamma,
        target="org/model",
        server=server,
        dataset=CHAT,
        sampling=GREEDY,
        load=Load(name="sequential"),
    )
    return replace(made, **changes)


def record(
    prompt: str,
    *,
    seconds: float = 1.0,
    tokens: int = 11,
    steps: int | None = 10,
    spec: SpecCounts | None = None,
    **changes: Any,
) -> RequestRecord:
    made = RequestRecord(
        prompt_id=prompt,
        category=None,
        repeat=0,
        turn=0,
        sent_ns=0,
        first_ns=None,
        done_ns=round(seconds * 1e9),
        prompt_tokens=5,
        cached_tokens=0,
        completion_tokens=tokens,
        finish_reason="stop",
        spec=spec,
        decode_steps=steps,
        text=f"answer to {prompt}",
        token_ids=(1, 2, 3),
        prompt_digest=f"digest of {prompt}",
        error="",
    )
    return replace(made, **changes)


def counts(histogram: Sequence[int], drafted: int | None = None) -> SpecCounts:
    """Counts that agree with ``histogram``; full drafts unless ``drafted`` is given."""
    steps, gamma = sum(histogram), len(histogram) - 1
    return SpecCounts(
        verify_steps=steps,
        drafted=steps * gamma if drafted is None else drafted,
        accepted=sum(j * n for j, n in enumerate(histogram)),
        histogram=tuple(histogram),
    )


def folder(path: Path, *made: Made, **changes: Any) -> SweepFolder:
    """Write a sweep of these points, numbered in order, into ``path``."""
    sweep_folder = SweepFolder(path)
    planned = tuple(
        PlannedPoint(
            number=n,
            key=m.point.key,
            point=m.point,
            jobs=(n,),
            baseline=None if m.point.is_baseline else m.baseline,
        )
        for n, m in enumerate(made)
    )
    groups = tuple(
        Group(key=p.point.server.key, server=p.point.server, points=(p,)) for p in planned
    )
    sweep = Sweep(
        id="20260131-1a2b3c",
        created_at="2026-01-31T12:00:00+00:00",
        command=("python", "-m", "sweeper"),
        plan=Plan(jobs=(), groups=groups),
        settings={"seed": 0},
        versions={"sweeper": "0.1.0"},
    )
    write_json(sweep_folder.sweep, to_json(replace(sweep, **changes)))
    for p, m in zip(planned, made, strict=True):
        _write(sweep_folder, p, m)
    return sweep_folder


def _write(sweep_folder: SweepFolder, planned: PlannedPoint, made: Made) -> None:
    files = sweep_folder.point(planned)
    for one in made.records:
        files.path.mkdir(parents=True, exist_ok=True)
        files.append(one)
    for batch in made.batches:
        files.append_batch(batch)
    if made.result is True:
        write_json(files.result, to_json(_result(planned, made)))
        files.config.write_text(f"method: {planned.point.method}\n", encoding="utf-8")
    elif made.result:
        files.path.mkdir(parents=True, exist_ok=True)
        files.result.write_text(str(made.result), encoding="utf-8")


def _result(planned: PlannedPoint, made: Made) -> PointResult:
    return PointResult(
        number=planned.number,
        key=planned.key,
        sweep="20260131-1a2b3c",
        status=made.status,
        reason=made.reason,
        requests=len(made.records),
        failed=made.failed,
        started_at="2026-01-31T12:00:05+00:00",
        wall_s=made.wall_s,
        server_folder="servers/x",
        counters=made.counters,
        warnings=(),
        provenance=made.provenance,
    )


def rollouts(method: str, gamma: int, seconds: Sequence[float], **changes: Any) -> Made:
    """Batches of two prompts with four samples each, one batch for every entry of ``seconds``."""
    sampling = replace(GREEDY, name="rollout", temperature=1.0, n=4)
    made = point(
        method, gamma, load=Load(name="rollout", batch_prompts=2), sampling=sampling, **changes
    )
    clocks = np.cumsum([0.0, *seconds])
    records = tuple(
        record(
            f"p{2 * batch + prompt}", seconds=float(end), sent_ns=round(start * 1e9),
            repeat=sample, tokens=20 + prompt, steps=None,
        )
        for batch, (start, end) in enumerate(pairwise(clocks))
        for prompt in range(2)
        for sample in range(4)
    )  # fmt: skip
    counted = (None, None, None) if made.is_baseline else (40, 120, 60 - gamma)
    batches = tuple(
        RolloutBatch(
            policy_version="0", batch=n, prompts=2, sequences=8, seconds=took, tokens=164,
            decode_steps=100 + n, tail_s=0.3 * took, drafts=counted[0],
            drafted=counted[1], accepted=counted[2],
        )
        for n, took in enumerate(seconds)
    )  # fmt: skip
    rescored = {"mean_absolute_difference": 0.012, "largest_difference": 0.345, "tokens": 64}
    counters = {"rescore": rescored | {"sequences": 4}}
    return Made(point=made, records=records, batches=batches, counters=counters)
