"""Real vLLM: equal points agree, several answers are counted, turns are sent."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from sweeper.judge.compare import compare
from sweeper.judge.totals import OF_COUNTERS
from tests.e2e.running import only_sweep, records, run

pytestmark = [pytest.mark.vllm, pytest.mark.long, pytest.mark.timeout(1200)]

COMMON = ("tracker=none", "check=none", "quality=none", "load.warmup_requests=1")


def sweep(outputs: Path, *overrides: str) -> None:
    argv = [sys.executable, "-m", "sweeper", "-m", f"output_dir={outputs}/out"]
    done = run([*argv, *COMMON, *overrides], timeout=1000)
    assert done.status == 0, done.out + done.err


def test_two_equal_points_back_to_back_on_one_server_agree(tmp_path: Path) -> None:
    """They differ in a time limit that nothing reaches. The second finds no prefix of the first,
    and its output rate is within the spread that repeats of one point have among themselves."""
    sweep(
        tmp_path,
        *("method=none", "dataset=chat", "dataset.limit=6", "sampling.max_tokens=32"),
        *("repeats=3", "load.request_timeout_s=600.0,599.0"),
    )
    one, two = compare(only_sweep(tmp_path))
    assert one.cached_share.value == two.cached_share.value == 0
    rates = [*one.repeats.output_tokens_per_s, *two.repeats.output_tokens_per_s]
    noise = max(rates) / min(rates) - 1
    first, second = one.output_tokens_per_s.value, two.output_tokens_per_s.value
    assert first and second
    assert abs(second / first - 1) <= max(noise, 0.1)
    folder = only_sweep(tmp_path)
    texts = [
        {(r.prompt_id, r.repeat): r.token_ids for r in folder.point(c.planned).records()}
        for c in (one, two)
    ]
    assert texts[0] == texts[1]


def test_several_answers_and_several_turns(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    lines = [
        {"question_id": n, "category": "x", "turns": [f"{n}. Say: one two one two", "Again."]}
        for n in (1, 2)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    sweep(
        tmp_path,
        *("method=ngram", "gamma=4", "dataset=spec_bench", f"dataset.path={path}"),
        *("sampling=t07_p09", "sampling.n=2", "sampling.max_tokens=24"),
        *("load=closed", "load.concurrency=2", "server.workarounds=[vllm-55005]"),
    )
    folder = only_sweep(tmp_path)
    assert {(r.answers, r.error) for r in records(folder)} == {(2, "")}
    assert {r.turn for r in records(folder)} == {0, 1}
    _, arm = compare(folder)
    assert arm.acceptance.acceptance_rate.reason == OF_COUNTERS
    assert arm.acceptance.drafted and arm.acceptance.tokens_per_decode_step.value
