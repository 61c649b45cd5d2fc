"""The stand-in for vLLM keeps vLLM's promises, so tests that use it mean something."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.running import ENGINE, PATIENT_S, own_port, wait_for_server, wait_until

SPEC = ("--per-request-spec-decode-metrics", "detailed")
NGRAM = ("--speculative-config", '{"method": "ngram", "num_speculative_tokens": 4}', *SPEC)
EAGLE = (
    "--speculative-config",
    '{"method": "eagle3", "model": "draft", "num_speculative_tokens": 3}',
    *SPEC,
)
LONG = " ".join(f"word{n}" for n in range(40))

Start = Callable[..., "Running"]


class Running:
    """One started process and a client for it."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process, self.port = process, port
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENT_S)

    def wait(self) -> Running:
        wait_for_server(self.process, self.port)
        return self

    def ask(self, prompt: str = "hello", **fields: Any) -> Any:
        body = {"model": "nonce", "prompt": prompt, "temperature": 0, "max_tokens": 48} | fields
        response = self.http.post("/v1/completions", json=body)
        assert response.status_code == 200, response.text
        return response.json()

    def counters(self) -> dict[str, float]:
        text = self.http.get("/metrics").text
        lines = (line.rpartition(" ") for line in text.splitlines())
        return {
            re.sub(r'engine="0",model_name="nonce",?', "", name): float(v) for name, _, v in lines
        }


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts the stand-in with these flags, faults and variables; kills it at the end."""
    with ExitStack() as stack:

        def started(*flags: str, env: dict[str, str] | None = None, **faults: Any) -> Running:
            port = stack.enter_context(own_port())
            command = [sys.executable, str(ENGINE), "--model", "m", "--host", "127.0.0.1"]
            command += ["--port", str(port), "--served-model-name", "nonce", *flags]
            process = subprocess.Popen(
                [*command, "--fake-step-ms", "0.2"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=os.environ | {"FAKE_ENGINE": json.dumps(faults)} | (env or {}),
            )
            stack.callback(process.communicate)
            stack.callback(process.kill)
            running = Running(process, port)
            stack.callback(running.http.close)
            return running

        yield started


@contextmanager
def one_under_way(server: Running) -> Iterator[None]:
    """A request that has come to the server, and whose answer nobody waits for."""
    body = json.dumps({"prompt": "hi"})
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}"
    kind = "Content-Type: application/json"
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(f"{head}\r\n{kind}\r\n\r\n{body}".encode())
        assert wait_until(lambda: server.counters()["vllm:num_requests_running{}"] == 1)
        yield


def accounting(answer: Any) -> tuple[int, dict[str, Any]]:
    return answer["usage"]["completion_tokens"], answer["metrics"]["speculative_decoding"]


@pytest.mark.parametrize("flags", [NGRAM, EAGLE], ids=["ngram", "eagle3"])
def test_requests_and_counters_obey_the_accounting_identity(
    start: Start, flags: tuple[str, ...]
) -> None:
    server = start(*flags).wait()
    before, total = server.counters(), 0
    drafts = drafted = accepted = 0
    for n in range(5):
        steps_before = server.counters()["vllm:inter_token_latency_seconds_count{}"]
        tokens, spec = accounting(server.ask(f"prompt {n}"))
        decode_steps = server.counters()["vllm:inter_token_latency_seconds_count{}"] - steps_before
        zero = decode_steps - spec["num_spec_steps"]
        cut = 1 + spec["num_spec_steps"] + spec["num_accepted_draft_tokens"] + zero - tokens
        assert 0 <= cut <= spec["num_spec_tokens"]
        assert (zero == 0) == (flags is EAGLE)
        assert sum(spec["per_step_accepted"]) == spec["num_accepted_draft_tokens"]
        assert sum(spec["per_step_drafted"]) == spec["num_draft_tokens"]
        drafts += spec["num_spec_steps"]
        drafted += spec["num_draft_tokens"]
        accepted += spec["num_accepted_draft_tokens"]
        total += tokens
    after = server.counters()
    moved = {name: after[name] - before[name] for name in after}
    assert moved["vllm:spec_decode_num_drafts_total{}"] == drafts > 0
    assert moved["vllm:spec_decode_num_draft_tokens_total{}"] == drafted
    assert moved["vllm:spec_decode_num_accepted_tokens_total{}"] == accepted > 0
    assert moved["vllm:generation_tokens_total{}"] == total
    positions = [value for name, value in moved.items() if "per_pos_total" in name]
    assert sum(positions) == accepted
    assert positions == sorted(positions, reverse=True)


def test_greedy_text_is_the_same_with_and_without_speculation(start: Start) -> None:
    base, ngram, eagle = start(), start(*NGRAM), start(*EAGLE)
    texts = [
        [s.ask(f"p{n}", return_token_ids=True)["choices"][0] for n in range(4)]
        for s in (base.wait(), ngram.wait(), eagle.wait())
    ]
    assert texts[0] == texts[1] == texts[2]
    assert len({choice["text"] for choice in texts[0]}) == 4
    assert "vllm:spec_decode_num_drafts_total{}" not in base.counters()
    assert base.ask()["metrics"] is None


def test_sampled_text_follows_the_seed(start: Start) -> None:
    server = start().wait()
    first, again, other = (server.ask(temperature=0.8, seed=seed) for seed in (1, 1, 2))
    assert first["choices"] == again["choices"]
    assert first["choices"] != other["choices"]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_a_stream_says_what_the_whole_answer_says(start: Start, path: str) -> None:
    server = start(*EAGLE).wait()
    body: dict[str, Any] = {"temperature": 0, "max_tokens": 40, "return_token_ids": True}
    body |= (
        {"messages": [{"role": "user", "content": "hi"}]} if "chat" in path else {"prompt": "hi"}
    )
    whole = server.http.post(path, json=body).json()
    body |= {"stream": True, "stream_options": {"include_usage": True}}
    with server.http.stream("POST", path, json=body) as response:
        lines = [line.removeprefix("data: ") for line in response.iter_lines() if line]
    assert lines[-1] == "[DONE]"
    *chunks, last = [json.loads(line) for line in lines[:-1]]
    choices = [chunk["choices"][0] for chunk in chunks]
    text = "".join(c.get("text") or c.get("delta", {}).get("content", "") for c in choices)
    message = whole["choices"][0].get("message") or {}
    assert text == (message.get("content") or whole["choices"][0].get("text"))
    token_ids = [token for choice in choices for token in choice.get("token_ids", ())]
    assert token_ids == whole["choices"][0]["token_ids"]
    assert len(chunks) < len(token_ids)
    assert choices[-1]["finish_reason"] == whole["choices"][0]["finish_reason"]
    assert last["choices"] == []
    assert last["metrics"] == whole["metrics"]
    assert last["usage"]["completion_tokens"] == len(token_ids)


def test_a_stop_string_hides_the_speculation_metrics(start: Start) -> None:
    server = start(*NGRAM).wait()
    text = server.ask()["choices"][0]["text"]
    stop = text.split()[7]
    answer = server.ask(stop=[stop])
    assert answer["choices"][0]["text"] == text[: text.index(stop)]
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["metrics"] is None


def test_cached_tokens_are_whole_blocks_until_the_cache_is_reset(start: Start) -> None:
    server = start("--enable-prompt-tokens-details", env={"VLLM_SERVER_DEV_MODE": "1"}).wait()

    def cached(**fields: Any) -> int:
        details = server.ask(LONG, **fields)["usage"]["prompt_tokens_details"]
        return int(details["cached_tokens"])

    assert [cached(), cached(), cached(cache_salt="x")] == [0, 32, 0]
    assert server.http.post("/reset_prefix_cache").json() == {"success": True}
    assert cached() == 0
    assert server.counters()["vllm:prompt_tokens_cached_total{}"] == 32


def test_identity_endpoints(start: Start) -> None:
    env = {"VLLM_API_KEY": "secret", "VLLM_SERVER_DEV_MODE": "1"}
    server = start(*NGRAM, "--enforce-eager", env=env).wait()
    assert server.http.get("/v1/models").status_code == 401
    assert server.http.get("/version").json() == {"version": "0.32.0"}
    models = server.http.get("/v1/models", headers={"Authorization": "Bearer secret"}).json()
    card = models["data"][0]
    assert (card["id"], card["root"], card["max_model_len"]) == ("nonce", "m", 8192)
    info = server.http.get("/server_info", params={"config_format": "json"}).json()
    spec = info["vllm_config"]["speculative_config"]
    assert (spec["num_speculative_tokens"], spec["prompt_lookup_min"]) == (4, 5)
    assert info["vllm_config"]["model_config"]["enforce_eager"] is True
    assert "VLLM_API_KEY" not in info["vllm_env"]


def test_without_dev_mode_there_is_no_server_info(start: Start) -> None:
    server = start().wait()
    assert server.http.get("/server_info").status_code == 404


def test_unknown_models_and_unsupported_fields_are_refused(start: Start) -> None:
    server = start(*NGRAM).wait()
    wrong = server.http.post("/v1/completions", json={"model": "x", "prompt": "hi"})
    assert wrong.status_code == 404
    assert wrong.json()["error"]["message"] == "The model `x` does not exist."
    min_p = server.http.post("/v1/completions", json={"prompt": "hi", "min_p": 0.1})
    assert min_p.status_code == 400
    assert "min_p and logit_bias" in min_p.json()["error"]["message"]


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (("-sc", "{method:ngram}"), 2, "Value {method:ngram} cannot be converted"),
        (("-sc", '{"gama": 1}'), 1, "gama\n  Unexpected keyword argument"),
        (("-sc", '{"method": "ngram"}'), 1, "num_speculative_tokens must be provided"),
        (SPEC, 1, "--per-request-spec-decode-metrics requires speculative decoding"),
    ],
)
def test_invalid_configurations_do_not_start(
    start: Start, flags: tuple[str, ...], code: int, words: str
) -> None:
    process = start(*flags).process
    _, stderr = process.communicate(timeout=PATIENT_S)
    assert process.returncode == code
    assert words in stderr


def test_faults_at_start(start: Start) -> None:
    fault = {"code": 7, "message": "ValueError: no memory", "after_s": 0.1}
    gone = start(exit_at_start=fault, start_log=["Loading weights"]).process
    never = start(never_ready=True)
    stdout, stderr = gone.communicate(timeout=PATIENT_S)
    assert (gone.returncode, stderr) == (7, "ValueError: no memory\n")
    assert "non-default args: {" in stdout
    assert "Loading weights\n" in stdout
    with pytest.raises(httpx.ConnectError):
        never.http.get("/health")
    assert never.process.poll() is None


def test_a_taken_port_ends_the_start(start: Start) -> None:
    first = start().wait()
    second = start("--port", str(first.port)).process
    _, stderr = second.communicate(timeout=PATIENT_S)
    assert (second.returncode, stderr) == (1, "OSError: [Errno 98] Address already in use\n")


def test_faults_in_requests(start: Start) -> None:
    server = start(*NGRAM, http_503_share=0.5, freeze_accepts_after=4, no_usage=6).wait()
    body = {"prompt": "hi", "temperature": 0, "max_tokens": 60}
    answers = [server.http.post("/v1/completions", json=body) for _ in range(8)]
    assert [a.status_code for a in answers] == [200, 503] * 4
    specs = [a.json()["metrics"]["speculative_decoding"] for a in answers[::2]]
    assert [s["num_accepted_draft_tokens"] > 0 for s in specs] == [True, True, False, False]
    assert [a.json()["usage"] is None for a in answers[::2]] == [False, False, False, True]


def test_an_interrupted_answer(start: Start) -> None:
    reset, failing = start(reset_mid_stream=True), start(in_stream_error=True)
    body = {"prompt": "hi", "stream": True, "max_tokens": 30}
    with (
        pytest.raises(httpx.RemoteProtocolError),
        reset.wait().http.stream("POST", "/v1/completions", json=body) as response,
    ):
        response.read()
    text = failing.wait().http.post("/v1/completions", json=body).text
    assert '"code": 500' in text
    assert text.endswith("data: [DONE]\n\n")
    assert reset.counters()["vllm:num_requests_running{}"] == 0


def test_a_dead_engine_answers_500_and_exits_with_0(start: Start) -> None:
    server = start(die_after_requests=1, dead_until_seen=True).wait()
    server.ask()
    response = server.http.post("/v1/completions", json={"prompt": "hi"})
    assert response.status_code == 500
    assert response.json()["error"]["type"] == "InternalServerError"
    assert server.http.get("/health").status_code == 503
    stdout, _ = server.process.communicate(timeout=PATIENT_S)
    assert server.process.returncode == 0
    assert "EngineDeadError" in stdout


def test_sigterm_ends_it_at_once_unless_ignored(start: Start) -> None:
    """Not even for what is under way, which here would be for ever, does it wait."""
    polite = start(answer_together=2).wait()
    stubborn = start(answer_together=2, ignore_sigterm=True).wait()
    with one_under_way(polite), one_under_way(stubborn):
        polite.process.terminate()
        stubborn.process.terminate()
        assert polite.process.wait(PATIENT_S) == 0
        for _ in range(5):  # one that obeys has ended before the second of them
            assert stubborn.http.get("/health").status_code == 200


def test_a_child_outlives_it(start: Start) -> None:
    server = start(spawn_child=True).wait()
    server.process.terminate()
    stdout, _ = server.process.communicate(timeout=PATIENT_S)
    pid = int(stdout.split("spawned child pid=")[1].split()[0])
    os.kill(pid, 0)
    assert os.getsid(pid) == pid
    os.kill(pid, signal.SIGKILL)


def test_the_squatter_answers_as_somebody_else() -> None:
    with own_port() as port:
        command = [sys.executable, str(ENGINE.with_name("squatter.py")), str(port)]
        process = subprocess.Popen(command, text=True)
        try:
            squatter = Running(process, port).wait()
            assert squatter.http.get("/v1/models").json()["data"][0]["id"] == "not-yours"
            squatter.http.close()
        finally:
            process.kill()
            process.wait()


def test_it_can_pretend_to_be_another_server(start: Start) -> None:
    env = {"VLLM_SERVER_DEV_MODE": "1"}
    server = start(*NGRAM, env=env, wrong_gamma=7, wrong_model_name="theirs").wait()
    info = server.http.get("/server_info?config_format=json").json()
    assert info["vllm_config"]["speculative_config"]["num_speculative_tokens"] == 7
    assert server.http.get("/v1/models").json()["data"][0]["id"] == "theirs"


def test_a_hanging_request_leaves_health_alone(start: Start) -> None:
    server = start(hang_after_requests=1).wait()
    server.ask()
    with pytest.raises(httpx.ReadTimeout):
        server.http.post("/v1/completions", json={"prompt": "hi"}, timeout=0.3)
    assert server.http.get("/health").status_code == 200


def test_requests_are_held_until_a_file_is_there(start: Start, tmp_path: Path) -> None:
    go = tmp_path / "go"
    server = start(held_after_requests=[(1, str(go))]).wait()
    server.ask()
    with pytest.raises(httpx.ReadTimeout):
        server.http.post("/v1/completions", json={"prompt": "hi"}, timeout=0.3)
    go.touch()
    server.ask()


def test_engines_that_start_together_refuse_connections_until_all_are_up(
    start: Start, tmp_path: Path
) -> None:
    together = {"folder": str(tmp_path), "engines": 2}
    first = start(ready_together=together)
    assert wait_until(lambda: list(tmp_path.iterdir()))
    with pytest.raises(httpx.ConnectError):
        first.http.get("/health")
    second = start(ready_together=together)
    first.wait()
    second.wait()
    for process in (first.process, second.process):
        process.kill()
        process.wait()
    start(ready_together=together).wait()


def test_answers_that_come_together_need_so_many_under_way(start: Start) -> None:
    server = start(answer_together=2).wait()
    with one_under_way(server):
        assert server.ask()["usage"]["completion_tokens"] == 48
    assert server.counters()["fake:most_requests_running"] == 2
    server.ask()
