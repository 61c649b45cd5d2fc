"""The lifetime of a server: ``with serve(spec, folder) as session``."""

from __future__ import annotations

import logging
import os
import secrets
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from sweeper import store
from sweeper.errors import IdentityError, RequestError, ServerError
from sweeper.serve.attach import attached
from sweeper.serve.command import argv, environment, preload_libraries
from sweeper.serve.endpoint import Endpoint
from sweeper.serve.identity import check_models, check_speculation
from sweeper.serve.installed import installed, reports
from sweeper.serve.plugins import check_in_force, install, with_plugins
from sweeper.serve.process import ServerProcess, free_port, is_listening, start
from sweeper.serve.running import Session, died, rollout_api
from sweeper.store import ServerFolder
from sweeper.values import ROLLOUT_PATHS, Json, ServerSpec

__all__ = ["Session", "serve"]
log = logging.getLogger(__name__)

PORT_ATTEMPTS = 3
_ADDRESS_IN_USE = "Address already in use"


@contextmanager
def serve(
    spec: ServerSpec, folder: ServerFolder, on_wait: Callable[[float], None] = lambda _: None
) -> Iterator[Session]:
    """Start (or attach to) the server and yield when a real completion has come back.

    ``on_wait`` hears the seconds waited so far. The server is gone when the block is left,
    whichever way.

    :raises ServerError: when it does not start, with the last lines of its log.
    """
    if spec.kind == "external":
        with attached(spec, folder) as session:
            yield session
        return
    for attempt in range(1, PORT_ATTEMPTS + 1):
        try:
            with _started(spec, folder, on_wait) as session:
                yield session
            return
        except _PortTakenError as taken:
            if attempt == PORT_ATTEMPTS or spec.port is not None:
                raise ServerError(str(taken)) from None
            log.warning("%s; trying another port", taken)


class _PortTakenError(ServerError):
    """Somebody bound the port between our choice and the server's start."""


@contextmanager
def _started(
    spec: ServerSpec, folder: ServerFolder, on_wait: Callable[[float], None]
) -> Iterator[Session]:
    port = spec.port or free_port()
    name, key = f"sweeper-{secrets.token_hex(6)}", secrets.token_hex(24)
    url = f"http://127.0.0.1:{port}"
    with Endpoint(url, key, name) as endpoint:
        if is_listening(port):
            _refuse_squatter(endpoint, url)
        here = installed(spec.command)
        prefix = Path(here.python).parent.parent if here else Path(sys.prefix)
        preload = preload_libraries(prefix) if not _has_gpu() else ()
        command = argv(spec, port=port, name=name, **reports(spec.command))
        env = environment(spec, os.environ, api_key=key, preload=preload)
        env = with_plugins(env, spec, install(spec, folder.path))
        facts: dict[str, Json] = {
            "command": shlex.join(command),
            "env": dict(spec.env),
            "workarounds": list(spec.workarounds),
            "preload": [str(path) for path in preload],
            "started_at": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        }
        store.write_json(folder.info, facts)
        began = time.monotonic()
        process = start(command, env, folder.log, spec.stop_timeout_s)
        session: Session | None = None
        whole = False
        try:
            session = _ready(spec, endpoint, process, folder, began, on_wait)
            session.preload, session.here = tuple(map(str, preload)), here
            facts |= {"start_s": round(session.start_s, 3), "pid": process.pid}
            facts |= {"version": session.version, "server_info": session.info}
            store.write_json(folder.info, facts)
            check_speculation(spec, session.info)
            check_in_force(spec, session.log_text())
            yield session
            whole = True
        finally:
            endpoint.close()  # an open connection can keep vLLM from stopping
            stopping = time.monotonic()
            end = process.stop(was_ready=session is not None)
            facts |= {"end": end, "stop_s": round(time.monotonic() - stopping, 3)}
            store.write_json(folder.info, facts)
            if end["left"]:
                left = f"the server left processes behind: {', '.join(end['left'])}"
                if whole:
                    raise ServerError(left)
                log.warning("%s", left)  # what broke off, a Ctrl-C above all, is not replaced


def _ready(
    spec: ServerSpec,
    endpoint: Endpoint,
    process: ServerProcess,
    folder: ServerFolder,
    began: float,
    on_wait: Callable[[float], None],
) -> Session:
    deadline = began + spec.start_timeout_s
    while True:
        if process.poll() is not None:
            if _ADDRESS_IN_USE in process.tail(40):
                raise _PortTakenError(f"{endpoint.base_url}: {_ADDRESS_IN_USE}")
            raise ServerError(died(process, "before it was ready"))
        if time.monotonic() > deadline:
            raise ServerError(
                f"the server was not ready after {spec.start_timeout_s:g} s "
                f"(server.start_timeout_s); last lines of its log:\n{process.tail()}"
            )
        if _answers(endpoint, process):
            break
        on_wait(time.monotonic() - began)
        time.sleep(0.2)
    info = endpoint.server_info()
    api = rollout_api(info)
    body: dict[str, Json] = {"max_tokens": 1}
    body |= {"prompt": "Hello"} if api == "completions" else {"prompts": ["Hello"]}
    try:
        endpoint.complete(body, deadline - time.monotonic(), ROLLOUT_PATHS[api])
    except RequestError as problem:
        raise ServerError(
            f"the server is up but its first completion failed: {problem}\n{process.tail()}"
        ) from None
    return Session(
        spec=spec,
        endpoint=endpoint,
        folder=folder,
        process=process,
        start_s=time.monotonic() - began,
        info=info,
        version=endpoint.version(),
        api=api,
    )


def _answers(endpoint: Endpoint, process: ServerProcess) -> bool:
    """Is our server listening? Another one on our port is an error, not a yes."""
    try:
        models = endpoint.models()
    except RequestError as problem:
        if "HTTP 401" in str(problem):
            raise IdentityError(
                f"{endpoint.base_url} is answered by a server that does not know our key"
            ) from None
        return False
    check_models(models, endpoint.model, endpoint.base_url)
    return _listens(process, endpoint.base_url)


def _listens(process: ServerProcess, url: str) -> bool:
    """Does a process below our guard hold the port? Unknown (no permission) counts as yes."""
    port = int(url.rsplit(":", 1)[1])
    try:
        tree = psutil.Process(process.guard.pid).children(recursive=True)
        held = {
            c.laddr.port for p in tree for c in p.net_connections("tcp") if c.status == "LISTEN"
        }
    except (psutil.Error, OSError):
        return True
    if port not in held:
        raise IdentityError(f"{url} answers with our name, but no process of ours listens there")
    return True


def _refuse_squatter(endpoint: Endpoint, url: str) -> None:
    try:
        check_models(endpoint.models(), endpoint.model, url)
    except RequestError as problem:
        raise IdentityError(f"{url} is taken by something that is not ours: {problem}") from None


def _has_gpu() -> bool:
    return Path("/dev/nvidiactl").exists()
