"""Is the output still right, asked of a whole sweep."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.judge.compare import compare
from tests.e2e.running import command, only_sweep, run

SMALL = ("method=ngram", "dataset=chat", "dataset.limit=4", "preflight=false")


def test_the_baseline_is_scored_and_equal_answers_are_right(tmp_path: Path) -> None:
    done = run(command(*SMALL, outputs=tmp_path))
    assert done.status == 0, done.out + done.err
    assert "output of none chat greedy: 4 answers scored" in done.out
    base, drafting = compare(only_sweep(tmp_path))
    scores = only_sweep(tmp_path).point(base.planned).read_scores()
    assert scores is not None
    assert [len(one.near) for one in scores.answers] == [
        len(one.token_ids) for one in scores.answers
    ]
    assert all(one.again == one.batched == one.token_ids for one in scores.answers)
    assert drafting.output.state == "right"
    assert drafting.output.noise.value == 0.0


def test_answers_changed_by_speculation_are_wrong(tmp_path: Path) -> None:
    done = run(command(*SMALL, outputs=tmp_path), faults={"wrong_text_share": 1.0})
    assert done.status == 0, done.out + done.err
    output = compare(only_sweep(tmp_path))[1].output
    assert output.state == "wrong"
    assert output.sentence == (
        "4 of 4 greedy answers differ from the baseline's, 4 of them with a token up to more than "
        "5 nats less likely than the baseline's; the baseline's own noise reaches 0 nats"
    )
    assert [one.text.split()[0] for one in output.worst] == ["wrong"] * 3


def test_nothing_more_is_asked_with_check_none(tmp_path: Path) -> None:
    done = run(command(*SMALL, "check=none", outputs=tmp_path), faults={"wrong_text_share": 1.0})
    assert done.status == 0, done.out + done.err
    output = compare(only_sweep(tmp_path))[1].output
    assert output.state == "not measured"


IN_FORCE: dict[str, object] = {
    "start_log": ["sweeper: work-around vllm-55005 in force"],
    "seeded_parts_kill": 2048,  # as a real CPU engine, whatever is asked of it at once
}
SAMPLED = (*SMALL, "sampling=t07_p09", "server.workarounds=[vllm-55005]")


def test_a_sampled_sweep_compares_distributions(tmp_path: Path) -> None:
    done = run(command(*SAMPLED, outputs=tmp_path), faults=IN_FORCE)
    assert done.status == 0, done.out + done.err
    assert "output of none chat t07_p09: 64 continuations of 4 texts sampled" in done.out
    output = compare(only_sweep(tmp_path))[1].output
    assert output.state == "right", output.sentence


def test_a_server_that_samples_wrong_is_wrong(tmp_path: Path) -> None:
    faults = IN_FORCE | {"wrong_text_share": 0.5}
    done = run(command(*SAMPLED, outputs=tmp_path), faults=faults)
    assert done.status == 0, done.out + done.err
    output = compare(only_sweep(tmp_path))[1].output
    assert output.state == "wrong"
    assert output.sentence.startswith("samples from another distribution than the baseline (p=")


def test_code_is_run_and_its_tests_are_the_quality(tmp_path: Path) -> None:
    right = "```python\ndef shipping_cost(weight_kg):\n    return 4.5 if weight_kg <= 2 else 8.0 "
    right += "if weight_kg <= 10 else 15.0\n```"
    done = run(
        command("method=ngram", "dataset=code", "dataset.limit=2", outputs=tmp_path),
        faults={"answers": {"shipping_cost": right}},
    )
    assert done.status == 0, done.out + done.err
    base, drafting = compare(only_sweep(tmp_path))
    if base.output.quality.reason.startswith("no sandbox: "):
        pytest.skip(base.output.quality.reason)
    assert "quality of none code: 1 of 2 answers pass" in done.out
    assert base.output.quality.value == drafting.output.quality.value == 0.5
    assert (drafting.output.quality_change.value, drafting.output.quality_p) == (0.0, 1.0)
