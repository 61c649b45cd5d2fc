"""Every answer of a sweep graded, after everything was measured: ``quality.json`` of each point."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from os import cpu_count
from pathlib import Path

from sweeper import store
from sweeper.drive.datasets import prompts_of
from sweeper.errors import ConfigError, ServerError, UserError
from sweeper.quality.judge_model import preferences
from sweeper.quality.match import exact_match
from sweeper.quality.programs import program
from sweeper.quality.validity import invalid
from sweeper.scores import Grade, Grader, Quality
from sweeper.serve.sandbox import Limits, run_code
from sweeper.store import PointFolder, SweepFolder
from sweeper.values import Dataset, Json, PlannedPoint, Prompt, RequestRecord, Sweep, content_key

AT_ONCE = 4
"""Programs that run at the same time, at most."""

Say = Callable[[str], None]
Programs = dict[tuple[str, ...], str]
"""What stopped each program that ran; arms mostly give the same answers."""


def grade(folder: SweepFolder, grader: Grader, say: Say) -> None:
    """Grade every completed point whose answers have not been graded like this yet.

    What people have to do (``blind``) is left alone; what cannot be done is said in the files, and
    tried again the next time.
    """
    if grader.name in ("none", "blind"):
        return
    sweep, ran = store.read_sweep(folder), Programs()
    for planned in sweep.plan.points:
        home = folder.point(planned)
        result, there = home.read_result(), home.read_quality()
        if result is None or result.status != "completed":
            continue
        base = _baseline(folder, sweep, planned)
        key = _key(grader, home, base if grader.name == "judge_model" else None)
        if there is not None and there.key == key and not there.problem:
            continue
        found = _graded(planned, home, base, grader, ran)
        if found is not None:
            store.write_json(home.quality, store.to_json(replace(found, key=key)))
            say(f"quality of {planned.point.label} {planned.point.dataset.name}: {_said(found)}")


def _baseline(folder: SweepFolder, sweep: Sweep, planned: PlannedPoint) -> PointFolder | None:
    found = (p for p in sweep.plan.points if p.number == planned.baseline)
    return next((folder.point(p) for p in found), None)


def _key(grader: Grader, *homes: PointFolder | None) -> str:
    files = [hashlib.sha256(h.requests.read_bytes()).hexdigest() for h in homes if h]
    return content_key([asdict(grader), files])


def _said(found: Quality) -> str:
    if found.problem:
        return f"not measured: {found.problem}"
    if found.preferences:
        return f"{len(found.preferences)} pairs judged"
    return f"{sum(g.passed for g in found.grades)} of {len(found.grades)} answers pass"


def _graded(
    planned: PlannedPoint,
    home: PointFolder,
    base: PointFolder | None,
    grader: Grader,
    ran: Programs,
) -> Quality | None:
    """``None`` where this grader has nothing to say of this point."""
    try:
        dataset = planned.point.dataset
        prompts = {p.id: p for p in prompts_of(dataset)}
        kind = _kind(grader, dataset, prompts)
        if kind == "none" or (kind == "judge_model" and base is None):
            return None
        answers = [r for r in home.records() if not r.error and r.prompt_id in prompts]
        silent = not any(r.text for r in answers)
        if silent and any((r.completion_tokens or 0) > 1 for r in answers):
            raise ConfigError("the server gave token ids and no text, which is what is graded")
        if kind == "judge_model" and base is not None:
            asked = list(prompts.values())[: grader.pairs]
            liked = preferences(asked, base.records(), home.records(), grader)
            return Quality(grader=kind, key="", preferences=liked)
        grades = _grades(kind, answers, prompts, grader, ran)
        return Quality(grader=kind, key="", grades=tuple(grades))
    except (ServerError, UserError) as problem:
        return Quality(grader=grader.name, key="", problem=str(problem))


def _kind(grader: Grader, dataset: Dataset, prompts: Mapping[str, Prompt]) -> str:
    if grader.name != "by_dataset":
        return grader.name
    if any(p.tests for p in prompts.values()):
        return "unit_tests"
    if any(p.schema for p in prompts.values()):
        return "validity"
    return "exact_match" if dataset.format == "gsm8k" else "none"


def _grades(
    kind: str,
    answers: Sequence[RequestRecord],
    prompts: Mapping[str, Prompt],
    grader: Grader,
    ran: Programs,
) -> Iterator[Grade]:
    if kind == "unit_tests":
        answers = [r for r in answers if prompts[r.prompt_id].tests]
        why = _tested(answers, prompts, grader, ran)
    elif kind == "exact_match":
        answers = [r for r in answers if _has_reference(r, prompts[r.prompt_id])]
        why = [exact_match(r.text, prompts[r.prompt_id].reference or "", grader.answer)
               for r in answers]  # fmt: skip
    else:
        if grader.name == "by_dataset":
            answers = [r for r in answers if prompts[r.prompt_id].schema]
        schema = _schema(grader)
        why = [_invalid(r, prompts[r.prompt_id], grader, schema) for r in answers]
    if not answers:
        wanted = {"unit_tests": "tests", "exact_match": "a reference"}.get(kind, "an answer")
        raise ConfigError(f"no prompt with {wanted}")
    for r, text in zip(answers, why, strict=True):
        yield Grade(prompt_id=r.prompt_id, turn=r.turn, repeat=r.repeat, passed=not text, why=text)


def _invalid(answer: RequestRecord, prompt: Prompt, grader: Grader, schema: Json) -> str:
    """A prompt's own schema goes before what the sweep asks of all."""
    if prompt.schema is None:
        return invalid(answer.text, grader, schema)
    own = replace(grader, valid="json_schema")
    return invalid(answer.text, own, json.loads(prompt.schema))


def _has_reference(answer: RequestRecord, prompt: Prompt) -> bool:
    """A reference is the expected answer to the last turn."""
    return bool(prompt.reference) and answer.turn == prompt.turns - 1


def _tested(
    answers: Sequence[RequestRecord],
    prompts: Mapping[str, Prompt],
    grader: Grader,
    ran: Programs,
) -> list[str]:
    limits = Limits(seconds=grader.seconds, memory_mb=grader.memory_mb)
    programs = [program(prompts[r.prompt_id], r.text) for r in answers]
    new = [parts for parts in dict.fromkeys(programs) if parts not in ran]
    if new:
        run_code(["pass"], limits)  # once, so that a missing sandbox is said once
    with ThreadPoolExecutor(min(AT_ONCE, cpu_count() or 1)) as pool:
        ran |= zip(new, pool.map(lambda parts: run_code(parts, limits), new), strict=True)
    return [ran[parts] for parts in programs]


def _schema(grader: Grader) -> Json:
    if grader.valid != "json_schema":
        return None
    try:
        return json.loads(Path(grader.schema or "").read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise ConfigError(f"quality.schema: {grader.schema}: {problem}") from None
