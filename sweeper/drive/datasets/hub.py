"""Prompts through the ``datasets`` library: from the Hugging Face hub or a local folder."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from sweeper.drive.datasets.entry import mistakes_of, to_prompt
from sweeper.drive.datasets.jsonl import first, listed
from sweeper.errors import DatasetError, get_extra
from sweeper.values import Json, Prompt

COLUMNS = {
    "prompt": ("prompt", "question", "instruction", "text"),
    "messages": ("messages", "conversations"),
    "category": ("category", "task", "subject"),
    "reference": ("reference", "answer", "solution"),
    "id": ("id", "task_id", "question_id"),
}
"""Of each key, the columns it is looked for in, where ``dataset.columns`` does not name one."""
ROLES = {"human": "user", "gpt": "assistant", "chatgpt": "assistant", "model": "assistant"}
"""What speakers are called in turns with ``from`` and ``value``; other names stay."""


def read_hub(
    path: str,
    *,
    subset: str | None,
    split: str,
    revision: str | None,
    columns: Mapping[str, str],
    chat: bool,
    limit: int | None,
) -> tuple[tuple[Prompt, ...], tuple[str, ...]]:
    """The first ``limit`` rows, which alone are checked, and a note on answers left out; rows are
    numbered from 1 in messages.

    ``chat`` sends a column of plain texts as user turns.
    """
    rows = _rows(path, subset, split, revision)
    names = _columns(path, rows.column_names, columns)
    taken = islice(rows, limit) if limit and limit > 0 else rows
    entries = [_entry(row, names, chat) for row in taken]
    answered = [entry for entry in entries if _without_answer(entry)]
    found = [(n, text) for n, e in enumerate(entries, start=1) for text in mistakes_of(e)]
    seen: dict[str, int] = {}
    for number, entry in enumerate(entries, start=1):
        name = entry.get("id") or f"row-{number}"
        if seen.setdefault(name, number) != number:
            found.append((number, f'the id "{name}" is that of row {seen[name]} too'))
    if found:
        raise DatasetError(listed(path, found))
    prompts = tuple(to_prompt(e, f"row-{n}") for n, e in enumerate(entries, start=1))
    note = f"{len(answered)} of {len(prompts)} conversations end with an answer: it is not sent"
    return first(path, prompts, limit), (note,) if answered else ()


def _rows(path: str, subset: str | None, split: str, revision: str | None) -> Any:
    try:
        import datasets
    except ImportError:
        raise DatasetError(f"dataset=hf needs the package datasets: {get_extra('hf')}") from None
    try:
        if (Path(path) / "state.json").is_file():
            return datasets.load_from_disk(path)
        if (Path(path) / "dataset_dict.json").is_file():
            return datasets.load_from_disk(path)[split]
        return datasets.load_dataset(path, subset, split=split, revision=revision)
    except Exception as problem:  # the library raises whatever its readers raise
        reason = " ".join(str(problem).split())[:300]
        raise DatasetError(f"{path} (split {split}): {type(problem).__name__}: {reason}") from None


def _columns(path: str, there: list[str], asked: Mapping[str, str]) -> dict[str, str]:
    """Column by key."""
    for key, column in asked.items():
        if key not in COLUMNS:
            raise DatasetError(f"dataset.columns.{key}: the keys are {', '.join(COLUMNS)}")
        if column not in there:
            raise DatasetError(
                f"dataset.columns.{key}: {path} has no column {column}; it has {', '.join(there)}"
            )
    found = dict(asked)
    for key, candidates in COLUMNS.items():
        named = next((name for name in candidates if name in there), None)
        if named and key not in found and not ({key, *found} >= {"prompt", "messages"}):
            found[key] = named
    if not {"prompt", "messages"} & set(found):
        raise DatasetError(
            f"{path}: no column of prompts among {', '.join(there)}; name it with "
            "dataset.columns.prompt=COLUMN or dataset.columns.messages=COLUMN"
        )
    return found


def _entry(row: Mapping[str, Json], names: Mapping[str, str], chat: bool) -> dict[str, Json]:
    entry = {key: row[column] for key, column in names.items()}
    for key in ("id", "reference", "category"):
        if isinstance(entry.get(key), int | float):
            entry[key] = str(entry[key])
    if not entry.get("reference"):
        entry.pop("reference", None)
    if chat and isinstance(entry.get("prompt"), str) and entry["prompt"].strip():
        entry["messages"] = [{"role": "user", "content": entry.pop("prompt")}]
    if isinstance(entry.get("messages"), list):
        entry["messages"] = [_turn(turn) for turn in entry["messages"]]
    return entry


def _turn(turn: Json) -> Json:
    """A message of a row; Arrow gives every one the keys of all, and null where it had none."""
    if not isinstance(turn, dict):
        return turn
    found = {key: value for key, value in turn.items() if value is not None}
    if found.keys() == {"from", "value"}:
        who = str(found["from"])
        return {"role": ROLES.get(who, who), "content": found["value"]}
    return found


def _without_answer(entry: dict[str, Json]) -> bool:
    """Leave out what follows the last user turn, when that is the model's to write."""
    messages, count = entry.get("messages"), 0
    if not isinstance(messages, list):
        return False
    while len(messages) > 1 and isinstance(messages[-1], dict):
        if messages[-1].get("role") != "assistant":
            break
        messages.pop()
        count += 1
    return count > 0
