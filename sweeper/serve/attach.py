"""Attaching to a server that somebody else runs: nothing is started, nothing is stopped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from sweeper import store
from sweeper.errors import RequestError, ServerError
from sweeper.serve.endpoint import Endpoint
from sweeper.serve.identity import check_counters, check_speculation, unverified
from sweeper.serve.running import Session, rollout_api
from sweeper.store import ServerFolder
from sweeper.values import ServerSpec


@contextmanager
def attached(spec: ServerSpec, folder: ServerFolder) -> Iterator[Session]:
    """Yield when the server has said what it serves and how.

    :raises ServerError: nothing answers, or it runs something else than was asked for.
    """
    url = (spec.base_url or "").rstrip("/").removesuffix("/v1")
    key = os.environ.get(spec.api_key_env, "") if spec.api_key_env else ""
    with Endpoint(url, key) as endpoint:
        try:
            models = endpoint.models()
        except RequestError as problem:
            raise ServerError(f"no server answers at {url}: {problem}") from None
        if not models:
            raise ServerError(f"{url} serves no model")
        endpoint.model = str(models[0]["id"])
        info = endpoint.server_info()
        session = Session(
            spec=spec,
            endpoint=endpoint,
            folder=folder,
            process=None,
            start_s=0.0,
            info=info,
            version=endpoint.version(),
        )
        session.api = rollout_api(info)
        check_speculation(spec, info)
        if info is None and (left := check_counters(spec, endpoint.metrics())):
            session.notes.append(left)
        session.notes += unverified(spec, models[0], info)
        store.write_json(
            folder.info,
            {
                "attached": url,
                "model": endpoint.model,
                "version": session.version,
                "server_info": info,
            },
        )
        yield session
