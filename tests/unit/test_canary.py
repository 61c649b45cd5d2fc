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


def obeying(*ignored: str) -> Ask:
    """A server whose answer depends on the seed unless a cut-off forbids it, and on penalties."""

    def drawn(body: dict[str, Any]) -> tuple[int, ...]:
        cut = (body["top_p"] < 1e-3 and "top_p" not in ignored) or (
            body["top_k"] == 1 and body["top_p"] < 1 and "top_k" not in ignored
        )
        names = ("presence_penalty", "frequency_penalty", "repetition_penalty")
        strong = [hash(n) for n in names if body[n] > 1.5 and n not in ignored]
        cold = cut or body["temperature"] == 0.0
        return (0 if cold else body["seed"], *strong)

    return lambda requests: [record("p", token_ids=drawn(r.body)) for r in requests]


NARROW = replace(SAMPLED, top_p=0.9, top_k=40, presence_penalty=0.5, repetition_penalty=1.1)


def test_every_cut_off_and_penalty_that_is_set_is_probed() -> None:
    found = probe(point("ngram", 4, sampling=NARROW), LIKE, obeying())
    assert {k: v for k, v in found.items() if "seed" not in k} == {
        "top_p": "kept",
        "top_k": "kept",
        "presence_penalty": "in force",
        "repetition_penalty": "in force",
    }


def test_a_cut_off_or_a_penalty_that_is_ignored_is_seen() -> None:
    arm = point("ngram", 4, sampling=NARROW)
    found = probe(arm, LIKE, obeying("top_p", "repetition_penalty"))
    assert (found["top_p"], found["top_k"]) == ("ignored", "kept")
    assert warnings(found, arm) == [
        "the canary shows that top_p is ignored",
        "the canary shows no effect of repetition_penalty, however strong",
    ]
    greedy = point("ngram", 4, sampling=replace(GREEDY, top_p=0.9, frequency_penalty=1.0))
    found = probe(greedy, LIKE, obeying("frequency_penalty"))
    assert found["frequency_penalty"] == "without effect"
    assert "top_p" not in found  # nothing is cut where the likeliest token is taken


def test_a_limit_that_is_ignored_is_seen() -> None:
    arm = point("ngram", 4, sampling=replace(GREEDY, max_tokens=4, ignore_eos=True))
    sent = canary(arm, LIKE)
    found = facts(arm, sent.body, record("c", tokens=9, finish_reason="stop"), {})
    assert (found["max_tokens"], found["ignore_eos"]) == ("ignored", "ignored")
    assert warnings(found, arm) == [
        "the canary shows that max_tokens is ignored",
        "the canary shows that ignore_eos is ignored",
    ]
    kept = facts(arm, sent.body, record("c", tokens=4, finish_reason="length"), {})
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
