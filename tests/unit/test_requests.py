"""Request bodies: the same bytes in every arm, every field said."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Literal, get_args, get_type_hints

import pytest

from sweeper.drive.datasets import read_prompts, shipped
from sweeper.drive.requests import (
    CANARY_TEXT,
    CHAT,
    COMPLETIONS,
    WARMUP_TEXTS,
    asked_for,
    body_of,
    extra_prompts,
    requests_of,
    total_of,
)
from sweeper.drive.rollout import body_of as rollout_body
from sweeper.drive.stream import STREAMING
from sweeper.values import ROLLOUT_PATHS, Json, Load, Message, Prompt, Sampling
from tests.unit.sweeps import record

LoadName = Literal["sequential", "closed", "open", "ramp", "rollout"]

GREEDY = Sampling(
    name="greedy",
    temperature=0.0,
    top_p=1.0,
    top_k=0,
    min_p=0.0,
    presence_penalty=0.0,
    frequency_penalty=0.0,
    repetition_penalty=1.0,
    seed=7,
    max_tokens=5,
)
CHATTED = Prompt(id="c", messages=(Message(role="user", content="hi"),))
PLAIN = Prompt(id="p", text="once upon")


def test_every_sampling_field_is_sent() -> None:
    body = body_of(CHATTED, GREEDY)
    wanted = {field.name for field in fields(Sampling)} - {"name"}
    assert wanted <= set(body)
    assert body["temperature"] == 0.0 and body["n"] == 1 and body["return_token_ids"] is True


@pytest.mark.parametrize("name", get_args(get_type_hints(Load)["name"]))
def test_no_timed_request_asks_for_log_probabilities(name: LoadName) -> None:
    """Some versions of vLLM turn speculation off for them, others return wrong ones. A rollout does
    ask: a trainer needs those of the sampled tokens, and whether they are right is what it finds.
    """
    load = Load(name=name, stream=name != "sequential")
    turns = replace(CHATTED, follow_ups=("and then?",))
    bodies: list[Json] = []
    if load.batches:
        bodies += [rollout_body(api, "m", [[1, 2]], GREEDY) for api in ROLLOUT_PATHS]
        asked = {"logprobs"}
    else:
        for request in asked_for([turns, PLAIN], GREEDY, 2, load, "o"):
            later = request.after(record("c"))
            sent = [one.body for one in (request, later) if one is not None]
            bodies += [body | (STREAMING if load.stream else {}) for body in sent]
        asked = set()
    assert len(bodies) == (2 if load.batches else 6)
    assert [{key for key in body if "logprobs" in key} for body in bodies] == [asked] * len(bodies)


def test_chat_and_plain_prompts_go_to_their_endpoints() -> None:
    chat, plain = requests_of([CHATTED, PLAIN], GREEDY)
    assert (chat.path, chat.body["messages"]) == (CHAT, [{"role": "user", "content": "hi"}])
    assert (plain.path, plain.body["prompt"]) == (COMPLETIONS, "once upon")


def test_order_and_bodies_do_not_depend_on_anything_but_prompts_and_sampling() -> None:
    assert list(requests_of([CHATTED, PLAIN], GREEDY)) == list(
        requests_of([CHATTED, PLAIN], GREEDY)
    )


def test_seeds_are_equal_across_arms_and_differ_between_repeats_and_prompts() -> None:
    seeds = [r.body["seed"] for r in requests_of([CHATTED, PLAIN], GREEDY, repeats=2)]
    assert len(set(seeds)) == 4
    assert seeds == [r.body["seed"] for r in requests_of([CHATTED, PLAIN], GREEDY, repeats=2)]
    other = body_of(CHATTED, replace(GREEDY, seed=8))
    assert other["seed"] != body_of(CHATTED, GREEDY)["seed"]


def test_warm_up_and_canary_are_disjoint_from_shipped_prompts() -> None:
    texts = {
        message.content
        for name in ("code", "chat")
        for prompt in read_prompts(shipped(name))
        for message in prompt.messages or ()
    }
    assert texts.isdisjoint({*WARMUP_TEXTS, CANARY_TEXT})


def test_extra_prompts_have_the_shape_of_the_measured_ones() -> None:
    (chat,) = extra_prompts(CHATTED, ["x"], "canary")
    (plain,) = extra_prompts(PLAIN, ["x"], "canary")
    assert chat.messages == (Message(role="user", content="x"),) and chat.text is None
    assert plain.text == "x" and plain.messages is None


TWO_TURNS = Prompt(
    id="t", messages=(Message(role="user", content="hi"),), follow_ups=("and?", "so?")
)


def test_a_later_turn_is_sent_with_the_models_own_answers() -> None:
    (first,) = requests_of([TWO_TURNS], GREEDY)
    second = first.after(record("t", text="hello"))
    assert second is not None
    assert (second.turn, second.body["messages"]) == (
        1,
        [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "hello"},
            {"role": "user", "content": "and?"},
        ],
    )
    assert second.body["seed"] != first.body["seed"]
    third = second.after(record("t", text="well"))
    assert third is not None and third.after(record("t")) is None
    assert first.body["messages"] == [{"role": "user", "content": "hi"}]


def test_no_turn_follows_a_failed_one() -> None:
    (first,) = requests_of([TWO_TURNS], GREEDY)
    assert first.after(record("t", error="HTTP 500")) is None


def test_tools_and_template_arguments_reach_the_template() -> None:
    tools = '[{"type": "function", "function": {"name": "f"}}]'
    body = body_of(replace(CHATTED, tools=tools, template_kwargs='{"thinking": false}'), GREEDY)
    assert body["tools"] == [{"type": "function", "function": {"name": "f"}}]
    assert body["tool_choice"] == "none" and body["chat_template_kwargs"] == {"thinking": False}


def test_prompts_of_ids_are_sent_as_ids() -> None:
    (request,) = requests_of([Prompt(id="r", token_ids=(5, 6))], GREEDY)
    assert (request.path, request.body["prompt"]) == (COMPLETIONS, [5, 6])


def test_progress_counts_every_turn_of_the_prompts_that_a_load_takes() -> None:
    one = Prompt(id="o", text="x")
    load = Load(name="closed")
    assert total_of([TWO_TURNS, one], 2, load) == 2 * (TWO_TURNS.turns + 1)
    assert total_of([TWO_TURNS, one], 1, replace(load, requests=1)) == TWO_TURNS.turns
    assert total_of([TWO_TURNS, one], 1, replace(load, cycle=True)) == 0
    three = replace(load, cycle=True, requests=3)
    assert total_of([TWO_TURNS, one], 1, three) == 2 * TWO_TURNS.turns + 1
    for order in ("a", "b", "c"):
        few = replace(load, requests=3)
        asked = asked_for([TWO_TURNS, one], GREEDY, 2, few, order)
        assert total_of([TWO_TURNS, one], 2, few, order) == sum(
            1 + len(r.follow_ups) for r in asked
        )
