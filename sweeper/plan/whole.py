"""Settings that hold for a whole sweep and therefore cannot be swept."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, is_dataclass

from sweeper.config import Settings
from sweeper.values import Json

NAMES = (
    *("baseline", "mode", "on_invalid", "preflight", "tracker", "seed", "slo", "verdict"),
    *("check", "quality", "profile", "output_dir", "detach", "resume", "resume_changed", "budget"),
    *("log_level", "control"),
)


def conflicts(settings: Sequence[Settings]) -> list[str]:
    """A sentence for each of them that the configurations of one sweep set to several values."""
    return [
        f"{path}: holds for a whole sweep and cannot be swept: {', '.join(said)}"
        for name in NAMES
        for path, values in _leaves(name, [getattr(each, name) for each in settings])
        if len(said := dict.fromkeys(map(_said, values))) > 1
    ]


def _said(value: Json) -> str:
    """As it is written in a configuration."""
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def _leaves(path: str, values: Sequence[Json]) -> Iterator[tuple[str, Sequence[Json]]]:
    """The values themselves, or the fields in which objects differ: the name alone, where it
    differs."""
    if not is_dataclass(values[0]):
        yield path, values
        return
    fields = [asdict(value) for value in values]
    named = {each.get("name") for each in fields}
    for name in ("name",) if len(named) > 1 else fields[0]:
        where = path if name == "name" else f"{path}.{name}"
        yield where, [each[name] for each in fields]
