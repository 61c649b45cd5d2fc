"""``trl vllm-serve`` in its three eras: the same names, flags and processes, a pretend engine.

Faults, in the environment variable ``FAKE_ENGINE``: ``trl_drops_speculation``, and
``wrong_logprobs`` (nats by which what is returned with samples is not what a re-score says).
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import multiprocessing
import os
import sys
from multiprocessing.connection import Connection
from typing import Any

MAJOR, MINOR = map(int, importlib.metadata.version("trl").split(".")[:2])
SPECULATES, RUNS_VLLM = MINOR >= 3, MINOR >= 11
FAULTS = json.loads(os.environ.get("FAKE_ENGINE") or "{}")


class Parser(argparse.ArgumentParser):
    """What TRL's parser adds: an error that names every argument it does not know."""

    def parse_args_and_config(
        self, args: list[str], return_remaining_strings: bool = False
    ) -> tuple[Any, ...]:
        parsed, rest = self.parse_known_args(args)
        if return_remaining_strings:
            return parsed, rest
        if rest:
            raise ValueError(
                f"Some specified arguments are not used by the HfArgumentParser: {rest}"
            )
        return (parsed,)


def make_parser() -> Parser:
    parser = Parser(allow_abbrev=False)
    parser.add_argument("--model", required=True)
    parser.add_argument("--host", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=8000)
    if SPECULATES:
        parser.add_argument("--speculative_config")
    return parser


def llm_worker(args: argparse.Namespace, rank: int, port: int, connection: Connection) -> None:
    from vllm import LLM

    text = getattr(args, "speculative_config", None)
    spec = json.loads(text) if text and not FAULTS.get("trl_drops_speculation") else None
    llm = LLM(model=args.model, **({"speculative_config": spec} if SPECULATES else {}))
    connection.send({"status": "ready"})
    while True:
        connection.send(llm.generate(**connection.recv()))


def main(args: argparse.Namespace, extra: list[str] | None = None) -> None:
    if RUNS_VLLM:
        command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", args.model]
        command += ["--host", args.host, "--port", str(args.port)]
        if args.speculative_config and not FAULTS.get("trl_drops_speculation"):
            command += ["--speculative-config", args.speculative_config]
        command += ["--logprobs-mode", "processed_logprobs", *(extra or [])]
        os.execve(sys.executable, command, os.environ | {"VLLM_SERVER_DEV_MODE": "1"})
    import uvicorn
    from fastapi import FastAPI

    ours, theirs = multiprocessing.Pipe()
    worker = multiprocessing.Process(target=llm_worker, args=(args, 0, 0, theirs), daemon=True)
    worker.start()
    ours.recv()
    app = FastAPI()

    def generate(request: dict) -> dict:  # type: ignore[type-arg]
        ours.send({"prompts": request["prompts"], "n": request.get("n", 1)})
        completions = ours.recv()
        logprobs = [[[-0.5] for _ in tokens] for tokens in completions]
        return {"completion_ids": completions, "logprobs": logprobs}

    def score(request: dict) -> dict:  # type: ignore[type-arg]
        """The token that was sent after the likeliest one, where they are two."""
        pairs = zip(request["sequences"], request["prompt_lengths"], strict=True)
        completions = [tokens[length:] for tokens, length in pairs]
        wrong = FAULTS.get("wrong_logprobs", 0.0)
        return {
            "logprobs": [[[-0.1, -0.5 - wrong] for _ in tokens] for tokens in completions],
            "logprob_token_ids": [[[0, token] for token in tokens] for tokens in completions],
        }

    for path, answer in (("/generate/", generate), ("/get_sequence_logprobs/", score)):
        answer.__annotations__ = {"request": dict}
        app.add_api_route(path, answer, methods=["POST"])
    uvicorn.run(app, host=args.host, port=args.port, log_level="warning")
