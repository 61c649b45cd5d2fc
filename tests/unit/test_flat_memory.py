"""Records of a long load are on disk, and what is said of them does not need them in memory."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

from sweeper.measure.checks import cross_check, point_warnings
from sweeper.measure.counters import parse
from sweeper.measure.measurement import Written
from sweeper.measure.throughput import load_warnings
from sweeper.measure.windows import dead_windows
from sweeper.store import PointFolder
from sweeper.values import Load, RequestRecord
from tests.unit.sweeps import counts, point, record

REQUESTS = 300
LOAD = Load(name="open", rate=100.0, stream=True)


def written(path: Path) -> Written:
    """Requests of 400 chunks: about 40 KiB each in memory, 12 MiB together."""
    folder = PointFolder(path)
    ids, gaps = tuple(range(1000, 1400)), tuple(range(10**7, 10**7 + 400))
    made = record("p", spec=counts((3, 4, 5)), steps=None, token_ids=ids, chunk_ns=gaps)
    for number in range(REQUESTS):
        at = number * 10**7
        folder.append(replace(made, prompt_id=f"p{number}", sent_ns=at, done_ns=at + 9, due_ns=at))
    return Written(folder)


def test_checks_of_a_long_load_take_the_memory_of_a_few_requests(tmp_path: Path) -> None:
    records = written(tmp_path)
    change = parse("")
    tracemalloc.start()
    try:
        assert load_warnings(records, LOAD) == []
        assert dead_windows(records) == []
        assert cross_check(records, change)["agree"] is True
        assert point_warnings(point("ngram", 2, load=LOAD), records, {}) == []
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 2 * 2**20


def test_records_come_one_at_a_time_and_as_they_were(tmp_path: Path) -> None:
    folder = PointFolder(tmp_path)
    made: tuple[RequestRecord, ...] = tuple(
        record(f"p{n}", spec=counts((1, 2)), token_ids=(1, 2), chunk_ns=(3, 4)) for n in range(3)
    )
    for one in made:
        folder.append(one)
    assert next(folder.each_record()) == made[0]
    assert folder.records() == tuple(Written(folder)) == made
    assert folder.count() == (3, 0)


def test_a_half_written_last_line_is_counted_apart(tmp_path: Path) -> None:
    folder = PointFolder(tmp_path)
    folder.append(record("p"))
    with folder.requests.open("a") as file:
        file.write('{"prompt_id": "q')
    assert folder.count() == (1, 1)
    assert [r.prompt_id for r in folder.each_record()] == ["p"]
    assert PointFolder(tmp_path / "none").count() == (0, 0)
