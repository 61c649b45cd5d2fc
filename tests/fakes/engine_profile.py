"""vLLM's two profiling endpoints; the trace is one that a real server wrote, cut to its ranges."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Handler

from tests.fakes.engine_flags import FAULTS

RECORDED = Path(__file__).with_name("recorded.pt.trace.json.gz")


class Profiling:
    """There only where ``--profiler-config`` names the profiler, as with vLLM."""

    def __init__(self, config: str) -> None:
        self.home = Path(json.loads(config)["torch_profiler_dir"])
        self.running = False

    def add_to(self, app: web.Application) -> None:
        if FAULTS.get("profiled_for_ever"):
            app.middlewares.append(self.silent)
        app.router.add_post("/start_profile", self.start)
        app.router.add_post("/stop_profile", self.stop)

    @web.middleware
    async def silent(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self.running:
            await asyncio.Event().wait()
        return await handler(request)

    async def start(self, _: web.Request) -> web.Response:
        self.running = True
        print("a profile has begun", flush=True)
        return web.Response()

    async def stop(self, _: web.Request) -> web.Response:
        if self.running:
            self.home.mkdir(parents=True, exist_ok=True)
            name = f"rank0.{time.time_ns()}.pt.trace.json.gz"
            shutil.copy(RECORDED, self.home / name)
            (self.home / "rank0.profiler_out.txt").write_text("a table\n")
        self.running = False
        return web.Response()
