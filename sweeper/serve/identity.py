"""Is the server that answers the one we started, and does it run what was asked for?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sweeper.errors import IdentityError, ServerError
from sweeper.values import Json, ServerSpec

_PLANNED = ("method", "num_speculative_tokens", "prompt_lookup_min", "prompt_lookup_max")
"""What the plan says vLLM will resolve; a point is named and compared by it."""
_LENGTH = "synthetic_acceptance_length"

_POSITIONS = re.compile(
    r'^vllm:spec_decode_num_accepted_tokens_per_pos_total\{[^}]*\bposition="(\d+)"', re.MULTILINE
)


def check_models(models: list[dict[str, Json]], name: str, url: str) -> None:
    """The served name is fresh for every start, so only our server can answer with it.

    :raises IdentityError: when another server answers.
    """
    names = [str(model.get("id")) for model in models]
    if name not in names:
        raise IdentityError(
            f"{url} is answered by something else: it serves {', '.join(names) or 'no model'}; "
            f"stop that server or leave server.port=null for a free port"
        )


def resolved_speculation(info: Json | None) -> dict[str, Json] | None:
    """vLLM's own speculative config from ``/server_info``; ``None`` when it is off or unknown."""
    if not isinstance(info, dict):
        return None
    found = info.get("vllm_config", {}).get("speculative_config")
    return found if isinstance(found, dict) else None


def check_speculation(spec: ServerSpec, info: Json | None) -> None:
    """Method, γ and every other key that was asked for must be what vLLM resolved.

    :raises ServerError: naming each difference.
    """
    if info is None:
        return
    resolved = resolved_speculation(info)
    asked = spec.speculative
    if asked is None:
        if resolved is not None and spec.kind == "external":
            raise ServerError(
                f"the running server speculates (method {resolved.get('method')}): attach to it "
                "with its method and γ, or start it without speculation for a baseline"
            )
        if resolved is not None:
            raise ServerError(
                f"the baseline server speculates by itself (method {resolved.get('method')}): "
                f"{spec.model} is a speculators checkpoint; serve its verifier instead"
            )
        return
    if resolved is None:
        raise ServerError("speculation was asked for, but the server resolved none")
    planned = {k: v for k, v in (spec.resolved or {}).items() if k in _PLANNED}
    wrong = list(_differences(asked | planned, resolved))
    if wrong:
        raise ServerError("the server resolved other settings: " + "; ".join(wrong))


def check_counters(spec: ServerSpec, metrics: str | None) -> str:
    """What counters tell where there is no ``/server_info``: whether a server speculates, and γ,
    since vLLM has a counter of accepted tokens for each position. The answer is what they do not
    tell.

    :raises ServerError: they tell something else than was asked for.
    """
    why = "the running server offers no /server_info (start it with VLLM_SERVER_DEV_MODE=1)"
    if metrics is None or "vllm:generation_tokens_total" not in metrics:
        return f"speculation not verified: {why} and no counters of vLLM in /metrics"
    found = len(set(_POSITIONS.findall(metrics)))
    asked = (spec.resolved or {}).get("num_speculative_tokens")
    if spec.speculative is None:
        if found:
            raise ServerError(f"the baseline server speculates: its /metrics count γ={found}")
        return ""
    if not found:
        raise ServerError("speculation was asked for, but the server counts none in its /metrics")
    if asked is not None and asked != found:
        raise ServerError(
            f"the server resolved other settings: num_speculative_tokens: asked {asked}, "
            f"its /metrics count {found}"
        )
    return f"only γ={found} is verified, by the server's counters, not the method: {why}"


def unverified(spec: ServerSpec, served: dict[str, Json], info: Json | None) -> Iterator[str]:
    """What nobody can say of the model of a server that we did not start, one sentence each."""
    config = info.get("vllm_config", {}) if isinstance(info, dict) else {}
    runs = config.get("model_config", {}).get("model") or served.get("root")
    if runs is None:
        yield f"model not verified: the running server does not say what {served.get('id')} is"
    elif runs != spec.model:
        yield f"target.model is {spec.model}, but the running server says that it serves {runs}"


def _differences(asked: dict[str, Json], resolved: dict[str, Json]) -> Iterator[str]:
    """One sentence for each key; one that the server does not show cannot have had an effect."""
    for key, value in asked.items():
        if key == _LENGTH and _length(resolved) == value:
            continue
        if key not in resolved:
            yield f"{key}: asked {value!r}, server has no such setting"
        elif not _same(key, value, resolved[key]):
            yield f"{key}: asked {value!r}, server has {resolved[key]!r}" + _why(key, asked)


def _length(resolved: dict[str, Json]) -> float | None:
    """vLLM turns a synthetic length into rates by position, whose sum is the length - 1."""
    rates = resolved.get("synthetic_acceptance_rates")
    return round(1 + sum(rates), 9) if isinstance(rates, list) else None


def _why(key: str, asked: dict[str, Json]) -> str:
    """vLLM reads the method out of the name of the draft's folder, over the one that was given."""
    if key != "method" or not asked.get("model"):
        return ""
    return (
        f" (vLLM takes the method from the name or config of the draft; "
        f"rename or replace {asked['model']})"
    )


def _same(key: str, asked: Json, resolved: Json) -> bool:
    if isinstance(asked, list) and isinstance(resolved, list):
        return len(asked) == len(resolved) and all(
            _same(key, ours, theirs) for ours, theirs in zip(asked, resolved, strict=True)
        )
    if key == "method" and str(asked).endswith("_mtp"):
        asked = "mtp"  # vLLM's older names for one method
    if isinstance(asked, bool) or isinstance(resolved, bool):
        return asked is resolved
    return bool(asked == resolved) or str(asked).lower() == str(resolved).lower()
