"""The requests of a point for the page: prompt, answer, and what each step gave to it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from sweeper.drive.datasets import prompts_of
from sweeper.errors import UserError
from sweeper.plan.checkpoint import Absent, find
from sweeper.plan.tokens import tokenizer
from sweeper.records import ids_of
from sweeper.values import Dataset, Json, Point, RequestRecord, SpecCounts

Steps = list[tuple[str, str, int, int]]
"""Of each decode step: the accepted text, the bonus token's, drafted, accepted tokens."""


def tokenizer_of(point: Point) -> Any:
    """The target's, where its files and the package ``tokenizers`` are here; else ``None``."""
    found = find(point.server.model, point.server.revision, os.environ)
    return None if isinstance(found, Absent) else tokenizer(found.folder)


def answers(records: Sequence[RequestRecord], point: Point, coder: Any) -> Json:
    """One entry a request, in the order they were sent."""
    return [_answer(r, point, coder) for r in sorted(records, key=lambda r: r.sent_ns)]


def _answer(record: RequestRecord, point: Point, coder: Any) -> Json:
    spec = record.spec
    steps, reason = (None, "") if point.is_baseline else steps_of(record, coder)
    return {
        "id": record.prompt_id,
        "category": record.category,
        "repeat": record.repeat,
        "turn": record.turn,
        "seconds": round(record.request_time_s, 4),
        "tokens": record.completion_tokens,
        "finish": record.finish_reason,
        "error": record.error,
        "text": record.text,
        "spec": [spec.verify_steps, spec.drafted, spec.accepted] if spec else None,
        "decode_steps": record.decode_steps,
        "steps": steps,
        "why": reason,
        "strip": _strip(spec) if spec and steps is None else None,
    }


def _strip(spec: SpecCounts) -> Json:
    """Drafted and accepted tokens a step, where the text of the steps is not known."""
    if spec.per_step_drafted is None or spec.per_step_accepted is None:
        return None
    return list(zip(spec.per_step_drafted, spec.per_step_accepted, strict=True))


def steps_of(record: RequestRecord, coder: Any) -> tuple[Steps | None, str]:
    """The answer cut by decode step, or why it cannot be.

    vLLM tells drafted and accepted tokens of the steps that had a draft, not where they stand
    among those that had none; so it takes an answer in which every step had one.
    """
    spec, ids = record.spec, ids_of(record)
    if record.error or spec is None or not spec.drafted:
        return None, "no draft was made for this answer"
    if spec.per_step_drafted is None or spec.per_step_accepted is None:
        return None, "the server reported no single steps"
    if record.decode_steps is None:
        return None, "steps without a draft are not counted where requests overlap"
    if record.decode_steps != spec.verify_steps:
        without = record.decode_steps - spec.verify_steps
        return None, f"{without} of {record.decode_steps} steps had no draft, and which is not told"
    if ids is None or coder is None:
        return None, "the target's tokenizer is not on this machine"
    cuts = _cuts(spec.per_step_accepted, len(ids))
    pieces = _texts(coder, ids, cuts)
    if "".join(pieces) != record.text:
        return None, "the text does not come out of its tokens one by one"
    first: Steps = [("", pieces[0], 0, 0)]
    counts = zip(spec.per_step_drafted, spec.per_step_accepted, strict=True)
    pairs = zip(pieces[1::2], pieces[2::2], counts, strict=False)
    return first + [(good, bonus, *both) for good, bonus, both in pairs], ""


def _cuts(accepted: Sequence[int], length: int) -> list[int]:
    """Where the prefill token, each step's accepted tokens and each bonus token end."""
    cuts = [1]
    for count in accepted:
        cuts += [cuts[-1] + count, cuts[-1] + count + 1]
    return [min(cut, length) for cut in cuts]


def _texts(coder: Any, ids: Sequence[int], cuts: Sequence[int]) -> list[str]:
    """The text between the cuts; a character of several tokens goes to the last of them."""
    starts = [0, *cuts[:-1]]
    quick = coder.decode_batch([list(ids[a:b]) for a, b in zip(starts, cuts, strict=True)])
    if "".join(quick) == coder.decode(list(ids)):
        return [str(text) for text in quick]
    whole = coder.decode_batch([list(ids[:b]) for b in cuts])
    texts, done = [], 0
    for text in whole:
        sure = text.rstrip("�")
        texts.append(sure[done:])
        done = max(done, len(sure))
    return texts


def prompts(dataset: Dataset) -> Json:
    """What was asked, turn by turn, by the prompt's id; empty where the file is gone or changed."""
    try:
        return {p.id: [p.asked, *p.follow_ups] for p in prompts_of(dataset)}
    except UserError:
        return {}


def block(value: Json) -> str:
    """JSON that is safe inside a script element, whatever a model wrote."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
