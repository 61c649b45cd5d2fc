"""Rollout batches: the body a trainer would send, what comes back, and who was waited for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sweeper.drive.rollout import Answer, Sample, body_of
from sweeper.judge.rollout import rollout, rollout_acceptance
from sweeper.measure.batches import tail_s
from sweeper.values import RolloutBatch, Sampling

SAMPLING = Sampling(
    name="rollout", temperature=1.0, top_p=0.95, top_k=0, min_p=0.0, presence_penalty=0.0,
    frequency_penalty=0.0, repetition_penalty=1.0, seed=3, max_tokens=48, n=8,
)  # fmt: skip
SAMPLE = Sample(token_ids=(1, 2), logprobs=(-0.1, -0.2), finish_reason="stop", text="ab")
ANSWER = Answer(sent_ns=0, done_ns=10_000_000_000, sequences=(SAMPLE,) * 20, under_way=(), error="")


def test_the_body_for_vllm_is_that_of_trls_client() -> None:
    body = body_of("completions", "m", [(1, 2), (3,)], SAMPLING)
    assert body["prompt"] == [[1, 2], [3]]
    trls = {
        "n": 8, "repetition_penalty": 1.0, "temperature": 1.0, "top_p": 0.95, "top_k": 0,
        "min_p": 0.0, "max_tokens": 48, "logprobs": 0, "return_token_ids": True,
        "return_tokens_as_token_ids": True, "model": "m",
    }  # fmt: skip
    assert trls.items() <= body.items()
    assert body["seed"] == 3


def test_the_body_for_trls_old_server_has_its_names() -> None:
    body = body_of("generate", "m", [(1, 2)], SAMPLING)
    assert body["prompts"] == [[1, 2]] and body["top_k"] == -1 and body["n"] == 8
    assert body["generation_kwargs"]["seed"] == 3
    assert "model" not in body and "seed" not in body


@pytest.mark.parametrize(
    ("under_way", "tail"),
    [
        (((1.0, 20), (4.0, 3), (6.0, 2), (9.0, 1)), 4.0),
        (((1.0, 0), (2.0, 20), (9.5, 20)), 0.0),
        (((0.5, 0), (9.5, 2)), None),
        ((), None),
    ],
)  # fmt: skip
def test_the_tail_is_when_only_the_last_tenth_was_under_way(
    under_way: tuple[tuple[float, int], ...], tail: float | None
) -> None:
    assert tail_s(replace(ANSWER, under_way=under_way)) == tail


def batch(number: int, **counts: int | float | None) -> RolloutBatch:
    fields = {"seconds": 10.0, "tokens": 200, "sequences": 20, "drafts": 60, "drafted": 240,
              "accepted": 80, "decode_steps": 100, "tail_s": 2.0, **counts}  # fmt: skip
    return RolloutBatch(policy_version="0", batch=number, **fields)  # type: ignore[arg-type]


def test_figures_are_sums_over_batches_divided_once() -> None:
    found = rollout([batch(0), batch(1, seconds=30.0, tail_s=None)], None, 2, seed=0)
    assert found.batch_time_s.value == 20.0
    assert found.output_tokens_per_s.value == 10.0
    assert found.tokens_per_step.value == 1.8
    assert found.straggler_share.value == 0.2  # of the batch whose end was seen
    drafts = rollout_acceptance([batch(0), batch(1)], 2, baseline=False, seed=0)
    assert (drafts.drafted, drafts.accepted) == (480, 160)
    assert drafts.draft_coverage.value == 0.6
    assert drafts.mean_acceptance_length.value == pytest.approx(1 + 80 / 60)


def test_repeats_of_a_batch_are_drawn_together() -> None:
    """Two batches are no more than two, however often they were sent."""
    once = [batch(0), batch(1, seconds=30.0, accepted=20)]
    again = [batch(3, seconds=30.0, accepted=20), batch(2)]
    found = [rollout(sent, None, 2, seed=0) for sent in (once, once + again)]
    assert found[0].batch_time_s == found[1].batch_time_s
    assert (found[0].batches, found[1].batches) == (2, 4)
    rates = [
        rollout_acceptance(sent, 2, baseline=False, seed=0).acceptance_rate
        for sent in (once, once + again)
    ]
    assert rates[0] == rates[1]


def test_what_was_not_counted_is_undefined_with_a_reason() -> None:
    none = batch(0, drafted=None, accepted=None, drafts=None, decode_steps=None, tail_s=None)
    found = rollout([none], None, 1, seed=0)
    assert found.tokens_per_step.value is None
    assert found.tokens_per_step.reason == "the server counts no decode steps"
    assert found.straggler_share.value is None
    assert found.logprob_difference.reason == "nothing was scored again"
    assert found.logprobs_agree is None
    drafts = rollout_acceptance([none], 1, baseline=False, seed=0)
    assert drafts.acceptance_rate.value is None
    assert drafts.acceptance_rate.reason == "no per-request metrics"
