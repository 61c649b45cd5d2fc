"""Every file name of a sweep folder, atomic writes, append-only records and tolerant reads.

In ``outputs/<date>/<time>-<id>/``::

    sweep.json                       what was asked for and planned; written before anything runs
    points/<nnn>-<key8>/
        config.yaml  point.log       the point as composed; what its measurement said
        requests.jsonl               one RequestRecord a line, appended as answers arrive
        counters.json                the server's counters before and after, raw; its drafts between
                                     where requests do not tell them
        series.jsonl                 the server's load and its GPUs', a line every two seconds
        rollouts.jsonl               load=rollout: one RolloutBatch a line, see docs/rollouts.md
        result.json                  PointResult; its presence means the point has ended
        scores.json                  a greedy baseline's answers, scored by its own server
        samples.json                 sampled continuations of fixed texts
        profile.json  traces/        profile=torch: a step's time by part, and the trace it is from
        quality.json                 which answers solve their task
        requests.parquet             the requests as a table, made by the report
    servers/<key8>-<attempt>/        and profile-<key8>-<attempt>/ of profiled starts
        server.log  server.json      vLLM's own output; argv, resolved config, start, stop seconds
    groups/<key8>/                   only where a group runs in a process of its own
        heartbeat.json               what it does now
        attempts.jsonl  task.log     every job it was given to; output of a worker of this machine
    code/                            the program as submitted; jobs run this copy
    blind/  blind-key.json           pairs of answers for people, and which side is which
    submitit/                        scripts, pickles and output of Slurm jobs
    superseded/                      files of points that were measured again
    points.csv  points.parquet       the comparison table
    requests.parquet                 every request of the sweep
    report/                          what people read: index.html, report.md, plots as PNG
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import types
import typing
from collections.abc import Iterator
from dataclasses import asdict, dataclass, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from sweeper.errors import StoreError
from sweeper.profiles import StepSplit
from sweeper.records import RECORDS, UNREAD
from sweeper.scores import Quality, Samples, Scores
from sweeper.values import Json, Plan, PlannedPoint, PointResult, RequestRecord, RolloutBatch, Sweep

T = TypeVar("T")


def to_json(value: Any) -> Json:
    """A frozen value as plain JSON types."""
    return asdict(value)


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def from_json(cls: type[T], data: Json) -> T:
    """Rebuild a frozen value from :func:`to_json`.

    :raises TypeError: when ``data`` is not of that shape; unknown keys are refused too.
    """
    if not isinstance(data, dict):
        raise TypeError(f"not a {cls.__name__}: {str(data)[:80]}")
    hints = _hints(cls)  # type: ignore[arg-type]  # typeshed: type[T] is not Hashable, yet it is
    return cls(**{name: _revive(hints.get(name, Any), item) for name, item in data.items()})


def asked(sweep: Sweep | None, name: str, kind: type[T]) -> T:
    """What the sweep was submitted with under ``name``, or the defaults of ``kind``."""
    settings = sweep.settings if sweep is not None else None
    found = settings.get(name) if isinstance(settings, dict) else None
    return from_json(kind, found) if isinstance(found, dict) else kind()


_PLAIN = ((int, ...), (float, ...), (str, ...))
"""Tuples of what JSON has itself; records have thousands of them."""


def _revive(hint: Any, item: Json) -> Any:
    if item is None:
        return None
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        return _revive(next(a for a in typing.get_args(hint) if a is not type(None)), item)
    if origin is tuple:
        inner = typing.get_args(hint)
        if inner in _PLAIN:
            return tuple(item)
        if len(inner) == 2 and inner[1] is Ellipsis:
            return tuple(_revive(inner[0], one) for one in item)
        return tuple(_revive(h, one) for h, one in zip(inner, item, strict=True))
    if isinstance(hint, type) and is_dataclass(hint):
        return from_json(hint, item)
    return item


def write_text(path: Path, text: str) -> None:
    """Write ``path`` so that a reader or a crash sees the old file or the new one, never half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def write_json(path: Path, value: Json) -> None:
    """:func:`write_text` of indented JSON; NaN and infinity are refused."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_compact(path: Path, value: Json) -> None:
    """:func:`write_json` on one line, for long lists of numbers."""
    write_text(path, json.dumps(value, allow_nan=False, separators=(",", ":")) + "\n")


def read_json(path: Path) -> Json:
    """Parse a JSON file; a half-written or foreign one is a :class:`StoreError`."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StoreError(f"{path} is missing") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as problem:
        raise StoreError(f"{path} is not complete JSON: {problem}") from None


@dataclass(frozen=True, slots=True)
class PointFolder:
    """The files of one point."""

    path: Path

    @property
    def config(self) -> Path:
        return self.path / "config.yaml"

    @property
    def requests(self) -> Path:
        return self.path / "requests.jsonl"

    @property
    def requests_parquet(self) -> Path:
        return self.path / "requests.parquet"

    @property
    def counters(self) -> Path:
        return self.path / "counters.json"

    @property
    def rollouts(self) -> Path:
        return self.path / "rollouts.jsonl"

    @property
    def series(self) -> Path:
        return self.path / "series.jsonl"

    @property
    def result(self) -> Path:
        return self.path / "result.json"

    @property
    def log(self) -> Path:
        return self.path / "point.log"

    @property
    def scores(self) -> Path:
        return self.path / "scores.json"

    @property
    def samples(self) -> Path:
        return self.path / "samples.json"

    @property
    def quality(self) -> Path:
        return self.path / "quality.json"

    @property
    def profile(self) -> Path:
        return self.path / "profile.json"

    @property
    def traces(self) -> Path:
        return self.path / "traces"

    @property
    def measured(self) -> tuple[Path, ...]:
        """What a measurement leaves."""
        made = (self.requests, self.rollouts, self.result, self.counters, self.log)
        checks = (self.scores, self.samples, self.quality)
        return (*made, self.series, *checks, self.profile, self.traces)

    def append(self, record: RequestRecord) -> None:
        """Add one line and hand it to the operating system before returning."""
        with self.requests.open("ab") as file:
            file.write(msgspec.json.encode(record) + b"\n")

    def append_batch(self, batch: RolloutBatch) -> None:
        """Add one line to the rollout log."""
        with self.rollouts.open("a", encoding="utf-8") as file:
            file.write(json.dumps(to_json(batch), ensure_ascii=False, allow_nan=False) + "\n")

    def append_sample(self, sample: dict[str, float]) -> None:
        """Add one line to the series."""
        with self.series.open("a", encoding="utf-8") as file:
            file.write(json.dumps(sample, allow_nan=False) + "\n")

    def samples_over_time(self) -> tuple[dict[str, float], ...]:
        """The series; a half-written last line is left out."""
        if not self.series.exists():
            return ()
        whole = self.series.read_text(encoding="utf-8").split("\n")[:-1]
        return tuple(json.loads(line) for line in whole)

    def batches(self) -> tuple[RolloutBatch, ...]:
        """The rollout log; a half-written last line is left out."""
        if not self.rollouts.exists():
            return ()
        whole = self.rollouts.read_text(encoding="utf-8").split("\n")[:-1]
        return tuple(from_json(RolloutBatch, json.loads(line)) for line in whole)

    def records(self) -> tuple[RequestRecord, ...]:
        """All complete records; a half-written last line of a killed run is left out."""
        if not self.requests.exists():
            return ()
        try:
            return tuple(RECORDS.decode_lines(self.requests.read_bytes()))
        except msgspec.MsgspecError:  # one at a time says which, and reads what can be read
            return tuple(self.each_record())

    def unread(self) -> tuple[RequestRecord, ...]:
        """:meth:`records`, token ids left for :func:`~sweeper.records.ids_of`."""
        try:
            return tuple(UNREAD.decode_lines(self.requests.read_bytes()))
        except (FileNotFoundError, msgspec.MsgspecError):
            return self.records()

    def each_record(self) -> Iterator[RequestRecord]:
        """:meth:`records`, one at a time: a long run does not fit into memory."""
        if self.requests.exists():
            yield from _records(self.requests)

    def size(self) -> int:
        """Bytes of ``requests.jsonl``; 0 where there is none."""
        return self.requests.stat().st_size if self.requests.exists() else 0

    def count(self) -> tuple[int, int]:
        """Complete lines of ``requests.jsonl``, and half-written ones: 0 or 1."""
        lines, last = 0, b"\n"
        if self.requests.exists():
            with self.requests.open("rb") as file:
                while part := file.read(1 << 20):
                    lines, last = lines + part.count(b"\n"), part
        return lines, int(not last.endswith(b"\n"))

    def read_result(self) -> PointResult | None:
        """The result, ``None`` while the point has not ended (or its file is half-written)."""
        try:
            return from_json(PointResult, read_json(self.result))
        except (StoreError, TypeError):
            return None

    def read_samples(self) -> Samples | None:
        """``None`` where nothing was sampled, or that cannot be read."""
        try:
            return from_json(Samples, read_json(self.samples))
        except (StoreError, TypeError):
            return None

    def read_quality(self) -> Quality | None:
        """``None`` where nothing was graded, or that cannot be read."""
        try:
            return from_json(Quality, read_json(self.quality))
        except (StoreError, TypeError):
            return None

    def read_profile(self) -> StepSplit | None:
        """``None`` where no profile was taken, or it cannot be read."""
        try:
            return from_json(StepSplit, read_json(self.profile))
        except (StoreError, TypeError):
            return None

    def read_scores(self) -> Scores | None:
        """``None`` where there are none, or they cannot be read."""
        try:
            return from_json(Scores, read_json(self.scores))
        except (StoreError, TypeError):
            return None


def _record(line: bytes) -> RequestRecord:
    """Nine times as fast as :func:`from_json`, which says what is wrong with a line that is not
    a record; keys of a later version are left out.

    :raises TypeError: when it is of another shape; ``JSONDecodeError`` when it is no JSON.
    """
    try:
        return RECORDS.decode(line)
    except msgspec.MsgspecError:
        return from_json(RequestRecord, json.loads(line.decode(errors="replace")))


def _records(path: Path) -> Iterator[RequestRecord]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield _record(line)
            except (json.JSONDecodeError, TypeError) as problem:
                if line.endswith(b"\n"):
                    raise StoreError(f"{path}:{number}: not a request record: {problem}") from None


@dataclass(frozen=True, slots=True)
class ServerFolder:
    """The files of one server start."""

    path: Path

    @property
    def log(self) -> Path:
        return self.path / "server.log"

    @property
    def info(self) -> Path:
        return self.path / "server.json"


@dataclass(frozen=True, slots=True)
class GroupFolder:
    """The files of one group that runs in a process of its own."""

    path: Path

    @property
    def heartbeat(self) -> Path:
        return self.path / "heartbeat.json"

    @property
    def attempts(self) -> Path:
        return self.path / "attempts.jsonl"

    @property
    def log(self) -> Path:
        return self.path / "task.log"

    @property
    def task(self) -> Path:
        return self.path / "task.json"


@dataclass(frozen=True, slots=True)
class SweepFolder:
    """The files of one sweep."""

    path: Path

    @property
    def sweep(self) -> Path:
        return self.path / "sweep.json"

    @property
    def points_csv(self) -> Path:
        return self.path / "points.csv"

    @property
    def points_parquet(self) -> Path:
        return self.path / "points.parquet"

    @property
    def requests_parquet(self) -> Path:
        return self.path / "requests.parquet"

    @property
    def page(self) -> Path:
        return self.report / "index.html"

    @property
    def report(self) -> Path:
        return self.path / "report"

    @property
    def blind(self) -> Path:
        return self.path / "blind"

    @property
    def blind_key(self) -> Path:
        return self.path / "blind-key.json"

    @property
    def code(self) -> Path:
        return self.path / "code"

    @property
    def submitit(self) -> Path:
        return self.path / "submitit"

    def group(self, key: str) -> GroupFolder:
        """Of the group whose server has this key."""
        return GroupFolder(self.path / "groups" / key[:8])

    def point(self, planned: PlannedPoint) -> PointFolder:
        return PointFolder(self.path / "points" / f"{planned.number:03d}-{planned.key[:8]}")

    def set_aside(self, home: PointFolder) -> None:
        """Move the files of a measurement to ``superseded/``; ``config.yaml`` stays."""
        if not any(path.exists() for path in (home.requests, home.result)):
            return
        for attempt in range(1, 1000):
            target = self.path / "superseded" / f"{home.path.name}-{attempt}"
            with contextlib.suppress(FileExistsError):
                target.mkdir(parents=True)
                for path in home.measured:
                    with contextlib.suppress(FileNotFoundError):
                        path.rename(target / path.name)
                return
        raise StoreError(f"{self.path}/superseded: 999 measurements of {home.path.name}")

    def new_server(self, key: str, prefix: str = "") -> ServerFolder:
        """A folder for the next attempt to start the server with this key; ``prefix`` keeps starts
        that measure nothing apart."""
        for attempt in range(1, 1000):
            folder = self.path / "servers" / f"{prefix}{key[:8]}-{attempt}"
            try:
                folder.mkdir(parents=True, exist_ok=False)
            except FileExistsError:
                continue
            return ServerFolder(folder)
        raise StoreError(f"{self.path}/servers: 999 attempts for {key[:8]}")


def read_sweep(folder: SweepFolder) -> Sweep:
    """The sweep as submitted; a folder of something else is a :class:`StoreError`."""
    try:
        return from_json(Sweep, read_json(folder.sweep))
    except TypeError as problem:
        raise StoreError(f"{folder.sweep} is not a sweep of this version: {problem}") from None


def read_results(folder: SweepFolder, plan: Plan, sweep: str = "") -> dict[int, PointResult]:
    """The results that are there, by point number; with ``sweep`` only those that name it."""
    found = {p.number: folder.point(p).read_result() for p in plan.points}
    return {n: r for n, r in found.items() if r is not None and sweep in ("", r.sweep)}


@contextlib.contextmanager
def only_writer(folder: SweepFolder) -> Iterator[None]:
    """Hold the sweep folder for this process; its end, however violent, gives it free.

    :raises StoreError: when another process measures, watches or collects this sweep.
    """
    with (folder.path / ".lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(
                f"{folder.path} is in use: another process measures, watches or collects this sweep"
            ) from None
        except OSError:
            pass  # a file system without locks
        yield
