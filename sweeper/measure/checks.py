"""Does what the requests say agree with what the server counted, and with vLLM's arithmetic?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from sweeper.measure.counters import Counters
from sweeper.values import Json, Point, RequestRecord, SpecCounts

MISCONFIGURED_BELOW = 1.05
"""Tokens per step with trained draft weights below which the weights are hardly the right ones."""
NOTHING = SpecCounts(verify_steps=0, drafted=0, accepted=0)
ENOUGH_STEPS = 50
"""Verify steps from which that can be said: fewer accept too little by chance."""


def cross_check(records: Iterable[RequestRecord], change: Counters | None) -> dict[str, Json]:
    """Sums over requests beside the counters' differences; ``agree`` is ``None`` without counters.

    Counters also hold the steps of requests that failed, so a failed request makes a difference
    explicable but not agreement.
    """
    if change is None:
        return {"agree": None, "reason": "no server counters"}
    sums = Counter(completion_tokens=0, prompt_tokens=0)
    reported = Counter(verify_steps=0, drafted=0, accepted=0)
    good = told = 0
    for record in (record for record in records if not record.error):
        good += 1
        sums["completion_tokens"] += record.completion_tokens or 0
        # The server reads a prompt once for every answer.
        sums["prompt_tokens"] += (record.prompt_tokens or 0) * record.answers
        # Counts taken from the counters would only agree with themselves.
        if record.spec is not None and not record.spec.counted:
            told += 1
            for name in reported:
                reported[name] += getattr(record.spec, name)
    if good and told == good:
        sums |= reported
    pairs = {name: [total, getattr(change, name)] for name, total in sums.items()}
    differing = {k: v for k, v in pairs.items() if v[1] is not None and v[0] != v[1]}
    return {"agree": not differing, "requests_and_server": pairs, "differing": sorted(differing)}


def adds_up(record: RequestRecord, spec: SpecCounts, gamma: int) -> bool | None:
    """Whether ``completion_tokens = n + S + A + Z - T`` with ``0 <= T <= nγ`` and ``Z >= 0``.

    n is the number of answers, Z decode steps had no draft, T tokens were accepted past the end of
    an answer and never emitted (checked on vLLM 0.32). ``None`` where a count is missing.
    """
    if record.decode_steps is None or record.completion_tokens is None:
        return None
    cut = record.answers + spec.accepted + record.decode_steps - record.completion_tokens
    return record.decode_steps >= spec.verify_steps and 0 <= cut <= gamma * record.answers


def identity_violation(record: RequestRecord, gamma: int) -> str | None:
    """What is off where :func:`adds_up` says no; else ``None``."""
    spec = record.spec or NOTHING
    if record.error or adds_up(record, spec, gamma) is not False:
        return None
    steps, without_draft = spec.verify_steps, (record.decode_steps or 0) - spec.verify_steps
    return (
        f"{record.prompt_id}: {record.completion_tokens} tokens, but {record.answers} + S {steps} "
        f"+ A {spec.accepted} + Z {without_draft} = "
        f"{record.answers + spec.accepted + steps + without_draft}"
    )


def point_warnings(
    point: Point, records: Iterable[RequestRecord], counters: dict[str, Json]
) -> list[str]:
    """What a reader must know before believing this point."""
    warnings = []
    good = off = silent = counted = 0
    first_off = ""
    for record in (record for record in records if not record.error):
        good += 1
        violation = identity_violation(record, point.gamma)
        first_off = first_off or violation or ""
        off += violation is not None
        silent += record.spec is None
        counted += record.spec is not None and record.spec.counted
    if off:
        warnings.append(
            f"token accounting does not close for {off} of {good} requests, first: {first_off}"
        )
    check = counters.get("cross_check", {})
    if check.get("agree") is False:
        named = ", ".join(check["differing"])
        warnings.append(f"requests and server counters disagree on {named}")
    together = point.load.batches  # n samples of several prompts report nothing each
    if not (point.is_baseline or together) and silent:
        which = "every request" if silent == good else f"{silent} of {good} requests"
        warnings.append(f"per-request speculation counts are missing for {which}")
    if counted:
        warnings.append(
            f"acceptance is from differences of the server's counters for {counted} of "
            f"{good} requests: the server reported none with them"
        )
    if point.sampling.ignore_eos:
        warnings.append("ignore_eos: text after its natural end drafts unlike real answers")
    return warnings


def misconfigured(point: Point, records: Iterable[RequestRecord], counters: Json = None) -> str:
    """Why a trained draft's point is no result: it hardly accepts anything. Empty when it does.
    By the requests' own counts, else by the change of the server's ``counters``.

    A head of another target, the wrong layers or a tokenizer that differs still run, and what they
    measure is the cost of a mistake, not of the method.
    """
    steps = accepted = 0
    for spec in (r.spec for r in records if r.spec and not r.error):
        steps, accepted = steps + spec.verify_steps, accepted + spec.accepted
    if not steps:
        change = counters.get("change") if isinstance(counters, dict) else None
        told = change if isinstance(change, dict) else {}
        steps, accepted = (int(told.get(name) or 0) for name in ("verify_steps", "accepted"))
    if not point.trained_draft or steps < ENOUGH_STEPS:
        return ""
    length = 1 + accepted / steps
    if length >= MISCONFIGURED_BELOW:
        return ""
    return (
        f"misconfigured? a trained draft accepted {accepted} tokens in {steps} steps (1+A/S "
        f"{length:.2f}, below {MISCONFIGURED_BELOW}); check that it was trained for this target"
    )
