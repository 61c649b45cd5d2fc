"""Rollout batches on a running server: canary, warm-up, the batches, a re-score of what came back.

Several samples of several prompts report no speculation counts each, so every batch stands between
two readings of the server's counters while nothing else is under way.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import cycle, islice
from typing import TypeVar

from sweeper.drive.requests import (
    CANARY_TEXT,
    WARMUP_TEXTS,
    Request,
    extra_prompts,
    prompt_fields,
    shuffled,
    unused,
)
from sweeper.drive.rollout import Answer, Sample, body_of, send_batch
from sweeper.errors import RequestError, ServerError
from sweeper.measure.batches import Tokens, batch_of, each, records_of, tokens_in
from sweeper.measure.canary import facts, probe
from sweeper.measure.canary import warnings as canary_warnings
from sweeper.measure.counters import Counters
from sweeper.measure.energy import meter
from sweeper.measure.measurement import Measurement
from sweeper.measure.point import Emit, cold, one_by_one
from sweeper.measure.reading import close_counters, open_counters, read_counters
from sweeper.measure.rescore import rescored
from sweeper.plan.concerns import cautions
from sweeper.values import Event, Prompt, RequestRecord, Sampling

T = TypeVar("T")


def run_rollouts(one: Measurement, prompts: Sequence[Prompt], emit: Emit) -> None:
    """Send every prompt once a repeat, ``load.batch_prompts`` in a batch.

    Every repeat begins with its caches in the declared state, and sends the batches in an order of
    its own; a batch keeps its prompts, so that its repeats can be told as such.
    """
    point = one.planned.point
    one.warnings += [*point.warnings, *one.session.notes, *cautions(point, one.session.here)]
    if more := sum(1 for prompt in prompts if prompt.follow_ups):
        one.warnings.append(f"{more} prompts have further turns, which a rollout does not take")
    ids = {prompt.id: _token_ids(one, prompt) for prompt in prompts}
    one.chat = prompts[0].messages is not None
    _canary(one, prompts[0])
    _warm_up(one, prompts, ids)
    before, energy = open_counters(one), meter(one.session.spec)
    total = len(prompts) * point.repeats * point.sampling.n
    emit(Event(kind="point_started", point=one.planned.number, text=point.label, total=total))
    origin, last = time.perf_counter_ns(), before
    kept: list[tuple[Tokens, Sample]] = []
    batches = list(enumerate(_cut(prompts, point.load.batch_prompts)))
    for repeat in range(point.repeats):
        cold(one)
        for at, some in shuffled(batches, point.order, repeat):
            number = repeat * len(batches) + at  # by what is in it, whatever the order
            sampling = replace(point.sampling, seed=point.sampling.seed + number)
            listed = [ids[prompt.id] for prompt in some]
            answer = _send(one, listed, sampling, origin)
            now = read_counters(one)
            change = now.since(last) if now and last else None
            last = now
            one.folder.append_batch(batch_of(point.load, number, len(some), answer, change))
            for record in records_of(answer, some, listed, point.sampling.n, repeat):
                one.keep(record)
            kept += zip(each(listed, point.sampling.n), answer.sequences, strict=False)
            emit(_progress(one, answer, change, total))
            if answer.error:
                one.session.check_alive(2.0)
    used = energy.used()
    close_counters(one, before)
    one.counters |= {"energy": used, "rescore": rescored(one, kept)}


def _cut(items: Sequence[T], size: int) -> Iterator[tuple[T, ...]]:
    return (tuple(items[at : at + size]) for at in range(0, len(items), size))


def _token_ids(one: Measurement, prompt: Prompt) -> Tokens:
    """As a trainer has them: the chat template applied, tokenised before it is sent."""
    if prompt.token_ids is not None:
        return prompt.token_ids
    body = prompt_fields(prompt)
    return one.session.endpoint.tokenize({k: v for k, v in body.items() if k != "tool_choice"})


def _send(
    one: Measurement, listed: Sequence[Tokens], sampling: Sampling, origin_ns: int = 0
) -> Answer:
    endpoint, load = one.session.endpoint, one.planned.point.load
    return send_batch(
        endpoint.base_url,
        endpoint.api_key,
        one.session.api,
        body_of(one.session.api, endpoint.model, listed, sampling),
        sequences=len(listed) * sampling.n,
        timeout_s=load.request_timeout_s,
        poll_s=load.poll_s,
        origin_ns=origin_ns,
    )


def _canary(one: Measurement, like: Prompt) -> None:
    """One prompt that is made to be drafted, n times: is speculation on, and off in a baseline, and
    is every sampling field in force, which a wrapper may drop?"""
    point = one.planned.point
    (prompt,) = extra_prompts(like, [CANARY_TEXT], "canary")
    ids, before = _token_ids(one, prompt), read_counters(one)
    answer = _send(one, [ids], point.sampling)
    if answer.error:
        raise RequestError(f"the canary batch failed: {answer.error}")
    after = read_counters(one)
    _check_drafts(one, before, after)
    probes = probe(point, like, lambda requests: _asked(one, like, requests))
    first, *_ = records_of(answer, [prompt], [ids], point.sampling.n, 0)
    whole = replace(first, completion_tokens=tokens_in(answer))
    one.canary = facts(point, body_of(one.session.api, "", [ids], point.sampling), whole, probes)
    one.warnings += canary_warnings(one.canary, point)


def _asked(one: Measurement, like: Prompt, requests: Sequence[Request]) -> list[RequestRecord]:
    """Answers to what is asked of every point, in batches of one."""
    shown = ("prompt", "messages", "tools", "chat_template_kwargs")
    names = [field.name for field in fields(Sampling) if field.name != "name"]

    def answer(request: Request) -> RequestRecord:
        ids = one.session.endpoint.tokenize({k: v for k, v in request.body.items() if k in shown})
        drawn = replace(one.planned.point.sampling, **{k: request.body[k] for k in names})
        return next(records_of(_send(one, [ids], drawn), [like], [ids], drawn.n, 0))

    return one_by_one(one, requests, answer)


def _check_drafts(one: Measurement, before: Counters | None, after: Counters | None) -> None:
    point = one.planned.point
    change = after.since(before) if after and before else None
    if change is None or change.completion_tokens is None:
        one.warnings.append("speculation not verified: the server shows no counters in /metrics")
    elif point.is_baseline and change.drafted:
        raise ServerError("the baseline server speculates: its counters moved on the canary")
    elif not point.is_baseline and change.verify_steps is None:
        raise ServerError("speculation was asked for, but the server counts none in its /metrics")
    elif not point.is_baseline and not change.drafted:
        one.warnings.append("the canary drew no draft from this server")


def _warm_up(one: Measurement, prompts: Sequence[Prompt], ids: Mapping[str, Tokens]) -> None:
    """Batches of the measured shape with other words, not recorded; and with ``cache=warm`` the
    prompts themselves once."""
    load, sampling, like = one.planned.point.load, one.planned.point.sampling, prompts[0]
    texts = cycle(unused(WARMUP_TEXTS, prompts))
    for _ in range(load.warmup_requests):
        if some := extra_prompts(like, islice(texts, load.batch_prompts), "warmup"):
            _send(one, [_token_ids(one, prompt) for prompt in some], sampling)
    if one.planned.point.cache == "warm":
        for listed in _cut([ids[prompt.id] for prompt in prompts], load.batch_prompts):
            _send(one, listed, replace(sampling, n=1))


def _progress(one: Measurement, answer: Answer, change: Counters | None, total: int) -> Event:
    return Event(
        kind="request_done",
        point=one.planned.number,
        text=one.planned.point.label,
        done=one.sent,
        total=total,
        tokens=tokens_in(answer),
        request_s=answer.seconds,
        accepted=int(change.accepted or 0) if change else 0,
        drafted=int(change.drafted or 0) if change else 0,
    )
