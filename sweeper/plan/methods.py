"""What one configuration asks of vLLM's speculation, or all the reasons why it cannot have it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

from sweeper.config import Settings
from sweeper.plan.arguments import flag_of, merged
from sweeper.plan.checkpoint import Absent, drafted_by_default, find
from sweeper.plan.rules import GAMMA, LARGEST_GAMMA, MAX_GAMMA, SCHEDULE
from sweeper.plan.schedule import schedule_warnings
from sweeper.plan.speculative import Resolved, resolve
from sweeper.plan.validity import WHERE
from sweeper.values import Json, Load

CONTROL = "control=synthetic: every row says SYNTHETIC and no verdict is given"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Speculation as it goes to vLLM (``passed``, JSON) and as vLLM resolves it (``resolved``)."""

    method: str
    gamma: int
    passed: str
    resolved: str
    trained: bool
    warnings: tuple[str, ...]


def speculation(settings: Settings, mistakes: list[str]) -> Asked | None:
    """What ``settings`` asks for; ``None`` without speculation, or with new ``mistakes``."""
    method = settings.method
    if method.speculative is None:
        return None
    given, found = _with_schedule(settings)
    resolved = _resolved(settings, given)
    gamma = resolved.gamma
    found += resolved.mistakes
    found += _gamma_mistakes(settings, gamma, filled_in=GAMMA not in resolved.passed)
    found += _control_mistakes(settings, resolved)
    if gamma is None and not found:
        found.append(_gamma_missing(resolved))
    mistakes += found
    if found or gamma is None or resolved.rule is None:
        return None
    own_name = method.name != "custom"
    return Asked(
        method=method.name if own_name else resolved.rule.name,
        gamma=gamma,
        passed=json.dumps(resolved.passed, sort_keys=True),
        resolved=resolved.text,
        trained=method.trained_draft or resolved.rule.trained,
        warnings=(*resolved.warnings, *_warnings(settings, resolved, gamma)),
    )


def _with_schedule(settings: Settings) -> tuple[dict[str, Json], list[str]]:
    """The mapping with ``method.schedule`` under vLLM's name for it."""
    given = dict(settings.method.speculative or {})
    schedule = settings.method.schedule
    if schedule is None:
        return given, []
    if given.get(SCHEDULE) is not None:
        return given, [f"{WHERE}.{SCHEDULE}: method.schedule is given too; keep one"]
    mistakes = []
    if (_whole_flag(settings, "data-parallel-size") or 1) > 1:
        mistakes.append(
            "method.schedule: vLLM drops it with data_parallel_size above 1; remove one of them"
        )
    return given | {SCHEDULE: schedule}, mistakes


def _resolved(settings: Settings, given: Mapping[str, Json]) -> Resolved:
    """Resolved; the draft checkpoint is opened only where γ was left out."""
    target = settings.target.model
    size = _whole_flag(settings, "tensor-parallel-size") or 1
    control = settings.control == "synthetic"
    first = resolve(given, target_model=target, tensor_parallel_size=size, control=control)
    if first.gamma is not None or first.mistakes:
        return first
    default = _default_gamma(settings, first)
    return resolve(
        given,
        target_model=target,
        tensor_parallel_size=size,
        default_gamma=default,
        control=control,
    )


def _default_gamma(settings: Settings, resolved: Resolved) -> int | None:
    model = str(resolved.mapping.get("model"))
    revision = resolved.mapping.get("revision")
    env = os.environ | settings.target.env | settings.server.env
    draft = find(model, revision, env)
    return None if isinstance(draft, Absent) else drafted_by_default(draft)


def _whole_flag(settings: Settings, flag: str) -> int | None:
    args = merged(settings.target.args, settings.server.args)
    found = next((value for key, value in args.items() if flag_of(key) == flag), None)
    return found if isinstance(found, int) else None


def _control_mistakes(settings: Settings, resolved: Resolved) -> list[str]:
    """A running server has its own setting, which its measurement sees."""
    synthetic = resolved.mapping.get("rejection_sample_method") == "synthetic"
    if settings.control != "synthetic" or synthetic or settings.server.kind == "external":
        return []
    return [
        f"control: synthetic: {settings.method.name} verifies its drafts; set "
        f"+{WHERE}.rejection_sample_method=synthetic, or control=none"
    ]


def _gamma_missing(resolved: Resolved) -> str:
    source = resolved.rule.gamma_from if resolved.rule else "the checkpoint"
    return (
        f"{WHERE}.{GAMMA}: left out, and {resolved.mapping.get('model')} does not say it here "
        f"({source} in its config.json); set gamma"
    )


def _gamma_mistakes(settings: Settings, gamma: int | None, *, filled_in: bool) -> list[str]:
    """A γ that vLLM ``filled_in`` is no slip of the finger: a warning names it."""
    if gamma is None:
        return []
    where = "gamma" if gamma == settings.gamma else f"{WHERE}.{GAMMA}"
    if gamma > LARGEST_GAMMA:
        return [
            f"{where}: {gamma}: at most {LARGEST_GAMMA}, whatever allow_large_gamma says: the "
            f"sampler of vLLM's V1 model runner asserts it while it serves"
        ]
    if gamma > MAX_GAMMA and not (settings.allow_large_gamma or filled_in):
        return [f"{where}: {gamma}: between 1 and {MAX_GAMMA}; or allow_large_gamma=true"]
    if gamma < 1:
        return [f"{where}: {gamma}: between 1 and {MAX_GAMMA}, or method=none"]
    return []


def _warnings(settings: Settings, resolved: Resolved, gamma: int) -> list[str]:
    warnings = []
    if settings.control == "synthetic":
        warnings.append(CONTROL)
    explicit = resolved.passed.get(GAMMA)
    if explicit is not None and explicit != settings.gamma:
        warnings.append(f"gamma={settings.gamma} is not used: {WHERE}.{GAMMA}={explicit} is")
    schedule = resolved.passed.get(SCHEDULE)
    if schedule is not None:
        batch = _largest_batch(settings.load)
        warnings += schedule_warnings(schedule, gamma, batch, "method.schedule")
    return warnings


def _largest_batch(load: Load) -> int | None:
    """How many requests can be under way; ``None`` where the load does not bound it."""
    if load.name == "ramp" and load.ramp_of == "concurrency":
        return int(load.ramp_to) if load.ramp_to else None
    return load.concurrency if load.name in ("sequential", "closed") else None
