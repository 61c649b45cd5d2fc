"""A mapping of vLLM settings as command-line tokens, every key of it, or a sentence why not."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sweeper.values import Json

OURS = {
    "host": "servers listen on 127.0.0.1",
    "port": "set server.port",
    "uds": "servers listen on 127.0.0.1",
    "model": "set target.model",
    "revision": "set target.revision",
    "served-model-name": "a fresh name proves that the answering server is ours",
    "api-key": "a fresh key is made for every start",
    "speculative-config": "set method and method.speculative",
    "spec-method": "set method and method.speculative",
    "spec-model": "set method.speculative.model",
    "spec-tokens": "set gamma",
    "per-request-spec-decode-metrics": "always detailed where there is speculation",
    "enable-per-request-metrics": "always on where vLLM knows it",
    "profiler-config": "a profiled server is no measured one; set profile=torch",
    "disable-log-stats": "the counters are needed for the measurement",
}


def flag_of(key: str) -> str:
    """``max_model_len``, ``max-model-len`` and ``--max-model-len`` are one flag."""
    return key.lstrip("-").replace("_", "-")


def tokens(
    settings: Mapping[str, Json], where: str, reserved: Mapping[str, str] = OURS
) -> tuple[tuple[str, ...], list[str]]:
    """The argv of ``settings`` sorted by flag, and the mistakes in it.

    True is ``--flag``, False ``--no-flag``, null leaves the flag out, a list gives several values,
    a mapping is passed as JSON. ``reserved`` are flags that are not the user's, and why.
    """
    mistakes: list[str] = []
    found: dict[str, tuple[str, ...]] = {}
    for key, value in settings.items():
        flag = flag_of(key)
        if flag in reserved:
            mistakes.append(f"{where}.{key}: not yours to set here: {reserved[flag]}")
        elif flag in found:
            mistakes.append(f"{where}.{key}: given twice in two spellings; keep one")
        else:
            found[flag] = _values(flag, value)
    return tuple(token for flag in sorted(found) for token in found[flag]), mistakes


def merged(base: Mapping[str, Json], over: Mapping[str, Json]) -> dict[str, Json]:
    """``base`` with the flags that ``over`` sets replaced, whatever their spelling."""
    set_again = {flag_of(key) for key in over}
    return {k: v for k, v in base.items() if flag_of(k) not in set_again} | dict(over)


def _values(flag: str, value: Json) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, bool):
        return (f"--{flag}",) if value else (f"--no-{flag}",)
    if isinstance(value, list):
        return (f"--{flag}", *(_text(item) for item in value))
    text = _text(value)
    # A parser would take "-x" for another flag, and knows "--flag=-x" for a value.
    return (f"--{flag}={text}",) if text.startswith("-") else (f"--{flag}", text)


def _text(value: Json) -> str:
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else str(value)
