"""The server's own counters, read from its Prometheus text and subtracted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from itertools import pairwise

from prometheus_client.parser import text_string_to_metric_families

from sweeper.values import RequestRecord, SpecCounts

_STARTED = "process_start_time_seconds"
_DRAFTS = "vllm:spec_decode_num_"
_PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
_NAMES = {
    "verify_steps": "vllm:spec_decode_num_drafts_total",
    "drafted": "vllm:spec_decode_num_draft_tokens_total",
    "accepted": "vllm:spec_decode_num_accepted_tokens_total",
    "decode_steps": "vllm:inter_token_latency_seconds_count",
    "decode_seconds": "vllm:inter_token_latency_seconds_sum",
    "completion_tokens": "vllm:generation_tokens_total",
    "prompt_tokens": "vllm:prompt_tokens_total",
    "cached_tokens": "vllm:prompt_tokens_cached_total",
    "preemptions": "vllm:num_preemptions_total",
    "running": "vllm:num_requests_running",
    "waiting": "vllm:num_requests_waiting",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Totals since the server's start, all engines summed; ``None`` where it has no such counter.

    ``decode_steps`` counts decode steps of requests, with or without a draft (the count of vLLM's
    inter-token latency, which is per step and not per token); ``decode_seconds`` is their sum.
    """

    started: float | None
    verify_steps: float | None
    drafted: float | None
    accepted: float | None
    decode_steps: float | None
    decode_seconds: float | None
    completion_tokens: float | None
    prompt_tokens: float | None
    cached_tokens: float | None
    preemptions: float | None
    running: float | None
    waiting: float | None
    accepted_at: tuple[float, ...] = ()

    @property
    def idle(self) -> bool:
        """No request is running or waiting, as far as the server says."""
        return not self.running and not self.waiting

    def since(self, before: Counters) -> Counters | None:
        """The difference; ``None`` when the server was restarted in between."""
        if self.started != before.started:
            return None
        parts = {
            field.name: _minus(getattr(self, field.name), getattr(before, field.name))
            for field in fields(self)
            if field.name not in ("started", "accepted_at")
        }
        if any(
            value is not None and value < 0
            for name, value in parts.items()
            if name not in ("running", "waiting")
        ):
            return None
        longest = max(len(self.accepted_at), len(before.accepted_at))
        positions = zip(
            _padded(self.accepted_at, longest), _padded(before.accepted_at, longest), strict=True
        )
        return Counters(
            started=self.started, accepted_at=tuple(now - then for now, then in positions), **parts
        )


def with_counts(record: RequestRecord, change: Counters) -> RequestRecord:
    """``record`` with what the counters moved by while it was the only request under way.

    The time of its decode steps is the sum of vLLM's inter-token latency, which is per step.

    Speculation counts are taken from them only where the request itself reports none: from a vLLM
    before it could, or because the answer ended on a stop string. Per position, vLLM counts the
    drafts that were accepted at least so far, so their differences are the histogram.
    """
    if change.decode_steps is not None:
        record = replace(record, decode_steps=int(change.decode_steps))
    if record.decode_ms is None and change.decode_seconds is not None:
        record = replace(record, decode_ms=1e3 * change.decode_seconds)
    if record.spec is not None or None in (change.verify_steps, change.drafted, change.accepted):
        return record
    reached = [int(change.verify_steps or 0), *map(int, change.accepted_at), 0]
    counts = SpecCounts(
        verify_steps=int(change.verify_steps or 0),
        drafted=int(change.drafted or 0),
        accepted=int(change.accepted or 0),
        histogram=tuple(now - then for now, then in pairwise(reached)),
        counted=True,
    )
    return replace(record, spec=counts)


def parse(text: str) -> Counters:
    """The counters in a ``/metrics`` text."""
    wanted = set(_NAMES.values()) | {_STARTED, _PER_POSITION}
    sums: dict[str, float] = {}
    positions: dict[int, float] = {}
    for family in text_string_to_metric_families(_relevant(text.splitlines())):
        for sample in family.samples:
            if sample.name == _PER_POSITION:
                at = int(sample.labels["position"])
                positions[at] = positions.get(at, 0.0) + sample.value
            elif sample.name in wanted:
                sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    return Counters(
        started=sums.get(_STARTED),
        accepted_at=tuple(positions[at] for at in sorted(positions)),
        **{ours: sums.get(theirs) for ours, theirs in _NAMES.items()},
    )


def drafts(text: str) -> Counters:
    """Those of speculation alone, in a third of the time of :func:`parse`: it is done while
    requests are timed."""
    wanted = (_STARTED, _DRAFTS)
    return parse("\n".join(line for line in text.splitlines() if line.startswith(wanted)))


def _relevant(lines: Iterable[str]) -> str:
    """Only the families we read: a full page takes ten times as long to parse."""
    stems = {
        name.removesuffix("_total").removesuffix("_count").removesuffix("_sum")
        for name in (*_NAMES.values(), _STARTED, _PER_POSITION)
    }
    kept = []
    for line in lines:
        name = line.split(" ", 3)[2] if line.startswith("# ") else line.split("{", 1)[0]
        stem = name.split(" ", 1)[0]
        for ending in ("_total", "_count", "_sum"):
            stem = stem.removesuffix(ending)
        if stem in stems:
            kept.append(line)
    return "\n".join(kept) + "\n"


def _minus(now: float | None, then: float | None) -> float | None:
    return None if now is None else now - (then or 0.0)


def _padded(values: tuple[float, ...], length: int) -> tuple[float, ...]:
    return values + (0.0,) * (length - len(values))
