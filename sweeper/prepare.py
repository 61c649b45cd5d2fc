"""From composed configurations to the plan: every check that needs no server, all at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from sweeper.config import Settings, settings_from_mapping
from sweeper.drive.datasets.chosen import answers_of, dataset_of, prompts
from sweeper.drive.datasets.jsonl import MISTAKES_SHOWN
from sweeper.drive.requests import too_many
from sweeper.errors import UserError
from sweeper.plan.checkpoints import check_checkpoints
from sweeper.plan.findings import Findings
from sweeper.plan.grid import plan as plan_of
from sweeper.plan.points import baseline_of, point_of, unchecked_point
from sweeper.plan.prompts import check_prompts, count_prompt_tokens
from sweeper.plan.whole import conflicts
from sweeper.serve.installed import Installed, installed, missing_vllm, refusal, skip_reason
from sweeper.serve.preflight import preflight
from sweeper.values import Dataset, Group, Job, Json, Plan, Point, Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed:
    """One configuration as Hydra composed it, with the overrides that made it.

    ``problem`` says why it could not be composed; then there is no ``data``.
    """

    overrides: tuple[str, ...]
    data: Mapping[str, Json]
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A plan; ``settings`` are those of its first job, ``None`` when no job could be typed.

    ``notes`` are sentences about the checks themselves, such as one that could not be made.
    """

    plan: Plan
    settings: Settings | None
    notes: tuple[str, ...]


@dataclass(slots=True)
class _Candidate:
    number: int
    overrides: tuple[str, ...]
    settings: Settings
    point: Point
    mistakes: list[str]


def prepare(composed: Sequence[Composed]) -> Prepared:
    """Check everything and plan; mistakes become refusals, or skipped points where asked for."""
    candidates, refusals = _candidates(composed)
    if not candidates:
        return Prepared(
            plan=Plan(jobs=(), groups=(), refusals=tuple(refusals)), settings=None, notes=()
        )
    settings = _sweep_wide(candidates, refusals)
    _refuse_mixed_external(candidates)
    _refuse_shared_trees(candidates)
    unmeasurable = {
        c.point.key: reason
        for c in candidates
        if not c.mistakes and (reason := skip_reason(c.point, _here(c.point)))
    }
    notes = _ask_vllm([c for c in candidates if c.point.key not in unmeasurable], settings)
    bad = [c for c in candidates if c.mistakes]
    if settings.on_invalid == "stop":
        refusals += [_refusal(c) for c in bad]
        candidates = [c for c in candidates if not c.mistakes]
    skips = unmeasurable | {c.point.key: "\n".join(c.mistakes) for c in candidates if c.mistakes}
    plan = plan_of(
        [Job(number=c.number, overrides=c.overrides, point=c.point) for c in candidates],
        baseline=settings.baseline,
        refusals=sorted(refusals, key=lambda r: r.number),
        skips=skips,
    )
    return Prepared(plan=plan, settings=settings, notes=notes)


def runnable(plan: Plan) -> None:
    """Is there a vLLM on this machine for every server that is to be started here?

    :raises UserError: when there is none.
    """
    for group in plan.groups:
        here = installed(group.server.command) if group.server.kind == "vllm" else None
        if here and here.vllm is None:
            raise UserError(missing_vllm(here))


def server_versions(plan: Plan) -> dict[str, Json]:
    """The vLLM of every server's Python, ``None`` where it is not on this machine."""
    commands = {g.server.command for g in plan.groups if g.server.kind == "vllm"}
    found = {command[0]: installed(command) for command in sorted(commands)}
    return {name: here and here.vllm for name, here in found.items()}


def builds_for_cpu(group: Group) -> bool:
    """Whether the group's vLLM, where it is on this machine, is a CPU build: it holds no GPU."""
    here = installed(group.server.command) if group.server.kind == "vllm" else None
    return here is not None and here.cpu


def _candidates(composed: Sequence[Composed]) -> tuple[list[_Candidate], list[Refusal]]:
    """Typed configurations with all their mistakes, and those that could not even be typed."""
    candidates, refusals = [], []
    for number, one in enumerate(composed):
        try:
            if one.problem:
                raise UserError(one.problem)
            settings = answers_of(settings_from_mapping(one.data))
            candidates.append(_candidate(number, one.overrides, settings, dataset_of(settings)))
        except UserError as problem:
            refusals.append(Refusal(number=number, overrides=one.overrides, reason=str(problem)))
    return candidates, refusals


def _candidate(
    number: int, overrides: tuple[str, ...], settings: Settings, dataset: Dataset
) -> _Candidate:
    try:
        point = point_of(settings, dataset)
        point = replace(point, warnings=(*dataset.notes, *point.warnings))
    except UserError as problem:
        point = unchecked_point(settings, dataset)
        return _Candidate(number, overrides, settings, point, str(problem).splitlines())
    mistakes = refusal(point, _here(point)).splitlines()
    mistakes += too_many(dataset.prompts, point.repeats, point.load).splitlines()
    if settings.server.kind == "vllm":
        found = check_checkpoints(point, _longest(baseline_of(point)))
        read = _unfit(baseline_of(point))
        mistakes += (*found.mistakes, *read.mistakes)
        said = (*point.warnings, *found.warnings, *read.warnings)
        point = replace(point, warnings=tuple(dict.fromkeys(said)))
    return _Candidate(number, overrides, settings, point, mistakes)


def _refusal(candidate: _Candidate) -> Refusal:
    return Refusal(
        number=candidate.number,
        overrides=candidate.overrides,
        reason="\n".join(candidate.mistakes),
    )


def _sweep_wide(candidates: Sequence[_Candidate], refusals: Sequence[Refusal]) -> Settings:
    """The settings of the first job, whose sweep-wide ones are those of all.

    :raises UserError: they are not; with everything else that is wrong.
    """
    found = conflicts([c.settings for c in candidates])
    if found:
        others = [*refusals, *(_refusal(c) for c in candidates if c.mistakes)]
        for one in sorted(others, key=lambda refusal: refusal.number):
            asked = " ".join(one.overrides) or "(defaults)"
            found += [f"{asked}: {line}" for line in one.reason.splitlines()]
        raise UserError("\n".join(found))
    return candidates[0].settings


def _refuse_mixed_external(candidates: Iterable[_Candidate]) -> None:
    """A running server has one setting; a sweep over several would measure the same one twice."""
    seen: dict[str, str] = {}
    for one in candidates:
        url = one.point.server.base_url
        first = seen.setdefault(url, one.point.label) if url else one.point.label
        if first != one.point.label:
            one.mistakes.append(
                f"the running server {url} cannot be {first} and {one.point.label} at once; "
                f"measure one, or let server=vllm start them"
            )


def _refuse_shared_trees(candidates: Iterable[_Candidate]) -> None:
    """A suffix tree over all requests is emptied by nothing but a new server: every point gets one,
    repeats would need one each."""
    for one in candidates:
        point = one.point
        if point.keeps_tree and point.cache == "cold" and point.repeats > 1:
            one.mistakes.append(
                "cache: cold: suffix keeps a tree over all earlier requests, which only a new "
                "server empties, and there are several repeats; use cache=warm or cache=as_is, or "
                "method.speculative.suffix_decoding_max_cached_requests=0"
            )


def _ask_vllm(candidates: Sequence[_Candidate], settings: Settings) -> tuple[str, ...]:
    """vLLM's own checks of every server, baselines included, in one process."""
    if not settings.preflight:
        return ("vLLM was not asked about the servers (preflight=false)",)
    points = [c.point for c in candidates if not c.mistakes]
    servers = {p.server.key: p.server for p in points}
    if settings.baseline != "off":
        servers |= {(b := baseline_of(p).server).key: b for p in points if p.server.kind == "vllm"}
    said = preflight(list(servers.values()))
    for one in candidates:
        finding = said.findings.get(one.point.server.key)
        if finding and finding.error and not one.mistakes:
            one.mistakes.append(f"vLLM refuses this server: {finding.error}")
        base = said.findings.get(baseline_of(one.point).server.key)
        if base and base.error and not one.mistakes:
            one.mistakes.append(f"vLLM refuses its baseline's server: {base.error}")
    return tuple(f"not asked about the servers: {reason}" for reason in said.unasked)


def _here(point: Point) -> Installed | None:
    return installed(point.server.command) if point.server.kind == "vllm" else None


@cache
def _longest(baseline: Point) -> int | None:
    """Tokens of the longest prompt; all methods under one baseline's conditions ask once."""
    return count_prompt_tokens(baseline, prompts(baseline.dataset))


@cache
def _unfit(baseline: Point) -> Findings:
    """Which prompts the target cannot take; those that do not fit as :func:`_longest` says."""
    found = check_prompts(baseline, prompts(baseline.dataset))
    shown, more = found.mistakes[:MISTAKES_SHOWN], len(found.mistakes) - MISTAKES_SHOWN
    return replace(found, mistakes=shown if more <= 0 else (*shown, f"and {more} more"))
