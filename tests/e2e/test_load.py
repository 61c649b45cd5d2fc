"""Loads against a server that streams, overloads, resets, hangs and lies."""

from __future__ import annotations

import csv
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from sweeper.drive.load import run_load
from sweeper.drive.requests import asked_for
from sweeper.errors import RequestError
from sweeper.values import Load, Message, Prompt, RequestRecord, Sampling
from tests.e2e.running import (
    ENGINE,
    command,
    environment,
    only_sweep,
    read,
    run,
    served,
    wait_until,
)

EAGLE = (
    "--speculative-config",
    '{"method": "eagle3", "model": "draft", "num_speculative_tokens": 3}',
    "--per-request-spec-decode-metrics",
    "detailed",
)
SAMPLING = Sampling(
    name="greedy", temperature=0.0, top_p=1.0, top_k=0, min_p=0.0, presence_penalty=0.0,
    frequency_penalty=0.0, repetition_penalty=1.0, seed=0, max_tokens=20, ignore_eos=True,
)  # fmt: skip
PROMPTS = tuple(Prompt(id=f"p{n}", text=f"prompt {n}") for n in range(24))
CLOSED = Load(name="closed", concurrency=4, stream=True, request_timeout_s=20.0, processes=1)

Start = Callable[..., str]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts the stand-in with these flags and faults, gives its URL, kills it at the end."""
    with ExitStack() as stack:

        def started(*flags: str, step_ms: float = 1.0, **faults: Any) -> str:
            line = [sys.executable, str(ENGINE), "--model", "m", "--host", "127.0.0.1"]
            line += ["--served-model-name", "n", *flags, "--fake-step-ms", str(step_ms)]
            _, url = stack.enter_context(served(line, environment(faults)))
            return url

        yield started


def sent(
    url: str, load: Load, prompts: tuple[Prompt, ...] = PROMPTS, **sampling: Any
) -> list[RequestRecord]:
    records: list[RequestRecord] = []
    requests = asked_for(prompts, replace(SAMPLING, **sampling), 1, load)
    run_load(url, "", "n", requests, load, records.append)
    return records


def sent_until(
    enough: Callable[[list[RequestRecord]], object], *load: Any, **sampling: Any
) -> list[list[RequestRecord]]:
    """The records of one load after another, up to one of which came enough: a machine that is
    slow for a moment may take all of the time that a load has."""
    tried: list[list[RequestRecord]] = []

    def try_once() -> object:
        tried.append(sent(*load, **sampling))
        return enough(tried[-1])

    assert wait_until(try_once)
    return tried


def metric(url: str, name: str) -> float:
    """The sum over its labels."""
    lines = httpx.get(f"{url}/metrics", timeout=60).text.splitlines()
    return sum(float(x.rpartition(" ")[2]) for x in lines if re.match(rf"{name}\b", x))


def errors(records: list[RequestRecord]) -> list[str]:
    return [record.error for record in records if record.error]


def most_at_once(records: list[RequestRecord]) -> int:
    edges = sorted([(r.sent_ns, 1) for r in records] + [(r.done_ns, -1) for r in records])
    level = highest = 0
    for _, step in edges:
        level += step
        highest = max(highest, level)
    return highest


def test_a_closed_load_keeps_so_many_under_way_and_sends_every_prompt_once(start: Start) -> None:
    url = start(answer_together=4)
    records = sent(url, CLOSED)
    assert errors(records) == []
    assert metric(url, "fake:most_requests_running") == most_at_once(records) == 4
    order = sorted(records, key=lambda r: r.sent_ns)
    assert [r.prompt_id for r in order] == [p.id for p in PROMPTS]


def test_streamed_records_have_tokens_from_usage_and_times_of_chunks(start: Start) -> None:
    records = sent(start(*EAGLE), CLOSED)
    assert errors(records) == []
    for record in records:
        assert record.chunk_ns is not None and record.first_ns is not None
        assert record.completion_tokens == 20 == len(record.token_ids or ())
        assert len(record.chunk_ns) < 20  # several tokens a chunk
        assert record.spec is not None
        assert len(record.chunk_ns) == 1 + record.spec.verify_steps
        assert record.sent_ns < record.first_ns <= record.sent_ns + sum(record.chunk_ns)
        assert record.sent_ns + sum(record.chunk_ns) <= record.done_ns
        assert record.decode_steps is None
        assert (record.finish_reason, len(record.text.split())) == ("length", 20)
        assert record.prompt_digest is not None


def test_streamed_and_whole_answers_say_the_same(start: Start) -> None:
    url = start(*EAGLE)
    chat = tuple(
        Prompt(id=p.id, messages=(Message(role="user", content=str(p.text)),)) for p in PROMPTS
    )
    for prompts in (PROMPTS, chat):
        streamed, whole = (
            {r.prompt_id: r for r in sent(url, replace(CLOSED, stream=stream), prompts)}
            for stream in (True, False)
        )
        for name, record in whole.items():
            other = streamed[name]
            assert (other.text, other.token_ids) == (record.text, record.token_ids)
            assert (other.spec, other.prompt_digest) == (record.spec, record.prompt_digest)
            assert record.chunk_ns is None


def test_known_delays_are_measured(start: Start) -> None:
    """Nothing is ever early, and where nothing came between, nothing is late."""

    def undisturbed(records: list[RequestRecord]) -> bool:
        (record,) = records
        assert record.chunk_ns is not None
        first, *gaps = record.chunk_ns
        assert first >= 20e6 and first + sum(gaps) >= 399e6
        return first < 60e6 and 19e6 < sum(gaps) / len(gaps) < 30e6

    load = replace(CLOSED, concurrency=1, requests=1)
    sent_until(undisturbed, start(step_ms=20.0), load)


def test_resets_in_the_middle_of_an_answer_are_data(start: Start) -> None:
    records = sent(start(reset_mid_stream=20), CLOSED)
    found = errors(records)
    assert (len(records), len(found)) == (24, 4)
    for error in found:
        assert error.startswith(("ClientPayloadError: ", "ClientOSError: "))
        assert re.search(r" \([1-9]\d+ bytes had come, the last after \d+\.\d\d s\)$", error)


def test_an_error_event_in_a_stream_is_an_error(start: Start) -> None:
    records = sent(start(in_stream_error=20), CLOSED)
    assert set(errors(records)) == {
        "error event in the stream: EngineCore encountered an issue. "
        "See stack trace (above) for the root cause."
    }
    assert len(errors(records)) == 4


def test_a_stream_without_usage_is_an_error(start: Start) -> None:
    records = sent(start(no_usage=22), CLOSED)
    assert errors(records) == ["no usage in the stream; tokens are not guessed"] * 2
    assert all(r.completion_tokens is None for r in records if r.error)


@pytest.mark.parametrize(("share", "failed"), [(0.25, 6), (1.0, 24)])
def test_an_overloaded_server_is_data(start: Start, share: float, failed: int) -> None:
    found = errors(sent(start(http_503_share=share), CLOSED))
    assert len(found) == failed
    assert all(e.startswith('HTTP 503: {"error": {"message": "The server is over') for e in found)


def test_silence_ends_at_the_deadline_and_the_load_goes_on(start: Start) -> None:
    records = sent(start(hang_after_requests=22), replace(CLOSED, request_timeout_s=3.0))
    assert errors(records) == ["no end within 3 s"] * 2
    assert len(records) == 24
    assert all(r.done_ns - r.sent_ns > 2.9e9 for r in records if r.error)


def test_an_answer_that_never_ends_says_how_far_it_came(start: Start) -> None:
    load = replace(CLOSED, concurrency=1, requests=1, request_timeout_s=2.0)
    (error,) = errors(sent(start(step_ms=300.0), load))
    said = r"no end within 2 s \([1-9]\d+ bytes had come, the last after (\d\.\d\d) s\)"
    found = re.fullmatch(said, error)
    assert found and 0.3 <= float(found.group(1)) < 2.0


def test_nothing_listening_is_data() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        found = errors(sent(url, replace(CLOSED, requests=2)))
    assert len(found) == 2
    assert all(e.startswith("ClientConnectorError: Cannot connect to host") for e in found)


def test_an_open_load_sends_on_time_whatever_is_under_way(start: Start) -> None:
    """The first answer comes when the last request is there, and that was sent in good time."""
    load = Load(name="open", rate=100.0, arrivals="constant", stream=True, request_timeout_s=60.0)
    records = sorted(sent(start(answer_together=24), load), key=lambda r: r.sent_ns)
    assert errors(records) == []
    assert [r.due_ns for r in records] == [n * 10_000_000 for n in range(24)]
    assert all(r.due_ns is not None and 0 <= r.sent_ns - r.due_ns < 10e9 for r in records)
    assert most_at_once(records) == 24


def test_a_duration_ends_the_sending_and_what_is_under_way_is_waited_for(start: Start) -> None:
    load = replace(CLOSED, duration_s=0.3, cycle=True)
    for records in sent_until(lambda records: len(records) > 4, start(step_ms=5.0), load):
        assert errors(records) == []
        assert len(records) <= 4 + ended_by(0.3, records)
    assert max(r.done_ns for r in records) > 0.3e9


def ended_by(seconds: float, records: list[RequestRecord]) -> int:
    """So many answers were over then. Each may be followed by one more request, and no other by
    any: this holds however late a process is to look at the clock."""
    return sum(r.done_ns < seconds * 1e9 for r in records)


@pytest.mark.parametrize(
    "load",
    [
        replace(CLOSED, duration_s=0.4),
        replace(CLOSED, duration_s=0.4, processes=2),
        Load(name="open", rate=40.0, duration_s=0.4, stream=True, processes=1),
        Load(name="ramp", ramp_from=4.0, ramp_to=1.0, duration_s=0.4, stream=True, processes=1),
    ],
    ids=["closed", "two processes", "open", "ramp"],
)
def test_no_turn_follows_after_the_end(start: Start, load: Load) -> None:
    """Answers of about 0.1 s, ten turns: a conversation does not end before the load does."""
    prompts = tuple(
        Prompt(
            id=f"p{n}",
            messages=(Message(role="user", content=f"prompt {n}"),),
            follow_ups=("go on",) * 9,
        )
        for n in range(24)
    )
    several = sent_until(
        lambda records: any(r.turn for r in records), start(step_ms=5.0), load, prompts
    )
    for records in several:
        assert errors(records) == []
        assert all(r.turn < 9 for r in records)
        before = {(r.prompt_id, r.turn + 1): r.done_ns for r in records}
        assert all(before[r.prompt_id, r.turn] < 0.4e9 for r in records if r.turn)
        assert all(r.due_ns < 0.4e9 for r in records if r.due_ns is not None)
        assert sum(not r.turn and r.due_ns is None for r in records) <= 4  # one in every slot
    assert max(r.done_ns for r in records) > 0.4e9


def test_prompts_are_sent_again_only_when_asked_for(start: Start) -> None:
    url = start()
    with pytest.raises(RequestError) as refused:
        sent(url, replace(CLOSED, requests=25))
    assert str(refused.value) == (
        "load.requests=25, but there are 24 (24 prompts, repeats=1); "
        "ask for fewer, or set load.cycle=true to send prompts again"
    )
    records = sent(url, replace(CLOSED, requests=50, cycle=True))
    assert sorted(r.repeat for r in records) == [0] * 24 + [1] * 24 + [2] * 2


def test_a_ramp_opens_slots_one_after_another(start: Start) -> None:
    """The second at 0.15 s, the third at 0.45 s, the last at 0.75 s."""
    load = Load(name="ramp", ramp_from=1.0, ramp_to=4.0, duration_s=0.9, cycle=True, stream=True)
    tried = sent_until(lambda records: most_at_once(records) == 4, start(step_ms=2.0), load)
    for records in tried:
        assert errors(records) == []
        for level, opens in enumerate((0.15, 0.45, 0.75), start=1):
            assert most_at_once([r for r in records if r.sent_ns < opens * 1e9]) <= level


def test_what_hears_of_records_can_end_the_load(start: Start) -> None:
    seen: list[RequestRecord] = []

    def enough(record: RequestRecord) -> None:
        seen.append(record)
        if len(seen) == 3:
            raise RuntimeError("enough")

    requests = asked_for(PROMPTS, SAMPLING, 1, CLOSED)
    with pytest.raises(RuntimeError, match=r"^enough$"):
        run_load(start(), "", "n", requests, CLOSED, enough)
    assert len(seen) == 3


def test_connections_are_used_again_and_still_timed_one_by_one(start: Start) -> None:
    records = sent(start(step_ms=2.0), replace(CLOSED, concurrency=1))
    for before, after in pairwise(records):
        assert before.done_ns <= after.sent_ns
        assert after.chunk_ns is not None and min(after.chunk_ns) >= 0
        assert len(after.chunk_ns) == 20


def test_concurrency_sweeps_on_one_server(tmp_path: Path) -> None:
    values = ("method=ngram", "gamma=2", "load=closed", "load.concurrency=1,4")
    done = run(command(*values, "dataset.limit=6", outputs=tmp_path))
    assert done.status == 0, done.out + done.err
    folder = only_sweep(tmp_path)
    sweep, results = read(folder)
    assert [results[p.number].status for p in sweep.plan.points] == ["completed"] * 4
    assert len(list(folder.path.glob("servers/*"))) == 2
    for planned in sweep.plan.points:
        records = folder.point(planned).records()
        assert most_at_once(list(records)) == planned.point.load.concurrency
        assert all(r.chunk_ns and r.decode_steps is None for r in records)
        assert results[planned.number].counters["cross_check"]["agree"] is True


def test_a_point_of_refusals_is_invalid_and_says_so(tmp_path: Path) -> None:
    done = run(
        command("method=none", "load=closed", "dataset.limit=8", outputs=tmp_path),
        faults={"reset_mid_stream": 14},
    )
    assert done.status == 1
    _, results = read(only_sweep(tmp_path))
    (result,) = results.values()
    assert result.status == "invalid"
    # Fourteen answers are whole: the one that proves the start, the canary, two probes, eight to
    # warm up, and two.
    assert result.reason.startswith("6 of 8 requests failed (max_error_rate=0); first: Client")


TWO = replace(CLOSED, processes=2)


@pytest.mark.parametrize(
    "load",
    [
        replace(TWO, concurrency=5),
        replace(TWO, concurrency=1),
        replace(TWO, concurrency=64),
        Load(name="open", rate=200.0, stream=True, processes=2),
        replace(TWO, stream=False),
    ],
    ids=["closed 5", "closed 1", "more slots than requests", "open", "not streamed"],
)
def test_with_two_processes_nothing_is_lost_or_sent_twice(start: Start, load: Load) -> None:
    url = start(*EAGLE)
    records = sent(url, load)
    assert errors(records) == []
    assert sorted(r.prompt_id for r in records) == sorted(p.id for p in PROMPTS)
    assert metric(url, "vllm:request_success_total") == len(PROMPTS)


def test_two_processes_send_what_one_does(start: Start) -> None:
    """The same answers, the level that was asked for, and times that count from one origin."""
    one = {r.prompt_id: r for r in sent(start(*EAGLE), CLOSED)}
    url, began = start(*EAGLE, answer_together=4), time.perf_counter_ns()
    two = {r.prompt_id: r for r in sent(url, TWO)}
    took = time.perf_counter_ns() - began
    for name, record in one.items():
        other = two[name]
        assert (other.text, other.token_ids, other.spec) == (
            record.text,
            record.token_ids,
            record.spec,
        )
    records = list(two.values())
    assert metric(url, "fake:most_requests_running") == most_at_once(records) == 4
    assert all(0 <= r.sent_ns < r.done_ns <= took for r in records)
    assert all(r.chunk_ns and r.sent_ns + sum(r.chunk_ns) <= r.done_ns for r in records)


def test_the_cpu_time_of_two_processes_is_in_what_the_client_took(start: Start) -> None:
    url, load = start(), replace(CLOSED, processes=2)
    requests = asked_for(PROMPTS, SAMPLING, 1, load)
    here = time.process_time()
    client = run_load(url, "", "n", requests, load, lambda _: None)
    here = time.process_time() - here
    assert client.processes == 2
    assert client.cpu_s > here


def test_two_processes_keep_one_schedule_of_arrivals(start: Start) -> None:
    load = Load(name="open", rate=50.0, burstiness=0.5, arrivals="gamma", stream=True, seed=3)
    url = start()
    planned = [
        sorted((r.due_ns, r.prompt_id) for r in sent(url, replace(load, processes=n)))
        for n in (1, 2)
    ]
    assert planned[0] == planned[1]


def test_two_processes_end_with_the_duration(start: Start) -> None:
    load = replace(TWO, duration_s=0.4, cycle=True)
    for records in sent_until(lambda records: len(records) > 4, start(step_ms=5.0), load):
        assert errors(records) == []
        assert len(records) <= 4 + ended_by(0.4, records)
        seen = sorted((r.repeat, PROMPTS.index(_prompt(r.prompt_id))) for r in records)
        assert len(set(seen)) == len(seen)
        last = seen[-1][0] * len(PROMPTS) + seen[-1][1] if seen else -1
        assert last - len(seen) < 6  # dealt in order: at most what lay in the two hands is missing
    assert max(r.done_ns for r in records) > 0.4e9


def test_what_hears_of_records_can_end_two_processes(start: Start) -> None:
    def enough(record: RequestRecord) -> None:
        raise RuntimeError("enough")

    requests = asked_for(PROMPTS, SAMPLING, 1, TWO)
    with pytest.raises(RuntimeError, match=r"^enough$"):
        run_load(start(), "", "n", requests, TWO, enough)
    assert _workers() == []


def test_a_client_process_that_dies_is_no_silent_loss(start: Start) -> None:
    killed: list[psutil.Process] = []

    def kill(record: RequestRecord) -> None:
        if not killed:
            killed.extend(_workers())
            killed[0].kill()

    requests = asked_for(PROMPTS, SAMPLING, 1, TWO)
    with pytest.raises(RequestError) as ended:
        run_load(start(step_ms=5.0), "", "n", requests, TWO, kill)
    assert str(ended.value) == ("a client process ended before its requests did (exit status -9)")


def _prompt(name: str) -> Prompt:
    return next(p for p in PROMPTS if p.id == name)


def _workers() -> list[psutil.Process]:
    children = psutil.Process().children(recursive=True)
    return [child for child in children if "sweeper.drive.worker" in child.cmdline()]


@pytest.mark.parametrize(("allowed", "status"), [(0.1, "invalid"), (0.5, "completed")])
def test_a_server_that_refuses_three_in_ten(tmp_path: Path, allowed: float, status: str) -> None:
    """The share of requests that succeeded is a column; too few of them are no measurement."""
    values = ("method=none", "load=closed", "load.concurrency=2", "dataset.limit=20")
    done = run(
        command(*values, f"max_error_rate={allowed}", outputs=tmp_path),
        faults={"http_503_share": 0.3, "http_503_after": 4},  # the start, canary, two probes
    )
    folder = only_sweep(tmp_path)
    (line,) = csv.DictReader(folder.points_csv.read_text().splitlines())
    assert (line["status"], float(line["success_rate"])) == (status, 0.7)
    assert bool(line["output_tokens_per_s"]) == bool(line["tpot_ms_p50"]) == (allowed == 0.5)
    assert done.status == (0 if allowed == 0.5 else 1)


def test_a_draft_that_dies_half_way_is_told_though_the_mean_looks_plausible(tmp_path: Path) -> None:
    values = ("method=ngram", "gamma=2", "load=closed", "load.concurrency=2", "dataset.limit=40")
    done = run(
        command(*values, "baseline=off", outputs=tmp_path), faults={"freeze_accepts_after": 30}
    )
    assert done.status == 0, done.out + done.err
    _, results = read(only_sweep(tmp_path))
    (result,) = results.values()
    told = [w for w in result.warnings if w.startswith("no draft was accepted from ")]
    assert told and all(sentence in " ".join(done.out.split()) for sentence in told)
    assert "over_time" not in result.counters  # the requests tell, and counters need not
    assert "(from counters)" not in only_sweep(tmp_path).page.read_text()


def test_arms_that_do_not_both_obey_a_field_are_not_compared(tmp_path: Path) -> None:
    name = "repetition_penalty"
    values = ("method=ngram", "gamma=2", f"sampling.{name}=1.2", "dataset.limit=3")
    done = run(
        command(*values, outputs=tmp_path), faults={"ignored_fields": [name], "when_gamma": 2}
    )
    assert done.status == 0, done.out + done.err
    assert f"the canary shows no effect of {name}, however strong" in done.out
    rows = csv.DictReader(only_sweep(tmp_path).points_csv.read_text().splitlines())
    (row,) = [row for row in rows if row["method"] == "ngram"]
    assert row["speedup"] == ""
    told = f"canary.{name} is without effect here and in force for the baseline"
    assert told in row["speedup_reason"]
