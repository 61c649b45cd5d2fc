"""Token ids are read from a line of requests only where somebody needs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.records import ids_of, same_ids
from sweeper.store import PointFolder
from sweeper.values import RequestRecord
from tests.unit.sweeps import record


def written(folder: Path, *records: RequestRecord) -> PointFolder:
    home = PointFolder(folder)
    for one in records:
        home.append(one)
    return home


def test_unread_ids_are_those_that_were_written(tmp_path: Path) -> None:
    every = [record("a", token_ids=(1, 2)), record("b", token_ids=()), record("c", token_ids=None)]
    home = written(tmp_path, *every)
    assert [ids_of(one) for one in home.unread()] == [(1, 2), (), None]
    assert [ids_of(one) for one in home.records()] == [one.token_ids for one in every]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("[1,2]", "[1,2]", True),
        ("[1,2]", "[1, 2]", True),  # of another version's spelling
        ("[1,2]", "[1,3]", False),
        ("[]", "[]", True),
        ("null", "null", None),
        ("[1,2]", "null", None),
        ('"x"', "[1]", None),
    ],
)
def test_ids_are_compared_however_they_are_written(
    tmp_path: Path, one: str, other: str, same: bool | None
) -> None:
    home = written(tmp_path, record("a", token_ids=(7, 8)), record("b", token_ids=(7, 8)))
    first, second = home.requests.read_text().splitlines()
    lines = [line.replace("[7,8]", ids) for line, ids in ((first, one), (second, other))]
    home.requests.write_text("\n".join(lines) + "\n")
    mine, theirs = home.unread()
    assert same_ids(mine, theirs) is same
    assert same_ids(theirs, mine) is same


def test_a_half_written_last_line_is_left_out(tmp_path: Path) -> None:
    home = written(tmp_path, record("a", token_ids=(1,)))
    with home.requests.open("a") as file:
        file.write('{"prompt_id":"b","token_')
    assert [one.prompt_id for one in home.unread()] == ["a"]
    assert PointFolder(tmp_path / "none").unread() == ()
