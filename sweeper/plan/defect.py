"""One known defect of vLLM, and the conditions under which a point meets one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from sweeper.values import Json, Point

V1_ONLY = frozenset({"suffix", "medusa", "mlp_speculator", "custom_class"})
"""Methods for which vLLM takes its older model runner, whatever the machine."""
V1_MAX_DRAFT = 128
"""Draft tokens a step that the V1 runner's rejection sampler takes; it asserts this at run time."""


class Facts(Protocol):
    """What is known of the vLLM that a server will run; ``vllm`` is its version."""

    @property
    def vllm(self) -> str | None: ...
    @property
    def cpu(self) -> bool: ...
    @property
    def triton_cpu(self) -> bool: ...


Condition = Callable[[Point, Facts | None], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """One defect; ``seen`` are versions it was met in, ``fixed`` the first without it.

    ``consequence`` says what would happen and what to do instead; ``{point}`` in it is the point.
    ``severity`` is ``note`` where the plan cannot see the condition. ``workaround``: there is a
    plugin of the same name in ``sweeper/workarounds``, so a server that names it is not concerned.
    """

    id: str
    seen: tuple[str, ...]
    fixed: str | None = None
    severity: Literal["refuse", "warn", "note"]
    condition: Condition | None = None
    consequence: str
    reference: str
    workaround: bool = False

    def concerns(self, point: Point, here: Facts | None) -> bool:
        """Does it change what is measured at ``point`` with the vLLM that is ``here``?"""
        if self.condition is None or self.id in point.server.workarounds:
            return False
        return self._in(here.vllm if here else None) and self.condition(point, here)

    def _in(self, version: str | None) -> bool:
        """An unknown version has it: being wrong about that costs a sentence, not a figure."""
        return not (self.fixed and version and release(version) >= release(self.fixed))


def release(version: str) -> tuple[int, ...]:
    """``0.32.0+cpu`` and ``0.32.0rc1`` are ``(0, 32, 0)``."""
    return tuple(int(n) for n in re.findall(r"\d+", version.split("+")[0])[:3])


def _key(point: Point, name: str) -> Json:
    return (point.server.speculative or {}).get(name)


def _is(point: Point, name: str, *values: Json) -> bool:
    return _key(point, name) in values


def _variable(point: Point, name: str) -> str | None:
    return dict(point.server.env).get(name)


def v1(point: Point, here: Facts | None) -> bool:
    """Certainly on the V1 model runner; False where it may be either."""
    chosen = _variable(point, "VLLM_USE_V2_MODEL_RUNNER")
    if chosen is not None:
        return chosen == "0"
    return _is(point, "method", *V1_ONLY) or no_triton(here)


def no_triton(here: Facts | None) -> bool:
    return here is not None and here.cpu and not here.triton_cpu


def _prefix_cached(point: Point) -> bool:
    return "--no-enable-prefix-caching" not in point.server.args


def sampled_on_cpu(point: Point, here: Facts | None) -> bool:
    return no_triton(here) and not point.sampling.greedy and not point.is_baseline


def top_k_alone_on_cpu(point: Point, here: Facts | None) -> bool:
    sampling = point.sampling
    return sampled_on_cpu(point, here) and sampling.top_k > 0 and sampling.top_p >= 1


def suffix_with_schedule(point: Point, here: Facts | None) -> bool:
    return _is(point, "method", "suffix") and bool(_schedule(point))


def _schedule(point: Point) -> Json:
    return _key(point, "num_speculative_tokens_per_batch_size")


def schedule_with_replicas(point: Point, here: Facts | None) -> bool:
    args = point.server.args
    at = args.index("--data-parallel-size") + 1 if "--data-parallel-size" in args else 0
    return bool(_schedule(point)) and bool(at) and args[at] != "1"


def fake_step(point: Point, here: Facts | None) -> bool:
    drafts = not point.is_baseline and not _schedule(point)
    if point.cache == "cold" and point.load.by_repeat:  # no repeat finds its prompts cached
        return False
    return drafts and point.repeats > 1 and _prefix_cached(point)


def shared_tree(point: Point, here: Facts | None) -> bool:
    kept = not _is(point, "suffix_decoding_max_cached_requests", 0)
    return kept and _is(point, "method", "suffix")


def min_p(point: Point, here: Facts | None) -> bool:
    return point.sampling.min_p > 0 and not point.is_baseline


def block_ignored(point: Point, here: Facts | None) -> bool:
    return _is(point, "rejection_sample_method", "block") and v1(point, here)


def synthetic_on_cpu(point: Point, here: Facts | None) -> bool:
    return _is(point, "rejection_sample_method", "synthetic") and no_triton(here)


def no_proposer(point: Point, here: Facts | None) -> bool:
    return _is(point, "method", "mlp_speculator")


def too_long(point: Point, here: Facts | None) -> bool:
    return point.gamma > V1_MAX_DRAFT and v1(point, here)


def block_draft_cached(point: Point, here: Facts | None) -> bool:
    return _prefix_cached(point) and _is(point, "method", "dflash", "dspark")
