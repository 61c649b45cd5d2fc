"""A point against its baseline, paired request by request.

A pair is the same prompt, turn and repeat answered by both; requests that failed in either arm
drop out of both, so an arm cannot look faster by refusing the slow ones. Prompts, not requests,
are resampled.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sweeper.judge.bootstrap import (
    RESAMPLES,
    Array,
    Figure,
    resample_sums,
    sum_by_prompt,
    undefined,
)
from sweeper.judge.ratio import ratio, with_products
from sweeper.records import same_ids
from sweeper.values import RequestRecord

Pair = tuple[RequestRecord, RequestRecord]
"""The baseline's request and the candidate's."""

OF_ARM = ("s", "tokens", "decode_s", "emitted", "steps")
"""What is summed of each arm's requests: seconds of request time, completion tokens; seconds from
first to last token, the tokens after the first, and decode steps: these last three are of decoding,
and NaN where a request does not tell."""
COLUMNS = (*(f"base_{name}" for name in OF_ARM), *OF_ARM)
RATE = ("tokens", "s", "base_tokens", "base_s")
TIME = ("base_s", "s")
TPOT = ("base_decode_s", "base_emitted", "decode_s", "emitted")
COST = ("decode_s", "steps", "base_decode_s", "base_steps")
"""The columns of a figure each: output rate, request time, TPOT and the cost of a step."""
_DECODE = slice(OF_ARM.index("decode_s"), None)


@dataclass(frozen=True, slots=True, eq=False)
class Paired:
    """Sums of both arms by prompt: ``table`` has one row a prompt and the :data:`COLUMNS`.

    Of rollouts it has one row a batch, which goes by the name of its first prompt.
    """

    prompts: tuple[str, ...]
    table: Array

    def columns(self, *names: str) -> Array:
        return self.table[:, [COLUMNS.index(name) for name in names]]

    def of(self, prompts: Iterable[str]) -> Paired:
        """The rows of those of ``prompts`` that are there, in the order of ``prompts``."""
        wanted = tuple(prompts)
        if wanted == self.prompts:
            return self
        at = {prompt: n for n, prompt in enumerate(self.prompts)}
        kept = tuple(prompt for prompt in wanted if prompt in at)
        return Paired(kept, self.table[[at[prompt] for prompt in kept]])

    def speedup(self, *, by_tpot: bool, seed: int) -> Figure:
        """That of the table: by TPOT where requests overlap and are streamed."""
        return self.tpot(seed=seed) if by_tpot else self.output_rate(seed=seed)

    def output_rate(self, *, seed: int, resamples: int = RESAMPLES) -> Figure:
        """Candidate's tokens per second over the baseline's: the table's speed-up."""
        return ratio(self.columns(*RATE), (1, -1, -1, 1), seed=seed, resamples=resamples)

    def request_time(self, *, seed: int) -> Figure:
        """The baseline's summed request time over the candidate's; above 1 is faster."""
        return ratio(self.columns(*TIME), (1, -1), seed=seed)

    def tpot(self, *, seed: int) -> Figure:
        """The baseline's time per output token after the first over the candidate's."""
        missing = "decode time was not measured: the answers were not streamed"
        return _known(self.columns(*TPOT), (1, -1, -1, 1), missing, seed)

    def step_cost(self, *, seed: int) -> Figure:
        """Seconds of a candidate's decode step over those of the baseline's."""
        missing = "no decode steps and times per request"
        return _known(self.columns(*COST), (1, -1, -1, 1), missing, seed)

    def tables(self, *figures: tuple[str, ...]) -> list[Array]:
        """What figures of these columns draw, where all prompts tell everything."""
        each = [self.columns(*names) for names in figures]
        return [with_products(table) for table in each if np.isfinite(table).all()]


def _known(table: Array, powers: tuple[int, ...], missing: str, seed: int) -> Figure:
    """Of the prompts whose requests tell everything; at least one must."""
    known = table[np.isfinite(table).all(axis=1)]
    return ratio(known, powers, seed=seed) if len(known) else undefined(missing)


def pair(baseline: Sequence[RequestRecord], candidate: Sequence[RequestRecord]) -> tuple[Pair, ...]:
    """Requests that succeeded in both arms, in the candidate's order."""
    base = {(r.prompt_id, r.turn, r.repeat): r for r in baseline if not r.error}
    found = ((base.get((r.prompt_id, r.turn, r.repeat)), r) for r in candidate if not r.error)
    return tuple((b, r) for b, r in found if b is not None)


def paired(pairs: Sequence[Pair]) -> Paired:
    """The sums of both arms by prompt.

    Where either answer has one token, the pair has no decode time, tokens after the first or
    decode steps in either arm; a prompt with no other pair has NaN there.
    """
    base, mine = _columns([b for b, _ in pairs]), _columns([c for _, c in pairs])
    timed = np.array([_goes_on(b) and _goes_on(c) for b, c in pairs], dtype=np.bool_)
    for arm in (base, mine):
        arm[~timed, _DECODE] = 0.0
    prompts, table = sum_by_prompt([c.prompt_id for _, c in pairs], np.hstack([base, mine]))
    short = table[:, COLUMNS.index("emitted")] == 0
    if not short.all():
        for arm in np.hsplit(table, 2):
            arm[short, _DECODE] = np.nan
    return Paired(prompts, table)


def paired_batches(pairs: Sequence[Pair]) -> Paired:
    """As :func:`paired`, of rollouts: the sequences of a batch share one clock, which counts once,
    and cannot be resampled one without the other. A batch's repeats stay together."""
    found: dict[int, list[Pair]] = {}
    for one in pairs:
        found.setdefault(one[1].sent_ns, []).append(one)
    batches = tuple(found.values())
    rows = [_batch(b for b, _ in batch) + _batch(c for _, c in batch) for batch in batches]
    table = np.array(rows, dtype=np.float64).reshape(len(rows), len(COLUMNS))
    return Paired(*sum_by_prompt([batch[0][1].prompt_id for batch in batches], table))


def _batch(records: Iterable[RequestRecord]) -> tuple[float, ...]:
    sequences = tuple(records)
    tokens = sum(record.completion_tokens or 0 for record in sequences)
    return (sequences[0].request_time_s, tokens, np.nan, np.nan, np.nan)


def identical_share(pairs: Sequence[Pair], *, greedy: bool, seed: int) -> Figure:
    """Share of the pairs with the same output: token ids, or text where an arm has no ids.

    Only for greedy sampling. A drafting server draws other random numbers than a plain one, so
    at a temperature even equal distributions give different strings.
    """
    if not greedy:
        return undefined("sampled output: strings differ even when distributions agree")
    return share_of(pairs, [same_output(b, c) for b, c in pairs], seed=seed)


def share_of(pairs: Sequence[Pair], those: Sequence[bool], *, seed: int) -> Figure:
    """The share of ``those`` pairs among all, with its interval over prompts."""
    if not pairs:
        return undefined("no prompt in common with the baseline")
    rows = np.column_stack([np.ones(len(pairs)), np.array(those, dtype=np.float64)])
    _, sums = sum_by_prompt([c.prompt_id for _, c in pairs], rows)
    boot = resample_sums(sums, names=("n", "same"), seed=seed)
    return boot.figure(lambda s: s["same"] / s["n"])


def rendered_differently(pairs: Sequence[Pair]) -> int:
    """How many prompts of the pairs reached the two servers as different text.

    Of several turns that is the first: later ones hold the model's own answers.
    """
    digests = ((b.prompt_id, b.prompt_digest, c.prompt_digest) for b, c in pairs if not c.turn)
    return len({prompt for prompt, x, y in digests if x and y and x != y})


def same_history(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """The pairs whose prompts are equal: a later turn holds earlier answers, which may differ.

    Where a server does not say what it rendered, the earlier answers themselves are compared.
    """
    if not any(c.turn for _, c in pairs):
        return tuple(pairs)
    differ = {_at(c, c.turn) for b, c in pairs if not same_output(b, c)}
    return tuple((b, c) for b, c in pairs if not c.turn or _same_prompt(b, c, differ))


def _same_prompt(
    base: RequestRecord, one: RequestRecord, differ: set[tuple[str, int, int]]
) -> bool:
    if base.prompt_digest and one.prompt_digest:
        return base.prompt_digest == one.prompt_digest
    return not any(_at(one, turn) in differ for turn in range(one.turn))


def _at(record: RequestRecord, turn: int) -> tuple[str, int, int]:
    return record.prompt_id, record.repeat, turn


def decode_seconds(record: RequestRecord) -> float | None:
    """From the first token to the last: as the client saw it, else as the server says. Several
    answers that share a stream have none."""
    if record.chunk_ns and record.answers > 1:
        return None
    if record.chunk_ns:
        return sum(record.chunk_ns[1:]) / 1e9
    return None if record.decode_ms is None else record.decode_ms / 1e3


def _goes_on(record: RequestRecord) -> bool:
    """Whether there is a token after the first of each answer."""
    return (record.completion_tokens or 0) > record.answers


def same_output(one: RequestRecord, other: RequestRecord) -> bool:
    """Token for token where both servers gave ids, else by text."""
    same = same_ids(one, other)
    return one.text == other.text if same is None else same


def _columns(records: Sequence[RequestRecord]) -> Array:
    """The columns :data:`OF_ARM`, one row a request; numpy makes a ``None`` NaN."""
    tokens = np.array([r.completion_tokens or 0 for r in records], dtype=np.float64)
    seconds = np.array([decode_seconds(r) for r in records], dtype=np.float64)
    answers = np.array([r.answers for r in records], dtype=np.float64)  # a prefill token each
    return np.column_stack(
        [
            np.array([r.done_ns - r.sent_ns for r in records], dtype=np.float64) / 1e9,
            tokens,
            seconds,
            np.where(np.isnan(seconds), np.nan, np.maximum(tokens - answers, 0)),
            np.array([r.decode_steps for r in records], dtype=np.float64),
        ]
    )
