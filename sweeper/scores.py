"""What the output checks of a point ask of its server, and what came back; standard library only.

Both happen after the timed part of all points of a server, with the same server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Near = tuple[tuple[int, float], ...]
"""Token ids with their log-probabilities in nats, the most likely first.

At most :data:`LIKELY` of them, and none :data:`WITHIN_NATS` behind the first.
"""

LIKELY = 20
"""What vLLM gives at a token without ``--max-logprobs``."""
WITHIN_NATS = 5.0
"""No rounding comes close to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """How much is asked to find out whether the output is still right.

    Greedy: of the first ``prompts`` prompts of a baseline every answer is scored, asked again alone
    and asked again with ``concurrency`` requests under way. 0 prompts: none of it.

    Sampled: ``samples`` continuations of at most ``tokens`` tokens of each of ``texts`` fixed
    texts, from the baseline and from every point compared with it. 0 samples: none.
    """

    name: str = "none"
    prompts: int = 0
    concurrency: int = 8
    samples: int = 0
    tokens: int = 8
    texts: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """One greedy answer of the baseline and what the same server says of it.

    ``token_ids`` is the timed answer, ``near[i]`` the likely tokens at its token ``i``, read from
    one pass over prompt and answer together. ``again`` is the answer to the same request sent
    alone, ``again_near`` the likely tokens while it was decoded one by one; ``batched`` the answer
    among others.
    """

    prompt_id: str
    token_ids: tuple[int, ...]
    near: tuple[Near, ...]
    again: tuple[int, ...]
    again_near: tuple[Near, ...]
    batched: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """``scores.json`` of a greedy baseline. ``problem``: why there are no answers in it."""

    concurrency: int
    answers: tuple[Scored, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grader:
    """How answers are graded; one choice of ``conf/quality``.

    ``by_dataset`` runs unit tests where prompts have tests, else holds answers against the schemas
    of prompts that have one, compares numbers for GSM8K and grades nothing else. ``answer`` is what
    ``exact_match`` compares. ``valid`` is what ``validity`` demands of answers to prompts without a
    schema of their own: ``json_schema`` needs the file ``schema``, ``regex`` the ``pattern``,
    ``tool_call`` the names in ``tools`` (none: any).
    ``pairs`` is how many answers ``blind`` and ``judge_model`` compare, the first so many prompts;
    the model at ``base_url`` judges, its key is in the variable ``api_key_env``.
    """

    name: Literal[
        "none", "by_dataset", "unit_tests", "exact_match", "validity", "blind", "judge_model"
    ] = "none"
    seconds: float = 10.0
    memory_mb: int = 512
    answer: Literal["number", "text"] = "number"
    valid: Literal["json", "json_schema", "regex", "tool_call"] = "json"
    schema: str | None = None
    pattern: str | None = None
    tools: tuple[str, ...] = ()
    pairs: int = 50
    base_url: str | None = None
    model: str | None = None
    api_key_env: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """One answer: whether it solves its task, and what was wrong with it if not."""

    prompt_id: str
    turn: int
    repeat: int
    passed: bool
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """One answer beside the baseline's: 1 it is better, 0 the baseline's is, 0.5 neither."""

    prompt_id: str
    better: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """``quality.json`` of a point. ``key`` is that of grader and answers: others are graded anew.

    ``problem``: why there is nothing in it.
    """

    grader: str
    key: str
    grades: tuple[Grade, ...] = ()
    preferences: tuple[Preference, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """``samples.json``: continuations of fixed texts as a server samples them.

    ``draws[i]`` are the token ids of every continuation of ``texts[i]``. ``drafted`` is the number
    of draft tokens the server counted meanwhile, ``None`` where it counts none. ``problem``: why
    there is nothing in it.
    """

    texts: tuple[str, ...]
    draws: tuple[tuple[tuple[int, ...], ...], ...] = ()
    drafted: int | None = None
    problem: str = ""
