"""The control plane of a server: identity, counters, caches. Timed requests go through drive."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import httpx

from sweeper.errors import RequestError
from sweeper.values import Json


@dataclass(slots=True)
class Endpoint:
    """Where a server answers; ``api_key`` never shows in a repr. Close it before the server."""

    base_url: str
    api_key: str = field(repr=False)
    model: str = ""
    _client: httpx.Client = field(init=False, repr=False)

    def __post_init__(self) -> None:
        headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        local = httpx.URL(self.base_url).host in ("127.0.0.1", "localhost", "::1")
        # A proxy named in the environment is not for this machine's own servers.
        self._client = httpx.Client(
            base_url=self.base_url, headers=headers, timeout=10.0, trust_env=not local
        )

    def __enter__(self) -> Self:
        return self

    def close(self) -> None:
        """Let go of the server; a second time does nothing."""
        self._client.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def models(self) -> list[dict[str, Json]]:
        """The entries of ``/v1/models``."""
        return list(self._call("GET", "/v1/models").json().get("data", []))

    def server_info(self) -> Json | None:
        """``/server_info`` as JSON; ``None`` where the server does not offer it.

        The server looks at its whole environment for it, which takes long on a busy machine.
        """
        return self._optional("/server_info?config_format=json", timeout_s=60.0)

    def version(self) -> str | None:
        """The server's own version, ``None`` where it does not say."""
        answer = self._optional("/version")
        return answer.get("version") if isinstance(answer, dict) else None

    def metrics(self) -> str | None:
        """The Prometheus text of ``/metrics``; ``None`` where there is none."""
        try:
            return self._call("GET", "/metrics").text
        except RequestError:
            return None

    def reset_prefix_cache(self) -> bool:
        """Whether the server says that its prefix cache is empty now."""
        try:
            answer = self._call("POST", "/reset_prefix_cache")
        except RequestError:
            return False
        return not answer.content or answer.json().get("success", True) is True

    def start_profile(self) -> None:
        """Have a server that was started with its profiler record from now on.

        :raises RequestError: with the server's own message, as :meth:`stop_profile` does.
        """
        self._call("POST", "/start_profile", timeout_s=60.0)

    def stop_profile(self, timeout_s: float) -> None:
        """End the recording; the trace is on disk when this returns."""
        self._call("POST", "/stop_profile", timeout_s=timeout_s)

    def complete(
        self, body: dict[str, Json], timeout_s: float, path: str = "/v1/completions"
    ) -> Json:
        """One untimed request; the model's name is filled in.

        :raises RequestError: with the server's own message.
        """
        return self._call("POST", path, {"model": self.model} | body, timeout_s).json()

    def tokenize(self, body: dict[str, Json]) -> tuple[int, ...]:
        """Token ids of ``{"prompt": …}`` or of ``{"messages": …}`` in the chat template.

        :raises RequestError: with the server's own message.
        """
        own = {"model": self.model} | (
            {"add_generation_prompt": True} if "messages" in body else {}
        )
        return tuple(self._call("POST", "/tokenize", own | body).json()["tokens"])

    def _optional(self, path: str, timeout_s: float = 10.0) -> Json | None:
        try:
            return self._call("GET", path, timeout_s=timeout_s).json()
        except (RequestError, ValueError):
            return None

    def _call(
        self, verb: str, path: str, body: Json = None, timeout_s: float = 10.0
    ) -> httpx.Response:
        try:
            answer = self._client.request(
                verb, path, json=body, timeout=timeout_s, follow_redirects=True
            )
        except httpx.HTTPError as problem:
            raise RequestError(f"{verb} {path}: {problem or type(problem).__name__}") from None
        if answer.status_code != 200:
            raise RequestError(f"{verb} {path}: HTTP {answer.status_code}: {answer.text[:300]}")
        return answer
