"""The frozen values that flow from the plan to the report; standard library only.

Times are differences of ``perf_counter_ns`` in nanoseconds unless the name carries a unit.
A figure that was not measured is ``None``, never 0 and never NaN.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from dataclasses import fields as fields_of
from typing import Any, Literal

Json = Any
"""What ``json.loads`` returns."""

Status = Literal["completed", "failed", "invalid", "preempted", "lost", "skipped"]
STATUSES: tuple[Status, ...] = ("completed", "failed", "invalid", "preempted", "lost", "skipped")

RolloutApi = Literal["completions", "generate"]
ROLLOUT_PATHS: dict[RolloutApi, str] = {"completions": "/v1/completions", "generate": "/generate/"}
"""What rollout batches are sent to; the second is that of TRL's own server, up to TRL 1.10."""

Cache = Literal["cold", "warm", "as_is"]
"""``cold``: prefix caches are empty before every repeat. ``warm``: all prompts were sent before.
``as_is``: nothing is done."""

Control = Literal["none", "synthetic"]
"""``synthetic``: drafts may be accepted by a fixed rate, to test a system and not a draft."""

Baselines = Literal["shared", "per_group", "off"]
"""``shared``: one for all points of equal conditions. ``per_group``: one right before the points of
every server, on its node. ``off``: none that was not asked for."""

BASELINE = "none"
"""The method name of a server without speculation."""


def content_key(value: Json) -> str:
    """First 16 hex digits of the SHA-256 of the canonical JSON of ``value``."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpec:
    """Everything that determines the server process.

    ``speculative_config`` is the JSON text given to ``--speculative-config`` (keys sorted), empty
    for a server without speculation. ``args`` are all other vLLM flags, already argv tokens.
    ``env`` are variables the user set for the server; secrets are refused there. ``workarounds``
    names engine defects that a plugin inside the server is to make right. ``speculative_resolved``
    is the speculative config as vLLM resolves it, with the defaults of its method, and takes its
    place in the identity: two spellings of one setting are one server.
    """

    kind: Literal["vllm", "external"]
    command: tuple[str, ...]
    model: str
    revision: str | None = None
    speculative_config: str = ""
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    base_url: str | None = None
    port: int | None = None
    api_key_env: str | None = None
    start_timeout_s: float = 600.0
    stop_timeout_s: float = 30.0
    workarounds: tuple[str, ...] = ()
    speculative_resolved: str = ""

    @property
    def resolved(self) -> dict[str, Json] | None:
        """What vLLM makes of :attr:`speculative`; ``None`` without speculation."""
        text = self.speculative_resolved or self.speculative_config
        return json.loads(text) if text else None

    @property
    def speculative(self) -> dict[str, Json] | None:
        """The parsed ``--speculative-config``; ``None`` without speculation."""
        return json.loads(self.speculative_config) if self.speculative_config else None

    @property
    def identity(self) -> dict[str, Json]:
        """The fields two servers must share to be one; waiting times do not count."""
        fields = _fields(self)
        del fields["start_timeout_s"], fields["stop_timeout_s"]
        if not self.workarounds:  # a server without any is the one it was before there were any
            del fields["workarounds"]
        resolved = fields.pop("speculative_resolved")
        if resolved:
            fields["speculative_config"] = resolved
        return fields

    @property
    def key(self) -> str:
        """Content hash of :attr:`identity`."""
        return content_key(self.identity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """Prompts, where they are read, and how much of them is used.

    ``digest`` is the SHA-256 of the file's bytes for our own format, and of the prompts as they are
    used for every other ``format``; it and not the path is identity. ``limit`` takes the first so
    many prompts, ``None`` all of them. ``options`` are what the format further needs, sorted by
    name. ``requests`` is the number of turns of all prompts together (``None``: one a prompt).
    ``synthetic`` prompts are no text anybody wrote. ``notes`` are sentences for people.
    """

    name: str
    path: str
    digest: str
    limit: int | None = None
    prompts: int
    format: str = "prompts"
    options: tuple[tuple[str, Json], ...] = ()
    requests: int | None = None
    synthetic: bool = False
    notes: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The name, and SYNTHETIC where it must not be taken for text."""
        return f"{self.name} (SYNTHETIC)" if self.synthetic else self.name

    @property
    def identity(self) -> dict[str, Json]:
        """Contents: neither names and paths nor what was derived from them."""
        return {"digest": self.digest, "limit": self.limit, "prompts": self.prompts}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Sampling fields, every one of them sent with every request; ``n`` answers to each."""

    name: str
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    presence_penalty: float
    frequency_penalty: float
    repetition_penalty: float
    seed: int
    max_tokens: int
    ignore_eos: bool = False
    n: int = 1

    @property
    def greedy(self) -> bool:
        """vLLM treats temperatures below 1e-5 as greedy."""
        return self.temperature < 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How requests are sent.

    ``sequential``: one at a time, not streamed. ``closed``: ``concurrency`` always under way.
    ``open``: a request at every arrival, ``rate`` a second, whatever is still under way;
    ``burstiness`` is the shape of gamma gaps (1 is Poisson, below 1 comes in bursts). ``ramp``:
    ``ramp_of`` goes in a line from ``ramp_from`` to ``ramp_to`` within ``duration_s``.

    Nothing is admitted after ``requests`` requests (``None``: every prompt of every repeat once)
    or ``duration_s``; what is under way then is waited for. ``rollout``: one batch after another,
    ``batch_prompts`` prompts in one request, each sampled ``sampling.n`` times; every ``poll_s``
    seconds the server is asked how many sequences run; ``rescore`` sequences are scored again;
    ``policy_version`` names the weights in the rollout log. ``cycle`` permits to send prompts
    again when they run out. Of a prompt with several turns ``requests`` counts the first only, and
    a later one is sent as soon as the answer before it is there. ``seed`` draws the arrivals.
    ``request_timeout_s`` bounds one request; a request past it is an error in its record.
    ``processes`` send it: how, and no part of what the load is.
    """

    name: Literal["sequential", "closed", "open", "ramp", "rollout"]
    concurrency: int = 1
    warmup_requests: int = 1
    request_timeout_s: float = 600.0
    stream: bool = False
    requests: int | None = None
    duration_s: float | None = None
    cycle: bool = False
    rate: float | None = None
    arrivals: Literal["poisson", "gamma", "constant"] = "poisson"
    burstiness: float = 1.0
    seed: int = 0
    ramp_of: Literal["concurrency", "rate"] = "concurrency"
    ramp_from: float | None = None
    ramp_to: float | None = None
    batch_prompts: int = 1
    rescore: int = 0
    poll_s: float = 0.2
    policy_version: str = "0"
    processes: int | Literal["auto"] = "auto"

    @property
    def label(self) -> str:
        """``sequential``, ``closed ×8``, ``open 2.5/s``, ``ramp rate 1–8``, ``rollout ×4``."""
        if self.batches:
            return f"rollout ×{self.batch_prompts}"
        if self.name == "closed":
            return f"closed ×{self.concurrency}"
        if self.name == "open":
            return f"open {self.rate:g}/s"
        if self.name == "ramp":
            return f"ramp {self.ramp_of} {self.ramp_from:g}–{self.ramp_to:g}"
        return self.name

    @property
    def batches(self) -> bool:
        """Whether batches are what is sent, timed and counted, and not single requests."""
        return self.name == "rollout"

    @property
    def overlapping(self) -> bool:
        """Whether requests may be under way together."""
        return self.name != "sequential"

    @property
    def by_repeat(self) -> bool:
        """Whether every repeat is sent as a load of its own; one bound by time runs through."""
        return self.duration_s is None and not self.cycle


@dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """What an answer must keep to be good, in milliseconds; ``None`` is no limit."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None

    @property
    def limits(self) -> dict[str, float]:
        """The limits there are, by name."""
        return {name: limit for name, limit in asdict(self).items() if limit is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """What a verdict asks of a setting before it says deploy; ``conf/verdict/``.

    The speed-up's interval, which holds for all settings of a workload at once, must lie above
    ``min_speedup``; below it the answer is don't. ``output``: ``right`` asks for a check of the
    output that found nothing, ``not wrong`` only that none found a fault, ``any`` ignores it.
    ``max_quality_loss`` bounds the share of solved tasks that may be lost, where it was measured.
    Fewer than ``min_prompts`` prompts decide nothing. The SLO holds at a load when ``slo_share``
    of all requests keep every limit; with ``need_slo`` a verdict without one is inconclusive.
    """

    name: str = "default"
    min_speedup: float = 1.05
    output: Literal["right", "not wrong", "any"] = "right"
    max_quality_loss: float = 0.02
    min_prompts: int = 5
    slo_share: float = 0.95
    need_slo: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One cell of the comparison: a server, prompts, sampling and load.

    ``gamma`` is the number of draft tokens per step (``num_speculative_tokens``), 0 for the
    baseline. ``trained_draft`` says that the method uses trained weights, so an acceptance of
    nothing is a mistake and not a property of the text. ``warnings`` are sentences about the
    setting for people to read before it runs; they are no part of what the point is. ``control``
    says that all of its figures are SYNTHETIC, and is refused where it is not asked for.
    ``before`` is the key of the group right before which a baseline is measured, for its points
    alone; empty where all points share it.
    """

    method: str
    gamma: int
    target: str
    server: ServerSpec
    dataset: Dataset
    sampling: Sampling
    load: Load
    repeats: int = 1
    warm: bool = False
    trained_draft: bool = False
    max_error_rate: float = 0.0
    warnings: tuple[str, ...] = ()
    cache: Cache = "cold"
    control: Control = "none"
    before: str = ""

    @property
    def identity(self) -> dict[str, Json]:
        """What makes two points equal: names and paths of prompt files do not, contents do.

        Where it is known what vLLM resolves the speculative config to, that alone says how drafts
        are made, and the name of the method's file does not.
        """
        fields = _fields(self)
        fields["server"] = self.server.identity
        fields["sampling"], fields["load"] = _fields(self.sampling), _fields(self.load)
        del fields["warnings"]
        if self.server.speculative_resolved:
            del fields["method"], fields["gamma"], fields["trained_draft"]
        fields["dataset"] = self.dataset.identity
        del fields["sampling"]["name"], fields["load"]["processes"]
        _without_defaults(fields["sampling"], Sampling, ("n",))
        _without_defaults(fields["load"], Load, _OF_ROLLOUTS)
        if self.cache == "cold":  # what a point was before there was a choice
            del fields["cache"]
        if self.control == "none":
            del fields["control"]
        if not self.before:
            del fields["before"]
        return fields

    @property
    def key(self) -> str:
        """Content hash of :attr:`identity`."""
        return content_key(self.identity)

    @property
    def is_baseline(self) -> bool:
        return self.method == BASELINE

    @property
    def label(self) -> str:
        """``ngram γ=4`` or ``none``."""
        return self.method if self.is_baseline else f"{self.method} γ={self.gamma}"

    @property
    def conditions(self) -> dict[str, Json]:
        """What a point and its baseline must share (everything but method and γ)."""
        fields = self.identity
        for name in ("method", "gamma", "warm", "trained_draft", "before"):
            fields.pop(name, None)
        fields["server"] = dict(fields["server"], speculative_config="")
        return fields

    @property
    def order(self) -> str:
        """What the order of the prompts is drawn from: the same in every arm."""
        return content_key({k: v for k, v in self.conditions.items() if k != "server"})

    @property
    def keeps_tree(self) -> bool:
        """Whether the server drafts from a suffix tree over all its earlier requests."""
        settings = self.server.resolved or {}
        limit = settings.get("suffix_decoding_max_cached_requests")
        return settings.get("method") == "suffix" and limit != 0


_OF_ROLLOUTS = ("batch_prompts", "rescore", "poll_s", "policy_version")


def _fields(value: Any) -> dict[str, Json]:
    """By name, as they are: ``asdict`` would copy every leaf."""
    return {f.name: getattr(value, f.name) for f in fields_of(value)}


def _without_defaults(values: dict[str, Json], cls: type, names: tuple[str, ...]) -> None:
    """Fields that are newer than their class: a point without them is the one it was before."""
    defaults = {f.name: f.default for f in fields_of(cls)}
    for name in names:
        if values[name] == defaults[name]:
            del values[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One combination Hydra composed, numbered from 0, with the overrides that made it."""

    number: int
    overrides: tuple[str, ...]
    point: Point


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPoint:
    """A point to measure once for every job in ``jobs`` (empty: an added baseline).

    ``number`` is the order of measurement; ``baseline`` the number of the point to compare with,
    ``None`` for a baseline itself. ``skip`` says why it cannot be measured here, and is empty
    for a point that can. ``key`` is the point's key when it was planned: a later version may
    hash other fields, and files are found by this one.
    """

    number: int
    key: str
    point: Point
    jobs: tuple[int, ...]
    baseline: int | None
    skip: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One server and the points it serves, in order: one start serves many points.

    ``key`` is the server's key when it was planned, or one of its own where the server must be
    fresh for its one point. With ``baseline=per_group`` the points of its
    own baseline come first, which another server serves; see :attr:`starts`.
    """

    key: str
    server: ServerSpec
    points: tuple[PlannedPoint, ...]

    @property
    def starts(self) -> tuple[Group, ...]:
        """One part for every server that is started, in order."""
        base = tuple(p for p in self.points if p.point.before)
        own = tuple(p for p in self.points if not p.point.before)
        if not base:
            return (self,)
        server = base[0].point.server
        first = Group(key=server.key, server=server, points=base)
        return (first, replace(self, points=own)) if own else (first,)

    @property
    def name(self) -> str:
        """``ngram γ=4 on org/model``, of the points it is for."""
        point = self.points[-1].point
        return f"{point.label} on {point.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A job that cannot be run and why; ``fix`` says what would be right."""

    number: int
    overrides: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a sweep will do, in the order it will do it."""

    jobs: tuple[Job, ...]
    groups: tuple[Group, ...]
    refusals: tuple[Refusal, ...] = ()

    @property
    def points(self) -> tuple[PlannedPoint, ...]:
        """All points by number."""
        found = (p for group in self.groups for p in group.points)
        return tuple(sorted(found, key=lambda p: p.number))


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One chat message.

    ``content`` is its text as people read it, tool calls included. ``given`` is the whole message
    as JSON text where it is more than a role and a text: calls, a name, content in parts.
    """

    role: str
    content: str
    given: str | None = None

    @property
    def sent(self) -> dict[str, Json]:
        """What the server gets: the message as its file has it."""
        if self.given is None:
            return {"role": self.role, "content": self.content}
        return dict(json.loads(self.given))


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One prompt: ``messages`` for the chat endpoint, ``text`` or ``token_ids`` for completions.

    ``follow_ups`` are the user's further turns, each sent with the model's own answers before it.
    ``tests`` is Python source with assertions for code tasks, ``entry_point`` the function they
    call (defined by the answer, or by ``text`` and the answer after it); ``reference`` an expected
    answer to the last turn, ``schema`` JSON text of the schema that an answer is held against.
    ``tools`` and ``template_kwargs`` are JSON text for the chat template.
    ``line`` is where the prompt's file has it.
    """

    id: str
    category: str | None = None
    messages: tuple[Message, ...] | None = None
    text: str | None = None
    reference: str | None = None
    entry_point: str | None = None
    tests: str | None = None
    schema: str | None = None
    follow_ups: tuple[str, ...] = ()
    token_ids: tuple[int, ...] | None = None
    tools: str | None = None
    template_kwargs: str | None = None
    line: int | None = field(default=None, compare=False)

    @property
    def turns(self) -> int:
        """Requests that this prompt makes."""
        return 1 + len(self.follow_ups)

    @property
    def asked(self) -> str:
        """The first turn with all before it, as people read it."""
        if self.messages is None:
            return self.text or (f"{len(self.token_ids)} token ids" if self.token_ids else "")
        if len(self.messages) == 1:
            return self.messages[0].content
        return "\n\n".join(f"{m.role}: {m.content}" for m in self.messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecCounts:
    """Speculation totals of one request or of many.

    ``verify_steps`` S counts target steps that had a draft, ``drafted`` D draft tokens scheduled,
    ``accepted`` A draft tokens accepted (bonus token not counted, tokens past the end counted).
    ``histogram[j]`` is the number of verify steps that accepted exactly ``j`` tokens; its length
    is γ + 1. ``per_step_*`` are vLLM's detailed arrays, one entry a verify step. ``counted`` says
    that the request reported nothing and these are differences of the server's counters.
    """

    verify_steps: int
    drafted: int
    accepted: int
    histogram: tuple[int, ...] | None = None
    per_step_drafted: tuple[int, ...] | None = None
    per_step_accepted: tuple[int, ...] | None = None
    counted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """One request as it happened; one JSON line of ``requests.jsonl``.

    ``sent_ns``, ``first_ns`` and ``done_ns`` count from the start of the point's measured part;
    ``first_ns`` is ``None`` when the answer was not streamed. Token counts come from ``usage``.
    ``decode_steps`` is the number of decode steps of this request, with or without a draft, from
    the server's inter-token-latency counter; ``None`` where requests overlap. ``error`` is empty
    on success, and then all token counts are there.

    ``chunk_ns`` has one entry for every streamed event with tokens: the first is the time from
    sending to its first byte, each other the time since the one before; bytes that came together
    have 0 between them. ``due_ns`` is when an open load had planned to send. ``queue_ms``,
    ``prefill_ms`` (scheduled to first token) and ``decode_ms`` (first to last token) are the
    server's own figures, where it reports them.

    Of several ``answers`` to one request, ``completion_tokens`` are those of all, ``text`` and
    ``token_ids`` those of the first.
    """

    prompt_id: str
    category: str | None
    repeat: int
    turn: int
    sent_ns: int
    first_ns: int | None
    done_ns: int
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    finish_reason: str | None
    spec: SpecCounts | None
    decode_steps: int | None
    text: str
    token_ids: tuple[int, ...] | None
    prompt_digest: str | None
    error: str
    chunk_ns: tuple[int, ...] | None = None
    due_ns: int | None = None
    queue_ms: float | None = None
    prefill_ms: float | None = None
    decode_ms: float | None = None
    answers: int = 1

    @property
    def request_time_s(self) -> float:
        """Seconds from sending to the last byte."""
        return (self.done_ns - self.sent_ns) / 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutBatch:
    """One rollout batch; one JSON line of ``rollouts.jsonl``, which trainers may write too.

    ``policy_version`` names the weights of the target that wrote it. Counts are differences of the
    server's counters over the batch: ``drafts`` S, ``drafted`` D, ``accepted`` A, ``decode_steps``
    of all its sequences together. ``tail_s`` is how long the last tenth of the sequences (the last
    one at least) was waited for, to the nearest poll below. What is not known is ``None``. A
    trainer that logs no counts gives ``acceptance_rate``.
    """

    policy_version: str
    batch: int | None = None
    prompts: int | None = None
    sequences: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    drafts: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    decode_steps: int | None = None
    tail_s: float | None = None
    acceptance_rate: float | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointResult:
    """What is known of one point; ``result.json``.

    ``reason`` is empty for a completed point. ``counters`` holds the difference of the server's
    own counters over the measured part and the cross-check against the requests' sums, and
    ``over_time`` where only they tell what was drafted when; ``warnings`` are sentences for
    people; ``provenance`` is free-form JSON by section.
    """

    number: int
    key: str
    sweep: str
    status: Status
    reason: str
    requests: int
    failed: int
    started_at: str
    wall_s: float
    server_folder: str
    counters: Json
    warnings: tuple[str, ...]
    provenance: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """One sweep as it was submitted; ``sweep.json``.

    ``command`` is the argv that made it, ``settings`` what applies to all its points (baseline
    policy, tracker, seeds), ``versions`` of this program and what it was planned with.
    """

    id: str
    created_at: str
    command: tuple[str, ...]
    plan: Plan
    settings: Json
    versions: Json


EventKind = Literal[
    "server_starting",
    "server_waiting",
    "server_ready",
    "server_stopped",
    "point_started",
    "request_done",
    "point_ended",
    "checked",
    "profiled",
    "warning",
    "job",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something a watching person wants to see.

    ``done`` of ``total`` requests; ``seconds`` since the start of what is named; ``text`` for
    people; ``tokens`` and ``request_s`` of the request that just ended. A ``job`` is a group that
    runs elsewhere: ``text`` is its state, ``doing`` what it does, ``done`` of ``total`` its points.
    """

    kind: EventKind
    server: str = ""
    point: int | None = None
    text: str = ""
    done: int = 0
    total: int = 0
    seconds: float = 0.0
    tokens: int = 0
    request_s: float = 0.0
    accepted: int = 0
    drafted: int = 0
    job: str = ""
    node: str = ""
    doing: str = ""
