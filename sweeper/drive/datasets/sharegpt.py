"""ShareGPT: one JSON array, or JSON lines, of ``{"id", "conversations": [{"from", "value"}]}``.

Only what people asked is taken; the answers are the model's own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from sweeper.drive.datasets.jsonl import Mistake, first, listed, read_bytes
from sweeper.drive.datasets.mistakes import kind_of
from sweeper.errors import DatasetError
from sweeper.values import Json, Message, Prompt

HUMAN = ("human", "user")


def read_sharegpt(
    path: Path, *, limit: int | None, max_turns: int | None
) -> tuple[tuple[Prompt, ...], tuple[str, ...]]:
    """The first ``limit`` conversations that a person begins, and notes on those left out and on
    ids that are there twice.

    Published files hold thousands of conversations that were cut: they begin with an answer, or
    hold nothing. Those are left out; anything that is no conversation is a mistake.
    """
    entries = list(_entries(path))
    mistakes = [(n, text) for n, entry in entries for text in _mistakes(entry)]
    ids = [str(e.get("id")) for _, e in entries if isinstance(e, dict) and e.get("id") is not None]
    if mistakes:
        raise DatasetError(listed(path, mistakes))
    twice = len(ids) - len(set(ids))
    found = [(n, e, asked) for n, e in entries if (asked := _asked(e)[:max_turns])]
    # Several pieces of one conversation share its id in published files.
    names = [str(e.get("id") or f"entry-{n}") for n, e, _ in found]
    prompts = tuple(
        Prompt(
            id=f"{name}#{n}" if twice else name,
            messages=(Message(role="user", content=asked[0]),),
            follow_ups=asked[1:],
            line=n,
        )
        for name, (n, _, asked) in zip(names, found, strict=True)
    )
    notes = []
    if left := len(entries) - len(prompts):
        of = f"{left} of {len(entries)} conversations"
        notes.append(f"{of} do not begin with a person's turn: left out")
    if twice:
        again = f"{twice} ids of conversations are those of earlier ones"
        notes.append(f"{again}: every id is followed by # and its number in the file")
    return first(path, prompts, limit), tuple(notes)


def _entries(path: Path) -> Iterator[tuple[int, Json]]:
    """Number from 1 (of the line, or in the array) and value of every entry."""
    data = read_bytes(path)
    try:
        text = data.decode("utf-8-sig")
        if text.lstrip().startswith("["):
            yield from enumerate(json.loads(text), start=1)
            return
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path}: byte {error.start + 1} is not UTF-8; convert it") from None
    except json.JSONDecodeError as error:
        where = f"{path}:{error.lineno}"
        raise DatasetError(
            f"{where}: not JSON: {error.msg} at column {error.colno}; is the file complete?"
        ) from None
    bad: list[Mistake] = []
    # Not splitlines(): JSON strings may hold U+2028 and others that it takes for ends of lines.
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        try:
            yield number, json.loads(line)
        except json.JSONDecodeError as error:
            bad.append((number, f"not JSON: {error.msg}; write one conversation a line"))
    if bad or not text.strip():
        raise DatasetError(listed(path, bad) or f"{path}: the file is empty")


def _mistakes(entry: Json) -> Iterator[str]:
    if not isinstance(entry, dict):
        yield f"the entry holds {kind_of(entry)}, not an object with conversations"
        return
    turns = entry.get("conversations")
    if not isinstance(turns, list):
        yield f'"conversations" is {kind_of(turns)}, not a list; is this a ShareGPT file?'
    elif not all(isinstance(t, dict) and isinstance(t.get("value"), str) for t in turns):
        yield 'a turn of "conversations" has no "value" text'


def _asked(entry: dict[str, Json]) -> tuple[str, ...]:
    """What a person asked, turn by turn, up to the first that is empty."""
    turns = entry["conversations"]
    if not turns or turns[0].get("from") not in HUMAN:
        return ()
    asked: list[str] = []
    for turn in turns:
        if turn.get("from") in HUMAN:
            if not turn["value"].strip():
                break
            asked.append(turn["value"])
    return tuple(asked)
