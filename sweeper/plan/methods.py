"""What each method needs, as data, and the sentences for what is wrong."""

from __future__ import annotations

from sweeper.config import Settings

MAX_GAMMA = 16

NEEDS_DRAFT = frozenset({"draft_model", "eagle", "eagle3", "medusa", "dflash"})
"""Methods of vLLM that need a checkpoint beside the target."""


def method_mistakes(settings: Settings) -> list[str]:
    """Everything that is wrong with method and γ of one configuration."""
    speculative = settings.method.speculative
    if speculative is None:
        return []
    mistakes = []
    if not 1 <= settings.gamma <= MAX_GAMMA and not (
        settings.allow_large_gamma and settings.gamma > MAX_GAMMA
    ):
        fix = "; or allow_large_gamma=true" if settings.gamma > MAX_GAMMA else ", or method=none"
        mistakes.append(f"gamma: {settings.gamma}: between 1 and {MAX_GAMMA}{fix}")
    method = speculative.get("method")
    if method in NEEDS_DRAFT and not speculative.get("model"):
        mistakes.append(
            f"method.speculative.model: {settings.method.name} needs a draft checkpoint for target "
            f"{settings.target.name}; set target.drafts.{method}=PATH or "
            f"method.speculative.model=PATH"
        )
    if speculative.get("rejection_sample_method") == "synthetic":
        mistakes.append(
            "method.speculative.rejection_sample_method: synthetic acceptance is not a "
            "measurement of the model; remove it"
        )
    return mistakes
