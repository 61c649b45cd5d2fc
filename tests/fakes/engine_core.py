"""What stands behind the HTTP of ``engine.py``: a pretend model, its drafts, cache and counters.

Texts and drafts are functions of prompt, model, sampling, speculative config and ``FAULTS``.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
import zlib
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.engine_company import Company
from tests.fakes.engine_flags import BLOCK, FAULTS, LOOKUP, hit

WORDS = (
    *("the", "a", "of", "draft", "token", "step", "model", "cache", "verify"),
    *("fast", "slow", "tree", "batch", "accept", "reject", "why"),
)
ACCEPTANCE = 0.75
"""Acceptance a position of every other method; these draft in every step."""


def pieces(text: str) -> list[str]:
    """The tokens of ``text``: words, each with the space before it."""
    return re.findall(r"\s*\S+|\s+$", text)


def ids(tokens: list[str]) -> list[int]:
    return [zlib.crc32(text.encode()) % 49152 for text in tokens]


def likely(token: int) -> list[tuple[int, float]]:
    """The tokens that could stand where ``token`` does, with log-probabilities."""
    return [(token, -0.1), (token + 1, -2.5)]


def obeyed(body: dict[str, Any], name: str, neutral: float) -> float:
    """The value of a sampling field, as if it were not there where it is ignored."""
    return neutral if name in FAULTS.get("ignored_fields", ()) else body.get(name) or neutral


def only_the_likeliest(body: dict[str, Any]) -> bool:
    cut = obeyed(body, "top_p", 1.0) < 1e-3 or obeyed(body, "top_k", 0) == 1
    return cut or (body.get("temperature", 1.0) or 0.0) < 1e-5 or obeyed(body, "min_p", 0.0) >= 1


def penalties(body: dict[str, Any]) -> str:
    """Other words for strong penalties."""
    names = {"presence_penalty": 0.0, "frequency_penalty": 0.0, "repetition_penalty": 1.0}
    return "".join(f"\n{n}" for n, at in names.items() if obeyed(body, n, at) > at + 1)


def write(
    model: str, prompt: str, body: dict[str, Any], limit: int, spec: dict[str, Any] | None
) -> tuple[list[str], str]:
    """The answer's tokens, at most ``limit``, and its finish reason ``stop`` or ``length``.

    Sampled text depends on the speculation too, as vLLM's does: the draws differ in order.
    """
    sampled = "" if only_the_likeliest(body) else f"{body.get('seed')} {json.dumps(spec)}"
    dice = random.Random(f"{model}\n{prompt}\n{sampled}{penalties(body)}")
    natural = [dice.choice(WORDS) for _ in range(dice.randint(24, 160))]
    tokens = pieces(" ".join(natural))
    for part, text in FAULTS.get("answers", {}).items():
        tokens = pieces(text) if part in prompt else tokens
    if body.get("ignore_eos"):
        tokens += [f" {dice.choice(WORDS)}" for _ in range(limit - len(tokens))]
    if spec and random.Random(prompt).random() < FAULTS.get("wrong_text_share", 0.0):
        tokens[len(tokens) // 2] = " wrong"
    short = len(tokens) < limit and not body.get("ignore_eos")
    return tokens[:limit], "stop" if short else "length"


def cut_at_stop(tokens: list[str], stop: str | list[str] | None) -> tuple[list[str], str] | None:
    """The tokens up to the first stop string, and the text before it; ``None`` without one."""
    text = "".join(tokens)
    found = [
        (text.find(s), s) for s in ([stop] if isinstance(stop, str) else stop or []) if s in text
    ]
    if not found:
        return None
    at, string = min(found)
    used = next(n for n in range(len(tokens) + 1) if len("".join(tokens[:n])) >= at + len(string))
    return tokens[:used], text[:at]


def steps(
    model: str, prompt: str, spec: dict[str, Any] | None, request: int
) -> Iterator[tuple[int, int]]:
    """Endless (drafted, accepted) of the decode steps of one request; (0, 0) without a draft."""
    if spec is None:
        while True:
            yield 0, 0
    method, gamma = spec["method"], spec["num_speculative_tokens"]
    coverage, acceptance = LOOKUP.get(method, (1.0, ACCEPTANCE))
    coverage, acceptance = FAULTS.get("coverage", coverage), FAULTS.get("acceptance", acceptance)
    if hit("accept_nothing", request) or hit("freeze_accepts_after", request):
        acceptance = 0.0
    dice = random.Random(f"{model}\n{prompt}\n{json.dumps(spec)}")
    while True:
        drafted = dice.randint(1, gamma) if method == "suffix" else gamma
        drafted = drafted if dice.random() < coverage else 0
        rejected = (n for n in range(drafted) if dice.random() >= acceptance)
        yield drafted, next(rejected, drafted)


@dataclass(slots=True)
class Job:
    """One request; of several ``answers`` the first is decoded and counted, the prompt for each.
    ``reported`` says whether its end carries ``speculative_decoding``."""

    number: int
    chat: bool
    body: dict[str, Any]
    prompt: str
    tokens: list[str]
    text: str
    reason: str
    reported: bool
    answers: int = 1
    cached: int = 0
    drafted: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    times_ms: dict[str, float] = field(default_factory=dict)


class Core:
    """The engine's state: what runs, what is cached, what was counted."""

    def __init__(self, name: str, spec: dict[str, Any] | None, slots: int, step_s: float) -> None:
        self.name, self.spec, self.step_s = name, spec, step_s
        self.gamma: int = spec["num_speculative_tokens"] if spec else 0
        self.count: Counter[str] = Counter()
        self.seen: set[int] | None = set()
        self.slots = asyncio.Semaphore(slots)
        self.company, self.waiting = Company(FAULTS.get("answer_together", 0)), 0

    async def run(self, job: Job) -> AsyncGenerator[list[str], None]:
        """Yield the tokens of each step, the one of the prefill first; count as vLLM counts."""
        arrived = time.perf_counter()
        self.waiting += 1
        async with self.slots:
            self.waiting -= 1
            job.times_ms["queue_time_ms"] = 1000 * (time.perf_counter() - arrived)
            try:
                await self.company.join()
                before = self.company.readings
                async with aclosing(self.decode(job, arrived)) as decoding:
                    async for tokens in decoding:
                        yield tokens
                await self.company.read_since(before if hit("ends_when_read", job.number) else -1)
                self.count[job.reason] += 1
                self.observe("e2e_request_latency", arrived)
            finally:
                self.company.leave()

    async def decode(self, job: Job, arrived: float) -> AsyncGenerator[list[str], None]:
        job.cached = self.look_up(job)
        self.count["prompt_tokens"] += len(pieces(job.prompt)) * job.answers
        self.count["prompt_tokens_cached"] += job.cached
        await asyncio.sleep(self.step_s)
        job.times_ms["time_to_first_token_ms"] = 1000 * self.step_s
        self.observe("time_to_first_token", arrived)
        self.count["generation_tokens"] += 1
        yield job.tokens[:1]
        done, due = 1, time.perf_counter()
        began = due
        for drafted, accepted in steps(self.name, job.prompt, self.spec, job.number):
            job.times_ms["generation_time_ms"] = 1000 * (time.perf_counter() - began)
            if done >= len(job.tokens):
                return
            before = due
            due += self.step_s + drafted * FAULTS.get("draft_ms", 0.0) / 1000
            await asyncio.sleep(due - time.perf_counter())
            self.observe("inter_token_latency", before)
            tokens = job.tokens[done : done + accepted + 1]
            self.count["generation_tokens"] += len(tokens)
            if drafted:
                self.verify(job, drafted, accepted)
            done += len(tokens)
            yield tokens

    def observe(self, histogram: str, since: float) -> None:
        self.count[f"{histogram}_count"] += 1
        self.count[f"{histogram}_us"] += int((time.perf_counter() - since) * 1e6)

    def verify(self, job: Job, drafted: int, accepted: int) -> None:
        """Count one verify step; drafts accepted past the end of the answer count too."""
        job.drafted.append(drafted)
        job.accepted.append(accepted)
        self.count["drafts"] += 1
        self.count["draft_tokens"] += drafted
        self.count["accepted_tokens"] += accepted
        for at in range(accepted):
            self.count[f"accepted at {at}"] += 1

    def look_up(self, job: Job) -> int:
        """Cached prompt tokens: whole blocks, never the whole prompt; then cache the prompt."""
        if self.seen is None:
            return 0
        prompt, salt = ids(pieces(job.prompt)), job.body.get("cache_salt")
        blocks = [hash((salt, *prompt[:end])) for end in range(BLOCK, len(prompt) + 1, BLOCK)]
        usable = blocks[: (len(prompt) - 1) // BLOCK]
        fresh = (n for n, block in enumerate(usable) if block not in self.seen)
        cached = next(fresh, len(usable)) * BLOCK
        self.seen.update(blocks)
        return cached

    def samples(self) -> Iterator[tuple[str, str, float]]:
        """Name, further labels and value of every metric."""
        yield "num_requests_running", "", self.company.running
        yield "num_requests_waiting", "", self.waiting
        for name in ("prompt_tokens", "prompt_tokens_cached", "generation_tokens"):
            yield f"{name}_total", "", self.count[name]
        for reason in ("stop", "length", "abort", "error", "repetition"):
            yield "request_success_total", f',finished_reason="{reason}"', self.count[reason]
        for name in ("inter_token_latency", "time_to_first_token", "e2e_request_latency"):
            yield f"{name}_seconds_count", "", self.count[f"{name}_count"]
            yield f"{name}_seconds_sum", "", self.count[f"{name}_us"] / 1e6
        for name in ("drafts", "draft_tokens", "accepted_tokens") if self.spec else ():
            yield f"spec_decode_num_{name}_total", "", self.count[name]
        for at in range(self.gamma):
            name = "spec_decode_num_accepted_tokens_per_pos_total"
            yield name, f',position="{at}"', self.count[f"accepted at {at}"]

    def report(self, job: Job, detailed: bool) -> dict[str, Any] | None:
        """The request's ``metrics.speculative_decoding``."""
        if not job.reported:
            return None
        verified, drafted, accepted = len(job.drafted), sum(job.drafted), sum(job.accepted)
        found: dict[str, Any] = {
            "mean_acceptance_length": 1.0 + accepted / verified if verified else 1.0,
            "draft_acceptance_rate": accepted / drafted if drafted else 0.0,
            "acceptance_histogram": [job.accepted.count(n) for n in range(self.gamma + 1)],
            "num_spec_steps": verified,
            "num_accepted_draft_tokens": accepted,
            "num_draft_tokens": drafted,
            "num_spec_tokens": self.gamma,
        }
        if detailed and verified:
            found |= {"per_step_accepted": job.accepted, "per_step_drafted": job.drafted}
        return found
