"""What points and groups of points are called on paper, so that no two rows look alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from sweeper.judge.against import OFF
from sweeper.judge.compare import Comparison
from sweeper.values import Json, Point, content_key

NOT_MEASURED = "not measured"
OF_BASELINES = ("no speculation", "is the baseline")
"""Reasons for which a dash says enough."""
LOW_COVERAGE = 0.9
"""Under this draft coverage 1+A/S says little about the speed of a step."""

Group = tuple[Comparison, ...]


def groups(comparisons: Sequence[Comparison]) -> tuple[Group, ...]:
    """The points that share a baseline, the baseline first, in order of appearance."""
    found: dict[str, list[Comparison]] = {}
    for one in comparisons:
        found.setdefault(_shared(one), []).append(one)
    return tuple(tuple(sorted(g, key=lambda c: not c.point.is_baseline)) for g in found.values())


def _shared(one: Comparison) -> str:
    if one.baseline is not None:
        return str(one.baseline)
    return str(one.number) if one.point.is_baseline else content_key(one.point.conditions)


def heading(group: Group) -> str:
    """``chat · greedy (T=0, up to 96 tokens) · sequential · org/model``."""
    point = group[0].point
    sampling = f"{point.sampling.name} (T={point.sampling.temperature:g}, up to"
    own = group[-1].point.label if point.before else ""
    return " · ".join(
        (
            point.dataset.label,
            f"{sampling} {point.sampling.max_tokens} tokens)",
            point.load.label,
            point.target,
            *((group[0].conditions,) if group[0].conditions else ()),
            *((f"own baseline of {own}",) if own else ()),
        )
    )


def labels(group: Group) -> dict[int, str]:
    """Method and γ by point number, with what else differs where that would say too little."""
    names = {c.number: _short(c) for c in group}
    for extend in (_settings, _number):
        seen = Counter(names.values())
        alike = [c for c in group if seen[names[c.number]] > 1]
        more = {c.number: extend(c, [d for d in alike if _short(d) == _short(c)]) for c in alike}
        names |= {number: f"{names[number]}{text}" for number, text in more.items()}
    return names


def _short(one: Comparison) -> str:
    words = (one.point.label, "warm" if one.point.warm else "", _synthetic(one))
    return " ".join(word for word in words if word)


def _synthetic(one: Comparison) -> str:
    return "SYNTHETIC" if one.synthetic else ""


def _settings(one: Comparison, alike: Sequence[Comparison]) -> str:
    found = drafting_apart(one.point, [c.point for c in alike])
    return "".join(f" {key}={value}" for key, value in found)


def drafting_apart(point: Point, alike: Sequence[Point]) -> list[tuple[str, Json]]:
    """The keys in which the resolved speculative configs of points of one name differ, with the
    point's own values."""
    mine = point.server.resolved or {}
    others = [each.server.resolved or {} for each in alike]
    keys = sorted({k for other in others for k in other})
    differing = (k for k in keys if any(o.get(k) != mine.get(k) for o in others))
    return [(k, mine[k]) for k in differing if k in mine]


def _number(one: Comparison, alike: Sequence[Comparison]) -> str:
    return f" #{one.number}"


def starred(one: Comparison) -> bool:
    """Whether 1+A/S must not be read as tokens per step: most steps may have had no draft."""
    drafts = one.acceptance
    coverage = drafts.draft_coverage.value
    has_length = drafts.mean_acceptance_length.value is not None
    return has_length and (coverage is None or coverage < LOW_COVERAGE)


def some_failed(comparisons: Sequence[Comparison]) -> bool:
    """Whether a request failed: where none did, tables have no column of successes."""
    return any(c.success_rate not in (None, 1.0) for c in comparisons)


def success(one: Comparison) -> str:
    """Never 100 % where a request failed."""
    if one.success_rate is None:
        return NOT_MEASURED
    percent = 100 * one.success_rate
    return f"{percent:.0f} %" if percent.is_integer() else f"{min(percent, 99.9):.1f} %"


def footnotes(comparisons: Sequence[Comparison]) -> tuple[str, ...]:
    """What a reader must know to read the table right."""
    found: list[str] = []
    if any(c.synthetic for c in comparisons):
        found += _synthetic_kinds(comparisons)
    if any(starred(c) for c in comparisons):
        found.append(
            "* 1+A/S counts only steps that had a draft, and many had none (or nobody counted): "
            "read tokens/step."
        )
    if _several_gammas(comparisons):
        found.append(
            "A/D falls as γ grows, by its definition: compare it at equal γ only, and choose γ by "
            "speed-up."
        )
    return tuple(found)


def _synthetic_kinds(comparisons: Sequence[Comparison]) -> Iterator[str]:
    prompts = [c for c in comparisons if c.point.dataset.synthetic]
    if prompts:
        yield "SYNTHETIC prompts are random tokens: what drafts are worth on text, they cannot say."
    if any(c.synthetic and not c.point.dataset.synthetic for c in comparisons):
        yield "SYNTHETIC rows accept by a fixed rate: a control, not what the draft can do."


def _several_gammas(comparisons: Sequence[Comparison]) -> bool:
    gammas: dict[str, set[int]] = {}
    for one in comparisons:
        gammas.setdefault(one.point.method, set()).add(one.point.gamma)
    return any(len(found) > 1 for found in gammas.values())


def remarks(group: Group) -> tuple[str, ...]:
    """Why a speed-up is missing, what was odd: each sentence once, behind those it is about."""
    names, about = labels(group), dict[str, list[str]]()
    for one in group:
        for sentence in _sentences(one):
            about.setdefault(sentence, []).append(names[one.number])
    return tuple(f"{', '.join(each)}: {sentence}" for sentence, each in about.items())


def _sentences(one: Comparison) -> tuple[str, ...]:
    missing = one.completed and not one.point.is_baseline and one.speedup.value is None
    return ((_no_speedup(one.speedup.reason),) if missing else ()) + one.notes


def _no_speedup(reason: str) -> str:
    return f"speed-up not measured: {reason}" if reason == OFF else f"no speed-up: {reason}"
