"""Files of JSON lines in UTF-8, one prompt a line: ours, users' and those of benchmarks."""

from __future__ import annotations

import hashlib
import json
import shlex
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import zip_longest
from pathlib import Path

from sweeper.drive.datasets.entry import mistakes_of, to_prompt
from sweeper.errors import DatasetError
from sweeper.values import Json, Prompt

MISTAKES_SHOWN = 20

Mistake = tuple[int, str]
"""Line number from 1, and ``what is wrong; what would be right``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What an object of one line holds.

    ``to_prompt`` gets an entry without mistakes and the id to take where it has none. ``id_key``
    names the entry's id. ``in_turn`` takes a prompt of each category in turn, so that the first
    few are of all of them.
    """

    mistakes_of: Callable[[Json], Iterable[str]]
    to_prompt: Callable[[dict[str, Json], str], Prompt]
    id_key: str = "id"
    in_turn: bool = False


OURS = Shape(mistakes_of=mistakes_of, to_prompt=to_prompt)


def read_prompts(
    path: Path, *, limit: int | None = None, shape: Shape = OURS
) -> tuple[Prompt, ...]:
    """The first ``limit`` prompts of a file, all of them by default.

    The whole file is checked whatever the limit. Raises :class:`DatasetError` that lists every
    mistake, the first 20 in words.
    """
    return _parse(path, read_bytes(path), limit, shape)


def digest(path: Path) -> str:
    """SHA-256 of the file's bytes, in hex."""
    return hashlib.sha256(read_bytes(path)).hexdigest()


def shipped(name: str) -> Path:
    """Where the prompt file ``name`` (without ``.jsonl``) of this package is."""
    files = {file.stem: file for file in (Path(__file__).parent / "data").glob("*.jsonl")}
    if name not in files:
        names = ", ".join(sorted(files))
        raise DatasetError(f'no shipped dataset "{name}"; {_meant(name, files)}shipped: {names}')
    return files[name]


def read_bytes(path: Path) -> bytes:
    """The file's bytes, or what to do about a file that cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise DatasetError(f"{path}: no such file; {_sibling(path)}") from None
    except OSError as error:
        raise DatasetError(f"{path}: {error.strerror}; give a readable JSONL file") from None


def _sibling(path: Path) -> str:
    if not path.parent.is_dir():
        return f"the folder {path.parent} does not exist either"
    names = [entry.name for entry in path.parent.iterdir() if entry.is_file()]
    return _meant(path.name, names).strip() or "give the path of a JSONL file"


def _meant(word: str, known: Sequence[str] | dict[str, Path]) -> str:
    close = get_close_matches(word, known, n=1)
    return f'did you mean "{close[0]}"? ' if close else ""


def _parse(path: Path, data: bytes, limit: int | None, shape: Shape) -> tuple[Prompt, ...]:
    text = data.removeprefix(BOM_UTF8)
    if not text.strip():
        raise DatasetError(f"{path}: the file is empty; write one JSON object a line")
    if text.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        fix = f"convert it with: iconv -f UTF-16 -t UTF-8 {shlex.quote(str(path))}"
        raise DatasetError(f"{path}:1: the file is UTF-16, not UTF-8; {fix}")
    lines = text.removesuffix(b"\n").split(b"\n")
    entries: dict[int, Json] = {}
    mistakes = list(_encoding_mistakes(path, data))
    for number, line in enumerate(lines, 1):
        try:
            entries[number] = _entry(line.removesuffix(b"\r"))
        except DatasetError as error:
            mistakes.append((number, str(error)))
    mistakes += [(n, text) for n, entry in entries.items() for text in shape.mistakes_of(entry)]
    mistakes += _duplicates(entries, shape.id_key)
    if shape is OURS and not mistakes:
        mistakes += _other_kind(entries)
    if mistakes:
        raise DatasetError(listed(path, mistakes))
    prompts = tuple(
        replace(shape.to_prompt(entry, f"line-{number}"), line=number)
        for number, entry in entries.items()
    )
    return first(path, in_turn(prompts) if shape.in_turn else prompts, limit)


def in_turn(prompts: Sequence[Prompt]) -> tuple[Prompt, ...]:
    """The first prompt of every category, then the second of every one, and so on."""
    by_category: dict[str | None, list[Prompt]] = {}
    for prompt in prompts:
        by_category.setdefault(prompt.category, []).append(prompt)
    rounds = zip_longest(*by_category.values())
    return tuple(prompt for each in rounds for prompt in each if prompt is not None)


def _entry(raw: bytes) -> Json:
    """The JSON value of a line; the error has no place yet."""
    if not raw.strip():
        raise DatasetError("the line is blank; remove it")
    try:
        return json.loads(raw.decode(), object_pairs_hook=_no_key_twice)
    except UnicodeDecodeError as error:
        byte = f"byte {error.start + 1} of the line is 0x{raw[error.start]:02x}"
        raise DatasetError(f"{byte}, which is not UTF-8; save the file as UTF-8") from None
    except json.JSONDecodeError as error:
        reason = f"{error.msg} at column {error.colno}"
        raise DatasetError(f"not JSON: {reason}; write one whole JSON object a line") from None
    except (RecursionError, ValueError):  # nested, or a number of digits, beyond Python's limits
        raise DatasetError('not a prompt; write {"prompt": "..."}') from None


def _no_key_twice(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """Python would silently keep the last of two equal keys."""
    entry = dict(pairs)
    if len(entry) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise DatasetError(f'the key "{twice}" is there twice; keep one')
    return entry


def _encoding_mistakes(path: Path, data: bytes) -> Iterator[Mistake]:
    """What a whole file has or has not, told once and not for every line."""
    file = shlex.quote(str(path))
    if data.startswith(BOM_UTF8):
        fix = rf"remove it with: sed -i '1s/^\xEF\xBB\xBF//' {file}"
        yield 1, f"the file starts with a UTF-8 byte order mark; {fix}"
    crlf = data.count(b"\r\n")
    if crlf:
        first = data[: data.index(b"\r\n")].count(b"\n") + 1
        fix = rf"convert the file with: sed -i 's/\r$//' {file}"
        yield first, f"the line ends in CRLF ({crlf} in the file); {fix}"


def _duplicates(entries: dict[int, Json], id_key: str) -> Iterator[Mistake]:
    seen: dict[str, int] = {}
    for number, entry in entries.items():
        given = entry.get(id_key) if isinstance(entry, dict) else None
        name = str(given) if isinstance(given, str | int) else f"line-{number}"
        first = seen.setdefault(name, number)
        if first != number:
            yield number, f'the id "{name}" is that of line {first} too; ids must be unique'


def _other_kind(entries: dict[int, Json]) -> Iterator[Mistake]:
    """The first line that goes to another endpoint than those before: what is tried and recorded
    of one would not hold for the other."""
    known = ""
    for number, entry in entries.items():
        given = [k for k in ("messages", "prompt") if isinstance(entry, dict) and entry.get(k)]
        if len(given) != 1 or given[0] == known:
            continue
        if known:
            yield (
                number,
                (
                    f'"{given[0]}" after lines with "{known}", which go to another endpoint; '
                    "write one kind a file"
                ),
            )
            return
        known = given[0]


def listed(path: Path | str, mistakes: Iterable[Mistake]) -> str:
    """Mistakes in the order of their lines, one ``file:line: what; fix`` each, 20 at most."""
    ordered = sorted(mistakes, key=lambda mistake: mistake[0])
    lines = [f"{path}:{number}: {text}" for number, text in ordered[:MISTAKES_SHOWN]]
    more = len(ordered) - len(lines)
    return "\n".join([*lines, f"and {more} more"] if more else lines)


def first(path: Path | str, prompts: tuple[Prompt, ...], limit: int | None) -> tuple[Prompt, ...]:
    """The first ``limit`` of the prompts that ``path`` holds."""
    if limit is None:
        return prompts
    if limit < 1:
        raise DatasetError(f"{path}: the limit is {limit}; ask for 1 prompt or more, or null: all")
    if limit > len(prompts):
        raise DatasetError(
            f"{path}: the limit asks for {limit} prompts and the file holds {len(prompts)}; "
            f"lower the limit to {len(prompts)} or leave it out"
        )
    return prompts[:limit]
