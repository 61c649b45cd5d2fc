"""Is the server that answers the one we started, and does it run what was asked for?"""

from __future__ import annotations

from sweeper.errors import IdentityError, ServerError
from sweeper.values import Json, ServerSpec


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
    """Every key that was asked for must be what vLLM resolved.

    :raises ServerError: naming each difference.
    """
    if info is None:
        return
    resolved = resolved_speculation(info)
    asked = spec.speculative
    if asked is None:
        if resolved is not None:
            raise ServerError(
                f"the baseline server speculates by itself (method {resolved.get('method')}): "
                f"{spec.model} is a speculators checkpoint; serve its verifier instead"
            )
        return
    if resolved is None:
        raise ServerError("speculation was asked for, but the server resolved none")
    wrong = [
        f"{key}: asked {value!r}, server has {resolved[key]!r}"
        for key, value in asked.items()
        if key in resolved and not _same(value, resolved[key])
    ]
    if wrong:
        raise ServerError("the server resolved other settings: " + "; ".join(wrong))


def _same(asked: Json, resolved: Json) -> bool:
    if isinstance(asked, list) and isinstance(resolved, list):
        return len(asked) == len(resolved) and all(map(_same, asked, resolved))
    return bool(asked == resolved) or str(asked) == str(resolved)
