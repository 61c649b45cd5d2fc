"""Where a step's time goes: what is asked of a profiled server, and what its trace says; standard
library only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiler:
    """``torch``: when a server's points have been measured it is started once more, with its
    profiler, and the first ``requests`` prompts of each point are answered again, up to ``tokens``
    tokens each."""

    name: Literal["none", "torch"] = "none"
    requests: int = 4
    tokens: int = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSplit:
    """``profile.json``: the profiled decode steps of a point, in milliseconds of all together.

    ``total_ms`` runs from the start of each step to that of the next; ``verify_ms`` is the target's
    forward pass and its logits, ``sample_ms`` sampling with the rejection of drafts; what is left
    is the rest. ``draft_ms`` is ``None`` where the trace does not tell drafting apart. ``device``
    says whose time it is. ``traces`` are files in the point's folder ``traces``. ``problem``: why
    there is no split.
    """

    steps: int = 0
    total_ms: float = 0.0
    verify_ms: float = 0.0
    sample_ms: float = 0.0
    draft_ms: float | None = None
    device: Literal["CPU", "GPU"] = "CPU"
    traces: tuple[str, ...] = ()
    problem: str = ""
