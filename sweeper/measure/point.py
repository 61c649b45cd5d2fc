"""One point on a running server: canary, warm-up, the prompts, the counters, the result."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from itertools import cycle, groupby, islice

from sweeper import store
from sweeper.drive.load import Client, rehearsal, run_load
from sweeper.drive.requests import (
    WARMUP_TEXTS,
    Request,
    asked_for,
    extra_prompts,
    requests_of,
    total_of,
    unused,
)
from sweeper.errors import RequestError, ServerError
from sweeper.measure.caches import make_cold
from sweeper.measure.caches import warnings as cache_warnings
from sweeper.measure.canary import canary, draft_warnings, facts, probe
from sweeper.measure.canary import warnings as canary_warnings
from sweeper.measure.checks import misconfigured, point_warnings
from sweeper.measure.control import refused
from sweeper.measure.counters import with_counts
from sweeper.measure.energy import meter
from sweeper.measure.measurement import Measurement, ended, progress
from sweeper.measure.reading import close_counters, open_counters, read_counters, scrape
from sweeper.measure.series import sampled
from sweeper.measure.throughput import load_warnings
from sweeper.measure.times import later
from sweeper.measure.windows import dead_windows
from sweeper.plan.concerns import cautions
from sweeper.serve.session import Session
from sweeper.store import PointFolder
from sweeper.values import (
    Event,
    Load,
    PlannedPoint,
    PointResult,
    Prompt,
    RequestRecord,
)

log = logging.getLogger(__name__)

BUSY = 0.85
"""Share of a core from which a client process has no time to spare."""
Emit = Callable[[Event], None]
Run = Callable[[Measurement, Sequence[Prompt], Emit], None]


def measure(
    session: Session,
    planned: PlannedPoint,
    prompts: Sequence[Prompt],
    folder: PointFolder,
    sweep: str,
    emit: Emit,
    run: Run | None = None,
) -> PointResult:
    """Measure one point and write its files; a dead server raises after they are written.

    ``run`` is how its requests are sent where it is not one by one.

    :raises ServerError: the server died; the result is on disk as ``failed``.
    """
    one = Measurement(planned=planned, folder=folder, session=session, sweep=sweep)
    result = None
    try:
        try:
            reason = refused(planned.point, session.info)
            if not reason:
                with sampled(session, folder, one.hear):
                    (run or _run)(one, prompts, emit)
            result = one.result("invalid", reason) if reason else _judged(one)
        except RequestError as problem:
            session.check_alive(_patience_s(str(problem)))
            result = one.result("failed", str(problem))
    except ServerError as problem:
        result = one.result("failed", str(problem))
        raise
    except KeyboardInterrupt:
        result = one.result("preempted", "interrupted before it was complete")
        raise
    finally:
        if result is not None:
            store.write_json(folder.result, store.to_json(result))
            emit(ended(result))
    return result


def _run(one: Measurement, prompts: Sequence[Prompt], emit: Emit) -> None:
    point = one.planned.point
    load = point.load
    requests = asked_for(prompts, point.sampling, point.repeats, load, point.order)
    total = total_of(prompts, point.repeats, load, point.order)
    one.warnings += [*point.warnings, *one.session.notes, *cautions(point, one.session.here)]
    one.chat = prompts[0].messages is not None
    _canary(one, prompts[0])
    _warm_up(one, prompts)
    before = open_counters(one)
    energy = meter(one.session.spec)
    emit(Event(kind="point_started", point=one.planned.number, text=point.label, total=total))
    last = before

    def keep(record: RequestRecord) -> None:
        nonlocal last
        # Decode steps belong to a request only where no other is under way.
        now = scrape(one) if before is not None and not load.overlapping else None
        if now and last and not record.error:
            steps = now.since(last)
            record = with_counts(record, steps) if steps else record
        last = now or last
        record = later(record, one.shift_ns)
        one.keep(record)
        emit(progress(one, record, total))
        if record.error:
            log.warning("point %d: %s: %s", one.planned.number, record.prompt_id, record.error)
            one.session.check_alive(_patience_s(record.error))

    client = _send_repeats(one, requests, keep)
    used = energy.used()
    if client.busy > BUSY:
        one.warnings.append(
            f"the client took {client.busy:.0%} of a core ({client.processes} processes): its "
            "times may be late; set load.processes higher"
        )
    one.warnings += cache_warnings(point)
    one.warnings += [*load_warnings(one.records, load), *dead_windows(one.records)]
    close_counters(one, before)
    one.counters |= {"energy": used, "client": asdict(client)}


def _patience_s(error: str) -> float:
    """A dead engine answers 500 or not at all, and its process ends up to a second later."""
    return 2.0 if "HTTP" not in error or "HTTP 500" in error else 0.0


def _send_repeats(
    one: Measurement, requests: Iterable[Request], keep: Callable[[RequestRecord], None]
) -> Client:
    """Every repeat as a load of its own with its caches in the declared state before it.

    A load that is bound by time, or sends prompts again, runs through as one. The answer is the
    client in its busiest repeat.
    """
    busiest: Client | None = None
    load, began = one.planned.point.load, time.perf_counter_ns()
    apart = groupby(requests, key=lambda r: r.repeat if load.by_repeat else 0)
    for number, (_, each) in enumerate(apart):
        cold(one)
        if number:
            one.shift_ns = time.perf_counter_ns() - began
        else:
            began = time.perf_counter_ns()
        client = _send(one, each, load, keep)
        busiest = client if busiest is None or client.busy > busiest.busy else busiest
    if busiest is None:
        raise RequestError("the load has no request to send")
    return busiest


def _canary(one: Measurement, like: Prompt) -> None:
    """The exact fields, on a prompt made to be drafted: refused fields and a draft that never
    comes are seen before anything is measured."""
    point = one.planned.point
    sent, before = canary(point, like), read_counters(one)
    (answer,) = _asked(one, [sent])
    if answer.error:
        raise RequestError(f"the canary request failed: {answer.error}")
    one.told = answer.spec is not None
    after = read_counters(one)
    change = after.since(before) if after and before else None
    drafted = answer.spec.drafted if answer.spec else change.drafted if change else None
    one.warnings += draft_warnings(point, drafted, after)
    probes = probe(point, like, lambda requests: _asked(one, requests))
    one.canary = facts(point, sent.body, answer, probes)
    one.warnings += canary_warnings(one.canary, point)


def _asked(one: Measurement, requests: Sequence[Request]) -> list[RequestRecord]:
    alone = replace(rehearsal(one.planned.point.load), concurrency=1)

    def answer(request: Request) -> RequestRecord:
        seen: list[RequestRecord] = []
        _send(one, [request], alone, seen.append)
        return seen[0]

    return one_by_one(one, requests, answer)


def one_by_one(
    one: Measurement, requests: Sequence[Request], answer: Callable[[Request], RequestRecord]
) -> list[RequestRecord]:
    """Answers to requests sent one after another, each on an empty prefix cache.

    With ``cache=as_is`` nothing is emptied: where answers are compared, an answer that nobody
    looks at comes first, so that all others find the same prompt in the cache.
    """
    left_alone = one.planned.point.cache == "as_is"
    if left_alone and len(requests) > 1:
        answer(requests[0])
    seen: list[RequestRecord] = []
    for request in requests:
        if not left_alone:
            one.session.endpoint.reset_prefix_cache()
        seen.append(answer(request))
    return seen


def _warm_up(one: Measurement, prompts: Sequence[Prompt]) -> None:
    """The measured request's shape with other words, not recorded; and with ``cache=warm`` the
    prompts themselves once."""
    point, like = one.planned.point, prompts[0]
    texts = islice(cycle(unused(WARMUP_TEXTS, prompts)), point.load.warmup_requests)
    requests = requests_of(extra_prompts(like, texts, "warmup"), point.sampling)
    _send(one, requests, rehearsal(point.load), lambda _: None)
    if point.cache == "warm":
        _send(one, requests_of(prompts, point.sampling), rehearsal(point.load), lambda _: None)


def _send(
    one: Measurement,
    requests: Iterable[Request],
    load: Load,
    keep: Callable[[RequestRecord], None],
) -> Client:
    endpoint = one.session.endpoint
    return run_load(endpoint.base_url, endpoint.api_key, endpoint.model, requests, load, keep)


def cold(one: Measurement) -> None:
    """With ``cache=cold`` no prefix is reused from an earlier point, repeat or the warm-up."""
    if one.planned.point.cache != "cold":
        return
    problem = make_cold(one.session.endpoint)
    if problem and one.reset:
        one.reset = False
        one.warnings.append(problem)


def _judged(one: Measurement) -> PointResult:
    """Completed, or invalid: too many requests failed, or the draft is not the target's."""
    point = one.planned.point
    one.warnings += point_warnings(point, one.records, one.counters)
    if not one.sent:
        return one.result("invalid", "the load sent no request")
    if one.failed and (one.failed / one.sent > point.max_error_rate or one.failed == one.sent):
        return one.result(
            "invalid",
            f"{one.failed} of {one.sent} requests failed "
            f"(max_error_rate={point.max_error_rate:g}); first: {one.first_error}",
        )
    if reason := misconfigured(point, one.records, one.counters):
        return one.result("invalid", reason)
    return one.result("completed", "")
