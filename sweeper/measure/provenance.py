"""Where a figure comes from: machine, versions, engine, model, prompts."""

from __future__ import annotations

import hashlib
import math
import os
import platform
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path

import psutil

import sweeper
from sweeper.plan.checkpoints import target_folder
from sweeper.serve.identity import resolved_speculation
from sweeper.serve.session import Session
from sweeper.serve.startlog import kv_cache_tokens, runner, start_warnings
from sweeper.serve.startlog import scheduler as scheduler_in
from sweeper.values import (
    ROLLOUT_PATHS,
    Json,
    Point,
    RequestRecord,
    RolloutApi,
    content_key,
)

_PACKAGES = ("torch", "transformers", "triton", "flash_attn", "flashinfer")
_DIGEST_HEAD = 1 << 20


def provenance(
    session: Session,
    point: Point,
    *,
    caches: Json,
    canary: Json,
    chat: bool,
    records: Iterable[RequestRecord],
) -> dict[str, Json]:
    """Everything that must be equal, or said, when two points are compared."""
    info, log = session.info or {}, session.log_text()
    return {
        "host": host(info),
        "job": job(os.environ),
        "versions": versions(session, info),
        "engine": engine(session, info, log),
        "start_warnings": list(start_warnings(log)),
        "resolved_speculative_config": _short(resolved_speculation(info)),
        "caches": caches,
        "canary": canary,
        "rendering": rendering(point, chat, records, session.api),
        "order": point.order,
        "model": model(point),
        "dataset": asdict(point.dataset),
        "sampling": asdict(point.sampling),
        "load_average": [round(value, 2) for value in os.getloadavg()],
        "affinity": sorted(psutil.Process().cpu_affinity() or []),
    }


def rendering(
    point: Point, chat: bool, records: Iterable[RequestRecord], api: RolloutApi = "completions"
) -> dict[str, Json]:
    """Who made the text the model read, from what, and a digest of all first turns of it. A rollout
    sends token ids to ``api``, made of messages by the server before."""
    plain = ROLLOUT_PATHS[api] if point.load.batches else "/v1/completions"
    return {
        "endpoint": "/v1/chat/completions" if chat and not point.load.batches else plain,
        "by": "the server, with its chat template" if chat else "nobody: sent as text or ids",
        "template_digest": _template(point) if chat else None,
        "chat_template_kwargs": dict(point.dataset.options).get("chat_template_kwargs"),
        "prompts_digest": rendered_digest(records),
    }


def rendered_digest(records: Iterable[RequestRecord]) -> str | None:
    """Of every first turn as it was rendered, whatever their order; ``None`` where one is unknown.

    A sum of hashes, so that any number of requests fits.
    """
    total = count = 0
    for record in (r for r in records if not (r.turn or r.repeat)):
        if not record.prompt_digest:
            return None
        total += int(content_key([record.prompt_id, record.prompt_digest]), 16)
        count += 1
    return f"{total % 2**64:016x}" if count else None


def host(info: Json) -> dict[str, Json]:
    """The machine: processor from the system, GPUs and driver from the server's own report."""
    system = info.get("system_env", {})
    gpu, driver = system.get("nvidia_gpu_models"), system.get("nvidia_driver_version")
    return {
        "hostname": socket.gethostname(),
        "cpu": _cpu_model(),
        "cores": psutil.cpu_count(logical=True),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "gpu": None if gpu in (None, "None", "") else gpu,
        "driver": None if driver in (None, "None", "") else driver,
    }


def job(environ: Mapping[str, str]) -> dict[str, Json]:
    """Which job and which of the node's GPUs; ``None`` outside of one."""
    return {
        "id": environ.get("SLURM_JOB_ID"),
        "node": environ.get("SLURMD_NODENAME"),
        "visible_devices": environ.get("CUDA_VISIBLE_DEVICES"),
        "restarts": environ.get("SLURM_RESTART_COUNT"),
    }


def versions(session: Session, info: Json) -> dict[str, Json]:
    """Of this program, Python and what the server's environment has installed."""
    listed = str(info.get("system_env", {}).get("pip_packages", ""))
    found = dict(re.findall(r"^([\w.-]+)==(\S+)$", listed, flags=re.MULTILINE))
    server = {name: found[name] for name in _PACKAGES if name in found}
    return {
        "sweeper": sweeper.__version__,
        "python": platform.python_version(),
        "vllm": session.version,
        "torch": info.get("system_env", {}).get("torch_version"),
        **server,
        "arctic_inference": session.here.arctic_inference if session.here else None,
    }


def engine(session: Session, info: Json, log: str) -> dict[str, Json]:
    """Scheduler, model runner and the settings that change speed; ``log`` is the server's."""
    config = info.get("vllm_config", {})
    scheduler, cache_config = config.get("scheduler_config", {}), config.get("cache_config", {})
    model_config = config.get("model_config", {})
    async_scheduling = scheduler.get("async_scheduling")
    return {
        "scheduler": {True: "async", False: "sync"}.get(async_scheduling, scheduler_in(log)),
        "runner": runner(log),
        "enforce_eager": model_config.get("enforce_eager"),
        "dtype": model_config.get("dtype"),
        "max_model_len": model_config.get("max_model_len"),
        "max_num_seqs": scheduler.get("max_num_seqs"),
        "max_num_batched_tokens": scheduler.get("max_num_batched_tokens"),
        "prefix_caching": cache_config.get("enable_prefix_caching"),
        "block_size": cache_config.get("block_size"),
        "kv_cache_tokens": kv_cache_tokens(log),
        "gpus": gpus_used(info),
        "preload": list(session.preload),
        "workarounds": list(session.spec.workarounds),
    }


def gpus_used(info: Json) -> int | None:
    """By the sizes of the server's parallel groups; 0 without a GPU, ``None`` if it is silent."""
    if not info:
        return None
    if not host(info)["gpu"]:
        return 0
    parallel = info.get("vllm_config", {}).get("parallel_config", {})
    sizes = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
    return math.prod(int(parallel.get(name) or 1) for name in sizes)


def model(point: Point) -> dict[str, Json]:
    """Target and draft with a digest each where they are local folders."""
    speculative = point.server.speculative or {}
    draft = speculative.get("model")
    return {
        "target": point.server.model,
        "revision": point.server.revision,
        "target_digest": checkpoint_digest(_files(point, point.server.model)),
        "draft": draft,
        "draft_digest": checkpoint_digest(_files(point, draft)) if draft else None,
        "template_digest": _template(point),
    }


def _files(point: Point, name: Json) -> Path | None:
    """The folder of target or draft, in the hub's cache too; ``None`` where it is not here."""
    server = point.server
    revision = server.revision
    if name != server.model:
        revision = (server.speculative or {}).get("revision")
    return target_folder(str(name), revision, server.env)


def _template(point: Point) -> str | None:
    """Of the template the server was given, else of the checkpoint's own."""
    given = re.search(r"--chat-template(?:=|\0)([^\0]+)", "\0".join(point.server.args))
    if given and Path(given[1]).is_file():
        return hashlib.sha256(Path(given[1]).read_bytes()).hexdigest()[:16]
    return None if given else template_digest(_files(point, point.server.model))


@cache
def checkpoint_digest(root: Path | None) -> str | None:
    """Of names, sizes and the first MiB of every file of a checkpoint; ``None`` where none is here.

    Weights differ in their first MiB when they differ; reading all of a large model would take
    longer than serving it.
    """
    if root is None:
        return None
    digest = hashlib.sha256()
    for path in sorted(root.iterdir()):
        if path.suffix in (".json", ".safetensors", ".bin", ".model", ".txt", ".jinja"):
            digest.update(f"{path.name} {path.stat().st_size}\n".encode())
            with path.open("rb") as file:
                digest.update(file.read(_DIGEST_HEAD))
    return digest.hexdigest()[:16]


@cache
def template_digest(folder: Path | None) -> str | None:
    """Of the chat template of a checkpoint, wherever it keeps it."""
    for name in ("chat_template.jinja", "tokenizer_config.json"):
        path = folder and folder / name
        if path and path.is_file():
            return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return None


def _short(speculative: Json) -> Json:
    """vLLM's resolved mapping without the copies of whole configurations inside it."""
    if not isinstance(speculative, dict):
        return None
    return {k: v for k, v in speculative.items() if v is not None and not isinstance(v, dict)}


@cache
def _cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    found = re.search(r"^model name\s*:\s*(.+)$", text, flags=re.MULTILINE)
    return found[1] if found else platform.processor()
