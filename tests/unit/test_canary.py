"""Fields that a server refuses or ignores are seen before anything is measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from sweeper.drive.requests import Request
from sweeper.judge.comparable import incomparable
from sweeper.measure.canary import Ask, canary, facts, probe, warnings
from sweeper.values import Message, Prompt, RequestRecord
from tests.unit.sweeps import GREEDY, PROVENANCE, Made, folder, point, record

LIKE = Prompt(id="p", messages=(Message(role="user", content="hi"),), template_kwargs='{"a": 1}')
SAMPLED = replace(GREEDY, name="t07", temperature=0.7)


def answering(*, seeded: bool = True, varied: bool = True) -> Ask:
    """A server that draws by the seed, by nothing it can repeat, or not at all."""

    def ask(requests: Iterable[Request]) -> list[RequestRecord]:
        drawn = [(r.body["seed"] if seeded else n) for n, r in enumerate(requests)]
        return [record("p", token_ids=(d if varied else 0,)) for d in drawn]

    return ask


def test_the_canary_has_every_field_of_the_measured_requests() -> None:
    sent = canary(point("ngram", 4, sampling=SAMPLED), LIKE)
    assert sent.body["temperature"] == 0.7 and sent.body["chat_template_kwargs"] == {"a": 1}


def test_what_a_good_server_shows() -> None:
    arm = point("ngram", 4, sampling=SAMPLED)
    assert probe(arm, LIKE, answering()) == {
        "seed": "repeats",
        "other_seeds": "change the answer",
    }
    greedy = probe(point("none", 0), LIKE, answering(varied=False))
    assert greedy == {"seed": None, "other_seeds": "give the same answer"}


def test_a_seed_or_a_temperature_that_is_ignored_is_seen() -> None:
    arm = point("ngram", 4, sampling=SAMPLED)
    unseeded = probe(arm, LIKE, answering(seeded=False))
    assert unseeded["seed"] == "never repeats"
    assert warnings(unseeded, arm) == [
        "the same seed gave two different answers: sampling cannot be repeated here"
    ]
    cold = probe(arm, LIKE, answering(varied=False))
    assert cold["other_seeds"] == "give the same answer"
    hot = probe(point("none", 0), LIKE, answering())
    assert warnings(hot, point("none", 0)) == [
        "greedy answers change with the seed: is temperature=0 ignored?"
    ]


def test_a_limit_that_is_ignored_is_seen() -> None:
    arm = point("ngram", 4, sampling=replace(GREEDY, max_tokens=4, ignore_eos=True))
    sent = canary(arm, LIKE)
    found = facts(arm, sent, record("c", tokens=9, finish_reason="stop"), {})
    assert (found["max_tokens"], found["ignore_eos"]) == ("ignored", "ignored")
    assert warnings(found, arm) == [
        "the canary shows that max_tokens is ignored",
        "the canary shows that ignore_eos is ignored",
    ]
    kept = facts(arm, sent, record("c", tokens=4, finish_reason="length"), {})
    assert (kept["max_tokens"], kept["ignore_eos"]) == ("kept", "kept")


def test_arms_whose_canaries_differ_are_not_compared(tmp_path: Any) -> None:
    from sweeper.judge.compare import compare

    def made(method: str, gamma: int, seed: str) -> Made:
        seen = PROVENANCE | {"canary": {"seed": seed, "prompt_digest": "d"}}
        return Made(
            point=point(method, gamma, sampling=SAMPLED),
            records=(record("a"), record("b")),
            provenance=seen,
        )

    base, arm = compare(
        folder(tmp_path, made("none", 0, "repeats"), made("ngram", 4, "never repeats"))
    )
    assert base.result is not None and arm.result is not None
    assert arm.speedup.value is None
    assert arm.speedup.reason == incomparable(base.result, arm.result)
    assert "canary.seed is never repeats here and repeats for the baseline" in arm.speedup.reason
