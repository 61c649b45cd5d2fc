"""Rollout batches end to end against the stand-in: what is sent, counted, re-scored and shown."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pandas as pd
import pytest

from sweeper import store
from sweeper.judge.compare import Comparison, compare
from sweeper.judge.repeats import Repeats
from tests.e2e.running import (
    ENGINE,
    command,
    environment,
    only_sweep,
    run,
    served,
)

ROLLOUT = ("load=rollout", "dataset=rollout", "dataset.limit=4", "sampling.max_tokens=40")
MENDED = "server.workarounds=[vllm-55005]"
IN_FORCE = ["sweeper: work-around vllm-55005 in force (pid 1)"]


def swept(tmp_path: Path, *overrides: str, **faults: object) -> tuple[str, list[Comparison]]:
    done = run(command(*ROLLOUT, *overrides, outputs=tmp_path), faults=faults)
    assert done.status == 0, done.out + done.err
    return done.out, list(compare(only_sweep(tmp_path)))


def test_batches_are_timed_counted_and_scored_again(tmp_path: Path) -> None:
    wanted = ("server=rollout", "method=ngram", "load.poll_s=0.01", MENDED)
    # The second look is sent when the first was noted; one more may be for series.jsonl.
    out, (base, drafted) = swept(tmp_path, *wanted, start_log=IN_FORCE, batches_seen=3)
    folder = only_sweep(tmp_path)
    planned = store.read_sweep(folder).plan.points[1]
    batches = folder.point(planned).batches()
    assert sorted((b.batch, b.prompts, b.sequences) for b in batches) == [(0, 2, 8), (1, 2, 8)]
    result = folder.point(planned).read_result()
    assert result is not None
    over_time = result.counters["over_time"]
    assert sum(w["drafted"] for w in over_time) == result.counters["change"]["drafted"]
    records = folder.point(planned).records()
    assert len(records) == 16 and {r.repeat for r in records} == {0, 1, 2, 3}
    assert sum(b.tokens or 0 for b in batches) == sum(r.completion_tokens or 0 for r in records)
    found = drafted.rollout
    assert found is not None and found.batches == 2 and found.logprobs_agree is True
    assert found.straggler_share.value is not None and 0 <= found.straggler_share.value < 1
    assert drafted.acceptance.acceptance_rate.value is not None
    assert drafted.speedup.value is not None
    assert drafted.output.state == "right"  # continuations were sampled from both arms
    assert "2 batches decide nothing; measure 5 or more" in out
    assert drafted.repeats == Repeats() and "repeats:" not in out
    assert base.acceptance.tokens_per_decode_step.value == 1.0
    steps = drafted.acceptance.tokens_per_decode_step.value
    assert steps is not None and steps > 1.0
    assert "rollouts · chat · rollout (T=1, up to 40 tokens) · rollout ×2 · own" in out
    assert out.count("agree 0.000 0.000") == 2
    page = (folder.report / "report.md").read_text()
    assert "## rollouts · chat · rollout (T=1" in page and page.count("agree 0.000 0.000") == 2
    table = pd.read_csv(folder.points_csv)
    assert table["batch_time_s"].notna().all() and table["logprob_difference"].eq(0).all()
    for row, one in zip(table.to_dict("records"), (base, drafted), strict=True):
        files = folder.point(one.planned)
        seconds = sum(b.seconds or 0.0 for b in files.batches())
        tokens = sum(r.completion_tokens or 0 for r in files.records())
        prompts = sum(r.prompt_tokens or 0 for r in files.records())
        assert row["output_tokens_per_s"] == pytest.approx(tokens / seconds)
        assert row["total_tokens_per_s"] == pytest.approx((tokens + prompts) / seconds)
        assert row["requests_per_s"] == pytest.approx(16 / seconds)
        assert row["e2e_ms_mean_low"] == pytest.approx(1e3 * row["request_time_s_low"])


def cached_tokens(tmp_path: Path, *overrides: str) -> int:
    """Prompt tokens of the measured part that the server had in its prefix cache."""
    tmp_path.mkdir()
    swept(tmp_path, "method=none", *overrides)
    folder = only_sweep(tmp_path)
    (planned,) = store.read_sweep(folder).plan.points
    result = folder.point(planned).read_result()
    assert result is not None
    return int(result.counters["change"]["cached_tokens"])


def test_every_repeat_begins_with_the_caches_it_declares(tmp_path: Path) -> None:
    once, twice, warm = (tmp_path / name for name in ("once", "twice", "warm"))
    cold = cached_tokens(once)
    assert cached_tokens(twice, "repeats=2") == 2 * cold
    assert cached_tokens(warm, "cache=warm") > cold


def test_every_repeat_sends_the_same_batches_in_an_order_of_its_own(tmp_path: Path) -> None:
    wanted = ("method=ngram", MENDED, "repeats=3", "dataset.limit=16", "sampling.max_tokens=8")
    out, (base, drafted) = swept(tmp_path, *wanted, "sampling.n=2", start_log=IN_FORCE)
    orders = []
    for one in (base, drafted):
        files = only_sweep(tmp_path).point(one.planned)
        ids = [record.prompt_id for record in files.records()]
        sent = [ids[at] + " " + ids[at + 2] for at in range(0, len(ids), 4)]
        each = [sent[at : at + 8] for at in range(0, 24, 8)]
        assert sorted(each[0]) == sorted(each[1]) == sorted(each[2])
        assert len({tuple(order) for order in each}) == 3
        numbers = [batch.batch or 0 for batch in files.batches()]
        assert sorted(numbers) == list(range(24))
        known = {number % 8: names for number, names in zip(numbers, sent, strict=True)}
        assert [known[number % 8] for number in numbers] == sent
        orders.append(each)
    assert orders[0] == orders[1]  # what a batch shares its server's state with is equal, too
    assert [len(base.repeats.output_tokens_per_s), len(drafted.repeats.speedup)] == [3, 3]
    assert out.count("over 3 repeats: ") == 2


def test_sampled_drafts_on_the_cpu_build_are_refused_without_the_work_around(
    tmp_path: Path,
) -> None:
    done = run(command(*ROLLOUT, "method=ngram", outputs=tmp_path))
    assert done.status == 2
    assert "sampling.temperature=1 with speculation is wrong on vLLM's CPU build" in done.out
    assert "server.workarounds=[vllm-55005] (vllm#55005)" in done.out


def test_the_server_is_told_what_a_trainer_needs(tmp_path: Path) -> None:
    swept(tmp_path, "server=rollout", "method=none")
    (info,) = only_sweep(tmp_path).path.glob("servers/*/server.json")
    line = json.loads(info.read_text())["command"]
    assert """--logprobs-mode processed_logprobs --max-logprobs=-1""" in line
    assert """--weight-transfer-config '{"backend": "nccl"}'""" in line


def test_wrong_logprobs_are_said(tmp_path: Path) -> None:
    _, (base,) = swept(tmp_path, "method=none", wrong_logprobs=-3.0)
    assert base.rollout is not None and base.rollout.logprobs_agree is False
    assert any(
        note == "returned logprobs are not those of a re-score: 3.00 nats a token on average; "
        "importance sampling with them would be wrong"
        for note in base.notes
    )


def test_a_sampling_field_that_does_nothing_is_said(tmp_path: Path) -> None:
    """A wrapper may drop what a trainer sets."""
    narrow = ("method=none", "sampling.top_p=0.9", "sampling.repetition_penalty=1.1")
    _, (base,) = swept(tmp_path, *narrow, ignored_fields=["top_p"])
    assert base.result is not None
    seen = base.result.provenance["canary"]
    assert (seen["max_tokens"], seen["seed"]) == ("kept", "repeats")
    assert (seen["top_p"], seen["repetition_penalty"]) == ("ignored", "in force")
    assert "the canary shows that top_p is ignored" in base.notes


def test_a_nucleus_is_not_scored_again_and_why(tmp_path: Path) -> None:
    _, (base,) = swept(tmp_path, "method=none", "sampling.top_p=0.9")
    assert base.rollout is not None
    assert base.rollout.logprob_difference.reason == (
        "a re-score is of the model's own distribution, and sampling.top_p=0.9 changes the one "
        "that was sampled from"
    )


def test_a_server_that_fails_a_batch_fails_the_point(tmp_path: Path) -> None:
    argv = command(*ROLLOUT, "method=none", outputs=tmp_path)
    # The start, the canary, five probes and the warm-up; then every other one.
    done = run(argv, faults={"http_503_share": 0.5, "http_503_after": 8})
    assert done.status == 1
    (base,) = compare(only_sweep(tmp_path))
    assert (base.status, base.rollout and base.rollout.batches) == ("invalid", 0)
    assert base.reason.startswith("8 of 16 requests failed (max_error_rate=0); first: HTTP 503")


@pytest.mark.parametrize(
    ("dev_mode", "how"), [("1", "server has 3; "), ("0", "its /metrics count 3")]
)
def test_an_attached_server_with_other_settings_fails_the_point(
    tmp_path: Path, dev_mode: str, how: str
) -> None:
    config = {"method": "ngram", "num_speculative_tokens": 3}
    engine = [sys.executable, str(ENGINE), "--model", "m", "--served-model-name", "theirs"]
    engine += ["--speculative-config", json.dumps(config)]
    argv = command(*ROLLOUT, "method=ngram", "gamma=4", "baseline=off", outputs=tmp_path)
    argv = [token for token in argv if not token.startswith("server.command=")]
    env = environment() | {"VLLM_SERVER_DEV_MODE": dev_mode}
    with served(engine, env) as (_, url):
        assert run([*argv, "server=external", f"server.base_url={url}"]).status == 1
    (point,) = compare(only_sweep(tmp_path))
    assert point.status == "failed"
    assert point.reason.startswith(
        f"the server resolved other settings: num_speculative_tokens: asked 4, {how}"
    )


@pytest.mark.parametrize("server", ["vllm", "rollout"])
def test_a_server_that_resolves_other_settings_fails_its_point(tmp_path: Path, server: str) -> None:
    argv = command(*ROLLOUT, f"server={server}", "method=ngram", MENDED, outputs=tmp_path)
    argv += ["gamma=4", "baseline=off"]
    assert run(argv, faults={"start_log": IN_FORCE, "wrong_gamma": 3}).status == 1
    (point,) = compare(only_sweep(tmp_path))
    assert point.status == "failed"
    assert point.reason == (
        "the server resolved other settings: num_speculative_tokens: asked 4, server has 3"
    )
