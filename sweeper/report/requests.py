"""Every request of a sweep as one row: ``requests.parquet``, of the sweep and of each point."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sweeper.judge.arms import read_arm
from sweeper.judge.compare import Comparison
from sweeper.records import ids_of
from sweeper.store import SweepFolder
from sweeper.values import Json, RequestRecord, SpecCounts

_TEXT, _WHOLE, _REAL, _LIST = pa.string(), pa.int64(), pa.float64(), pa.list_(pa.int64())
SCHEMA = pa.schema(
    {
        "point": _WHOLE,
        "point_key": _TEXT,
        "method": _TEXT,
        "gamma": _WHOLE,
        "target": _TEXT,
        "dataset": _TEXT,
        "sampling": _TEXT,
        "load": _TEXT,
        "prompt_id": _TEXT,
        "category": _TEXT,
        "repeat": _WHOLE,
        "turn": _WHOLE,
        "sent_s": _REAL,
        "request_time_s": _REAL,
        "ttft_ms": _REAL,
        "prompt_tokens": _WHOLE,
        "cached_tokens": _WHOLE,
        "completion_tokens": _WHOLE,
        "decode_steps": _WHOLE,
        "verify_steps": _WHOLE,
        "drafted_tokens": _WHOLE,
        "accepted_tokens": _WHOLE,
        "per_step_drafted": _LIST,
        "per_step_accepted": _LIST,
        "finish_reason": _TEXT,
        "error": _TEXT,
        "text": _TEXT,
        "token_ids": _LIST,
    }
)


def write_requests(folder: SweepFolder, comparisons: Sequence[Comparison]) -> None:
    """The file of the sweep and those of its points; a point without requests has none."""
    with _replacing(folder.requests_parquet) as whole:
        for one in comparisons:
            rows = [_row(one, record) for record in read_arm(folder, one.planned).records]
            table = pa.Table.from_pylist(rows, schema=SCHEMA)
            whole.write_table(table)
            if rows:
                with _replacing(folder.point(one.planned).requests_parquet) as own:
                    own.write_table(table)


@contextmanager
def _replacing(path: Path) -> Iterator[pq.ParquetWriter]:
    """A Parquet file that is there as a whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with pq.ParquetWriter(temporary, SCHEMA, compression="zstd") as writer:
            yield writer
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _row(one: Comparison, record: RequestRecord) -> dict[str, Json]:
    return dict(_point(one)) | dict(_request(record)) | dict(_counts(record.spec))


def _point(one: Comparison) -> Iterator[tuple[str, Json]]:
    point = one.point
    yield "point", one.number
    yield "point_key", one.planned.key
    yield "method", point.method
    yield "gamma", point.gamma
    yield "target", point.target
    yield "dataset", point.dataset.name
    yield "sampling", point.sampling.name
    yield "load", point.load.label


def _request(record: RequestRecord) -> Iterator[tuple[str, Json]]:
    for name in ("prompt_id", "category", "repeat", "turn", "prompt_tokens", "cached_tokens"):
        yield name, getattr(record, name)
    for name in ("completion_tokens", "decode_steps", "finish_reason", "text"):
        yield name, getattr(record, name)
    yield "token_ids", ids_of(record)
    yield "error", record.error or None
    yield "sent_s", record.sent_ns / 1e9
    yield "request_time_s", record.request_time_s
    first = record.first_ns
    yield "ttft_ms", None if first is None else (first - record.sent_ns) / 1e6


def _counts(spec: SpecCounts | None) -> Iterator[tuple[str, Json]]:
    yield "verify_steps", spec.verify_steps if spec else None
    yield "drafted_tokens", spec.drafted if spec else None
    yield "accepted_tokens", spec.accepted if spec else None
    yield "per_step_drafted", spec.per_step_drafted if spec else None
    yield "per_step_accepted", spec.per_step_accepted if spec else None
