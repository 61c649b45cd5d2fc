"""A stand-in for vLLM 0.32's OpenAI server: the same HTTP, a pretend model, faults on demand.

    python tests/fakes/engine.py --model M --port P --served-model-name NAME \
        [--speculative-config JSON] [--per-request-spec-decode-metrics detailed] [--fake-step-ms 2]

Every other flag is accepted and remembered, and so is ``serve M ...``. The text depends on prompt,
model and, when sampled, seed; greedy text is the same with and without speculation. Every request
obeys ``completion_tokens = 1 + S + A + Z - T``: S verify steps, A accepted draft tokens, Z decode
steps without a draft, T tokens cut at the end. Faults: environment variable ``FAKE_ENGINE``, JSON;
[n] is true for every request, or n for all requests after the first n.

    exit_at_start {code, message, after_s}  never_ready  start_log (list of lines)
    ready_together {folder, engines} (none listens before so many of that folder are up at once)
    answer_together (no request is answered before so many have been under way at once)
    ends_when_read [n] (no answer ends before /metrics was read since it began)
    die_after_requests [n]  dead_until_seen (it ends once /health has told of it)
    held_after_requests (list of [n, file]: until that file is there)
    hang_after_requests [n]  freeze_accepts_after [n]  accept_nothing [n]
    reset_mid_stream [n]  in_stream_error [n]  no_usage [n]  no_spec_metrics [n]
    http_503_share (of the requests after the first http_503_after)
    synthetic (the resolved config accepts by a fixed rate, whatever was asked)
    wrong_gamma (number)  wrong_model_name (name)  wrong_text_share (only with speculation)
    ignored_fields (list of names: sampling fields that do nothing)
    seeded_parts_kill (more prompt tokens with a seed in one step end a CPU engine)
    no_profiler (a server that knows no --profiler-config)
    profiled_for_ever (nothing is answered while a profile is taken)
    wrong_logprobs (nats, of rollout batches)
    batches_seen (a batch goes on after so many reads of /metrics while all of it was under way)
    ignore_sigterm  sigterm_waits_for_streams (as vLLM without --shutdown-timeout)  spawn_child
    when_gamma (the faults are for the server with this many draft tokens, 0 for the baseline)
    acceptance, coverage (probabilities)  draft_ms (a drafted token)  answers {in prompt: text}
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from aiohttp import web

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # it runs as a script, from anywhere

from tests.fakes.engine_company import all_up
from tests.fakes.engine_flags import FAULTS, fatal, parse
from tests.fakes.engine_http import Server


def log(text: str) -> None:
    stamp = time.strftime("%m-%d %H:%M:%S")
    print(f"(APIServer pid={os.getpid()}) INFO {stamp} [engine.py:1] {text}", flush=True)


def begin() -> None:
    """The faults before anything listens."""
    for line in FAULTS.get("start_log", ()):
        print(line, flush=True)
    if FAULTS.get("spawn_child"):
        null = subprocess.DEVNULL
        child = subprocess.Popen(["sleep", "600"], stdout=null, stderr=null, start_new_session=True)
        log(f"spawned child pid={child.pid}")
    if fault := FAULTS.get("exit_at_start"):
        time.sleep(fault.get("after_s", 0.0))
        raise fatal(fault.get("message", "RuntimeError: fake"), fault.get("code", 1))


def bind(host: str, port: int) -> socket.socket:
    """Bound early and not listening until ready, as vLLM does."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
    except OSError as problem:
        raise fatal(f"OSError: [Errno {problem.errno}] {problem.strerror}") from None
    return found


async def stop(server: Server) -> None:
    while FAULTS.get("sigterm_waits_for_streams") and server.core.company.running:
        await asyncio.sleep(0.02)
    log("Application shutdown complete.")
    os._exit(0)


async def serve(server: Server) -> None:
    loop, tasks = asyncio.get_running_loop(), set[asyncio.Task[None]]()

    def on_signal() -> None:
        tasks.add(loop.create_task(stop(server)))

    loop.add_signal_handler(signal.SIGINT, on_signal)
    ignored = FAULTS.get("ignore_sigterm")
    loop.add_signal_handler(signal.SIGTERM, (lambda: None) if ignored else on_signal)
    listening = bind(server.args.host, server.args.port)
    if meeting := FAULTS.get("ready_together"):
        await all_up(Path(meeting["folder"]), meeting["engines"])
    if not FAULTS.get("never_ready"):
        runner = web.AppRunner(server.app(), access_log=None, handler_cancellation=True)
        await runner.setup()
        await web.SockSite(runner, listening).start()
        log("Application startup complete.")
    await asyncio.Event().wait()


def main() -> None:
    args, flags = parse(sys.argv[1:])
    if FAULTS.get("no_profiler") and "profiler_config" in flags:
        raise fatal("engine.py: error: unrecognized arguments: --profiler-config", 2)
    server = Server(args, flags)
    shown = {key: value for key, value in vars(args).items() if value is not None} | flags
    log(f"non-default args: {shown | {'speculative_config': server.spec}}")
    begin()
    asyncio.run(serve(server))


if __name__ == "__main__":
    main()
