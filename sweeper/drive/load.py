"""How requests are sent: today one at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

import aiohttp

from sweeper.drive.client import send
from sweeper.drive.requests import Request
from sweeper.values import Load, RequestRecord


def run_load(
    base_url: str,
    api_key: str,
    model: str,
    requests: Iterable[Request],
    load: Load,
    on_record: Callable[[RequestRecord], None],
) -> None:
    """Send ``requests`` one after another; ``on_record`` is done before the next one is sent.

    Whatever ``on_record`` raises ends the load.
    """
    asyncio.run(_sequential(base_url, api_key, model, requests, load, on_record))


async def _sequential(
    base_url: str,
    api_key: str,
    model: str,
    requests: Iterable[Request],
    load: Load,
    on_record: Callable[[RequestRecord], None],
) -> None:
    headers = {"Content-Type": "application/json"}
    if api_key:
        headers["Authorization"] = f"Bearer {api_key}"
    async with aiohttp.ClientSession(
        base_url,
        headers=headers,
        timeout=aiohttp.ClientTimeout(total=load.request_timeout_s),
        # Every request on a connection of its own: a server may close an idle one at any time.
        connector=aiohttp.TCPConnector(force_close=True),
    ) as http:
        origin = time.perf_counter_ns()
        for request in requests:
            on_record(await send(http, model, request, origin))
