"""The rollout log: one JSON object a line and batch, written by a sweep or by a trainer.

``policy_version`` is required, and of the rest what there is: ``drafted`` and ``accepted`` tokens,
or ``acceptance_rate``; for tokens per step ``tokens``, ``sequences`` and ``decode_steps``. Other
keys are the trainer's own. ``docs/rollouts.md`` has all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from sweeper.errors import StoreError
from sweeper.values import Json, RolloutBatch

_COUNTS = ("batch", "prompts", "sequences", "tokens", "drafts", "drafted", "accepted")
_WHOLE = frozenset({*_COUNTS, "decode_steps"})
_NUMBERS = _WHOLE | {"seconds", "tail_s", "acceptance_rate"}


@dataclass(frozen=True, slots=True)
class RolloutLog:
    """A file that a trainer appends to after every rollout batch."""

    path: Path

    def append(self, batch: RolloutBatch) -> None:
        """Add one line; what is ``None`` is left out."""
        known = {name: value for name, value in asdict(batch).items() if value not in (None, "")}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(known, allow_nan=False) + "\n")

    def batches(self) -> tuple[RolloutBatch, ...]:
        """Every complete line.

        :raises StoreError: which names the first line that is none of a rollout log.
        """
        return tuple(self._read())

    def _read(self) -> Iterator[RolloutBatch]:
        try:
            text = self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as problem:
            raise StoreError(f"{self.path}: cannot be read: {problem}") from None
        *lines, last = text.split("\n")  # JSON may hold what else ends a line
        for number, line in enumerate([*lines, last] if last else lines, 1):
            try:
                data = json.loads(line)
            except ValueError:
                if number <= len(lines):
                    raise StoreError(f"{self.path}:{number}: not JSON") from None
                return  # the last line of a trainer that is still writing
            if mistake := _mistake(data):
                raise StoreError(f"{self.path}:{number}: {mistake}")
            yield _batch(data)


def _mistake(data: Json) -> str:
    if not isinstance(data, dict):
        return "not an object with policy_version"
    if not isinstance(data.get("policy_version"), str | int) or data["policy_version"] is True:
        return "policy_version: missing; a name or number of the weights that sampled the batch"
    for name in sorted(_NUMBERS & data.keys()):
        if data[name] is not None and not _is_number(name, data[name]):
            kind = "a whole number" if name in _WHOLE else "a number"
            return f"{name}: {json.dumps(data[name])}: {kind}, at least 0"
    drafted, accepted = data.get("drafted"), data.get("accepted")
    if drafted is not None and accepted is not None and accepted > drafted:
        return (
            f"accepted: {accepted} of {drafted} drafted tokens; are they differences over a batch?"
        )
    if (rate := data.get("acceptance_rate")) is not None and rate > 1:
        return f"acceptance_rate: {rate:g}: accepted over drafted tokens, from 0 to 1"
    return ""


def _is_number(name: str, value: Json) -> bool:
    kinds = int if name in _WHOLE else int | float
    return isinstance(value, kinds) and not isinstance(value, bool) and 0 <= value < float("inf")


def _batch(data: dict[str, Json]) -> RolloutBatch:
    names = {field.name for field in fields(RolloutBatch)}
    known = {name: value for name, value in data.items() if name in names}
    return RolloutBatch(**known | {"policy_version": str(data["policy_version"])})
