"""The exact command and environment of a vLLM server."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from sweeper.serve.installed import reports
from sweeper.values import ServerSpec


def argv(
    spec: ServerSpec,
    *,
    port: int | str = "PORT",
    name: str = "NAME",
    metrics: bool = True,
    times: bool = True,
) -> tuple[str, ...]:
    """The command that starts ``spec``; port and served name are chosen at each start.

    ``metrics``: this vLLM can report speculation counts with each request. Without speculation it
    refuses to be asked for them. ``times``: it can report queue, prefill and decode time.
    """
    counts = metrics and spec.speculative_config
    return (
        *spec.command,
        "--model",
        spec.model,
        *(("--revision", spec.revision) if spec.revision else ()),
        *spec.args,
        *(("--speculative-config", spec.speculative_config) if spec.speculative_config else ()),
        *(("--per-request-spec-decode-metrics", "detailed") if counts else ()),
        *(("--enable-per-request-metrics",) if times else ()),
        *("--host", "127.0.0.1", "--port", str(port), "--served-model-name", name),
    )


def shown(spec: ServerSpec) -> str:
    """The command as a person would type it, ``$PORT`` and ``$NAME`` left open.

    ``$PLUGINS`` is the folder ``plugins`` in the server's own, with the work-arounds in it.
    """
    env = [f"{name}={shlex.quote(value)}" for name, value in spec.env]
    if spec.workarounds:
        env.insert(0, "PYTHONPATH=$PLUGINS")
    command = (
        shlex.join(argv(spec, **reports(spec.command)))
        .replace(" PORT ", " $PORT ")
        .replace(" NAME", " $NAME")
    )
    return " ".join([*env, command])


def environment(
    spec: ServerSpec, inherited: Mapping[str, str], *, api_key: str, preload: tuple[Path, ...]
) -> dict[str, str]:
    """Variables of the server: what we run with, what the user set, and what we rely on.

    ``VLLM_API_KEY`` keeps the key out of ``ps``; dev mode opens ``/server_info`` and
    ``/reset_prefix_cache``. A preload the user set stays first.
    """
    ours = {
        "VLLM_API_KEY": api_key,
        "VLLM_SERVER_DEV_MODE": "1",
        "VLLM_ENGINE_READY_TIMEOUT_S": str(int(spec.start_timeout_s)),
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "PYTHONUNBUFFERED": "1",
    }
    merged = dict(inherited) | ours | dict(spec.env)
    libraries = [merged.get("LD_PRELOAD", ""), *map(str, preload)]
    wanted = ":".join(item for item in libraries if item)
    return merged | ({"LD_PRELOAD": wanted} if wanted else {})


def preload_libraries(prefix: Path) -> tuple[Path, ...]:
    """Libraries that speed a CPU server up where they are installed: Intel's OpenMP, tcmalloc."""
    tcmalloc = ("libtcmalloc_minimal.so.4", "libtcmalloc.so.4")
    folders = [Path("/usr/lib") / f"{os.uname().machine}-linux-gnu", Path("/usr/lib64")]
    found = [prefix / "lib" / "libiomp5.so"]
    found += [folder / name for folder in folders for name in tcmalloc]
    present = [path for path in found if path.is_file()]
    return tuple(present[:2] if present and present[0].name == "libiomp5.so" else present[:1])
