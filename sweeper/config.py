"""The only place that turns Hydra's DictConfig into values; reports all mistakes at once."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, get_type_hints

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from sweeper.durations import seconds_of
from sweeper.errors import ConfigError, did_you_mean
from sweeper.profiles import Profiler
from sweeper.scores import Check, Grader
from sweeper.values import Baselines, Cache, Control, Json, Load, Sampling, Slo, Thresholds


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetConfig:
    """The model that is served; ``drafts`` maps a method to its draft checkpoint for this model.

    ``max_tokens`` is what ``sampling.max_tokens`` is unless it is set itself.
    """

    name: str
    model: str
    revision: str | None = None
    args: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    drafts: dict[str, str | None] = field(default_factory=dict)
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodConfig:
    """``speculative`` goes to ``--speculative-config`` key by key; ``None`` is no speculation.

    ``schedule`` is ``[[first, last, K], …]``: K draft tokens at batch sizes first to last.
    """

    name: str
    speculative: dict[str, Any] | None
    trained_draft: bool = False
    warm: bool = False
    schedule: list[Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetConfig:
    """``file`` is an older name of ``path``; what a format does not read stays ``None``."""

    name: str | None
    limit: int | None
    format: Literal["prompts", "spec_bench", "humaneval", "gsm8k", "sharegpt", "hf", "random"] = (
        "prompts"
    )
    path: str | None = None
    file: str | None = None
    max_turns: int | None = None
    endpoint: Literal["chat", "completions"] | None = None
    subset: str | None = None
    split: str | None = None
    revision: str | None = None
    columns: dict[str, str] = field(default_factory=dict)
    input_len: int | None = None
    output_len: int | None = None
    seed: int | None = None
    chat_template_kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    kind: Literal["vllm", "external"]
    command: tuple[str, ...]
    args: dict[str, Any]
    env: dict[str, str]
    port: int | None
    base_url: str | None
    api_key_env: str | None
    start_timeout_s: float
    stop_timeout_s: float
    workarounds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackerConfig:
    name: Literal["mlflow", "none"]
    tracking_uri: str | None
    experiment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One composed configuration, typed: the schema of everything in ``conf/``."""

    target: TargetConfig
    method: MethodConfig
    dataset: DatasetConfig
    sampling: Sampling
    load: Load
    server: ServerConfig
    tracker: TrackerConfig
    gamma: int
    allow_large_gamma: bool
    repeats: int
    baseline: Baselines
    mode: Literal["run", "plan"]
    on_invalid: Literal["stop", "skip"]
    preflight: bool
    max_error_rate: float
    seed: int
    output_dir: str
    detach: bool = False
    resume: str | None = None
    resume_changed: Literal["refuse", "rerun"] = "refuse"
    slo: Slo = field(default_factory=Slo)
    log_level: Literal["debug", "info", "warning", "error"] = "warning"
    cache: Cache = "cold"
    control: Control = "none"
    budget: str | float | None = None  # a number has no unit and is refused with that word
    check: Check = field(default_factory=Check)
    quality: Grader = field(default_factory=Grader)
    profile: Profiler = field(default_factory=Profiler)
    verdict: Thresholds = field(default_factory=Thresholds)


TRL_LAUNCHER = "trl_serve.py"

_FIX = {
    "string_type": "quote it, for example '{path}=\"7e12345\"'",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "finite_number": "a finite number",
}


def config_dir() -> Path:
    """Where ``conf/`` is: inside the package in a wheel, beside it in a checkout."""
    package = Path(__file__).resolve().parent
    for candidate in (package / "conf", package.parent / "conf"):
        if (candidate / "config.yaml").is_file():
            return candidate
    raise ConfigError(f"no conf/config.yaml in or beside {package}")


def new_sweep_dir(output_dir: str, resume: str | None = None) -> str:
    """A name no other sweep has, ``<output_dir>/<date>/<time>-<6 random hex digits>``, or the
    folder of the one that is gone on with."""
    now = datetime.now()
    return resume or f"{output_dir}/{now:%Y-%m-%d}/{now:%H-%M-%S}-{secrets.token_hex(3)}"


def register_resolvers() -> None:
    """Make ``${sweep_dir:…}`` known to OmegaConf; asked twice, one configuration answers alike."""
    OmegaConf.register_new_resolver("sweep_dir", new_sweep_dir, use_cache=True, replace=True)


def plain(cfg: DictConfig) -> dict[str, Json]:
    """The configuration without Hydra's own part, interpolations resolved, as plain JSON types."""
    own = OmegaConf.masked_copy(cfg, [str(k) for k in cfg if k not in ("hydra", "experiment")])
    try:
        data = OmegaConf.to_container(own, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as problem:
        where = f"{problem.full_key}: " if problem.full_key else ""
        raise ConfigError(where + str(problem).strip().splitlines()[0]) from None
    assert isinstance(data, dict)
    return {str(key): value for key, value in data.items()}


def settings_from(cfg: DictConfig) -> Settings:
    """Convert strictly: no key unknown, no value retyped, every mistake in one message."""
    return settings_from_mapping(plain(cfg))


def settings_from_mapping(data: Mapping[str, Json]) -> Settings:
    """:func:`settings_from` for plain data."""
    adapter = TypeAdapter(Settings)
    try:
        # Through JSON: strict there still takes a list for a tuple, and 4.0 or "4" for no integer.
        settings = adapter.validate_json(json.dumps(data), strict=True, extra="forbid")
    except ValidationError as problem:
        raise ConfigError("\n".join(_sentence(e) for e in problem.errors())) from None
    mistakes = list(_range_mistakes(settings))
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    return settings


def _range_mistakes(s: Settings) -> list[str]:
    """What types cannot say, one sentence each."""
    rules = [
        (s.dataset.limit is not None and s.dataset.limit < 1, "dataset.limit: at least 1, or null"),
        (
            None not in (s.dataset.path, s.dataset.file),
            "dataset.path, dataset.file: two names for one thing; keep dataset.path",
        ),
        (s.repeats < 1, f"repeats: {s.repeats}: at least 1"),
        (not 0 <= s.max_error_rate <= 1, f"max_error_rate: {s.max_error_rate}: between 0 and 1"),
        (s.sampling.max_tokens < 1, f"sampling.max_tokens: {s.sampling.max_tokens}: at least 1"),
        (
            not 0 <= s.sampling.temperature < float("inf"),
            f"sampling.temperature: {s.sampling.temperature}: a finite number, at least 0",
        ),
        (not 0 < s.sampling.top_p <= 1, f"sampling.top_p: {s.sampling.top_p}: above 0, at most 1"),
        (
            s.budget is not None and not _positive(seconds_of(str(s.budget))),
            f"budget: {s.budget}: a time with its unit, such as 2h, 90m or 1h30m",
        ),
        *_load_rules(s.load),
        *_quality_rules(s.quality),
        (s.profile.requests < 1, f"profile.requests: {s.profile.requests}: at least 1"),
        (s.profile.tokens < 3, f"profile.tokens: {s.profile.tokens}: at least 3"),
        *_rollout_rules(s.load, s.sampling),
        *((v <= 0, f"slo.{k}: {v}: above 0 milliseconds") for k, v in s.slo.limits.items()),
        *_verdict_rules(s.verdict),
        (not s.server.start_timeout_s > 0, "server.start_timeout_s: above 0 seconds"),
        (
            s.server.kind == "external" and s.server.base_url is None,
            "server.base_url: needed for server=external, such as http://127.0.0.1:8000",
        ),
        (s.server.kind == "vllm" and not s.server.command, "server.command: empty"),
    ]
    return [text for wrong, text in rules if wrong]


def _quality_rules(q: Grader) -> list[tuple[bool, str]]:
    validity = q.name == "validity"
    return [
        (
            q.name == "judge_model" and not q.base_url,
            "quality.base_url: needed for quality=judge_model, such as http://127.0.0.1:8000",
        ),
        (
            validity and q.valid == "json_schema" and not q.schema,
            "quality.schema: needed for quality.valid=json_schema, a file with the schema",
        ),
        (
            validity and q.valid == "regex" and not q.pattern,
            "quality.pattern: needed for quality.valid=regex",
        ),
        (not q.seconds > 0, f"quality.seconds: {q.seconds}: above 0"),
        (q.memory_mb < 64, f"quality.memory_mb: {q.memory_mb}: at least 64"),
    ]


def _load_rules(load: Load) -> list[tuple[bool, str]]:
    one, a_ramp = load.name == "sequential", load.name == "ramp"
    ends = (load.ramp_from or 0.0, load.ramp_to or 0.0)
    lowest = 0.5 if load.ramp_of == "concurrency" else 1e-9  # below it nothing is ever sent
    return [
        (
            one and load.concurrency != 1,
            "load.concurrency: sequential sends one request at a time: 1",
        ),
        (one and load.stream, "load.stream: sequential is not streamed; use load=closed"),
        (load.concurrency < 1, f"load.concurrency: {load.concurrency}: at least 1"),
        (load.name == "open" and not _positive(load.rate), "load.rate: above 0 requests a second"),
        (not _positive(load.burstiness), "load.burstiness: above 0; 1 is Poisson"),
        (a_ramp and load.duration_s is None, "load.duration_s: a ramp needs its length in seconds"),
        (
            a_ramp and (None in (load.ramp_from, load.ramp_to) or min(ends) < 0),
            "load.ramp_from, load.ramp_to: two numbers, at least 0",
        ),
        (a_ramp and not lowest <= max(ends) < float("inf"), "load.ramp_to: the ramp sends nothing"),
        (load.requests is not None and load.requests < 1, "load.requests: at least 1, or null"),
        (
            load.duration_s is not None and not _positive(load.duration_s),
            "load.duration_s: above 0 seconds, or null",
        ),
        (
            load.cycle and load.requests is None and load.duration_s is None,
            "load.cycle: without load.requests or load.duration_s it would never end",
        ),
        (load.processes != "auto" and load.processes < 1, "load.processes: at least 1, or auto"),
        (load.warmup_requests < 0, "load.warmup_requests: at least 0"),
        (not load.request_timeout_s > 0, "load.request_timeout_s: above 0 seconds"),
    ]


def _rollout_rules(load: Load, sampling: Sampling) -> list[tuple[bool, str]]:
    batches = load.batches
    return [
        (sampling.n < 1, f"sampling.n: {sampling.n}: at least 1"),
        (
            sampling.n > 1 and sampling.greedy and not batches,
            f"sampling.n: {sampling.n}: greedy answers would all be equal; use sampling=t07_p09",
        ),
        (load.batch_prompts < 1, f"load.batch_prompts: {load.batch_prompts}: at least 1"),
        (load.rescore < 0, f"load.rescore: {load.rescore}: at least 0"),
        (not _positive(load.poll_s), "load.poll_s: above 0 seconds"),
        (batches and load.stream, "load.stream: a rollout batch is answered as a whole; remove it"),
        (
            batches and (load.cycle or load.requests is not None or load.duration_s is not None),
            "load.cycle, load.requests, load.duration_s: a rollout sends every prompt once a "
            "repeat; set dataset.limit and repeats",
        ),
    ]


def _verdict_rules(verdict: Thresholds) -> list[tuple[bool, str]]:
    loss, share = verdict.max_quality_loss, verdict.slo_share
    return [
        (not _positive(verdict.min_speedup), "verdict.min_speedup: above 0; 1 is no gain"),
        (not 0 <= loss <= 1, f"verdict.max_quality_loss: {loss}: between 0 and 1"),
        (not 0 < share <= 1, f"verdict.slo_share: {share}: above 0, at most 1"),
        (verdict.min_prompts < 2, f"verdict.min_prompts: {verdict.min_prompts}: at least 2"),
    ]


def _positive(value: float | None) -> bool:
    return value is not None and 0 < value < float("inf")


def _sentence(error: ErrorDetails) -> str:
    path = ".".join(str(part) for part in error["loc"])
    if error["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        return f"{path}: unknown key{did_you_mean(str(error['loc'][-1]), _siblings(error['loc']))}"
    if error["type"] in ("missing", "missing_argument"):
        return f"{path}: missing"
    shown = json.dumps(error["input"], default=str)
    fix = _FIX.get(error["type"], "").replace("{path}", path)
    return f"{path}: {shown}: {error['msg'].lower()}" + (f"; {fix}" if fix else "")


def _siblings(loc: tuple[int | str, ...]) -> list[str]:
    """Names that would have been right where ``loc`` points."""
    kind: Any = Settings
    for part in loc[:-1]:
        kind = get_type_hints(kind).get(str(part)) if is_dataclass(kind) else None
    return [f.name for f in fields(kind)] if is_dataclass(kind) else []


def this_python(command: tuple[str, ...]) -> tuple[str, ...]:
    """``python`` as first token stands for the interpreter that runs sweeper, and ``trl_serve.py``
    after it for our own launcher of TRL's server."""
    ours = str(Path(__file__).resolve().parent / "serve" / TRL_LAUNCHER)
    rest = (ours if token == TRL_LAUNCHER else token for token in command[1:])
    first = (sys.executable,) if command[:1] == ("python",) else command[:1]
    return (*first, *rest)
