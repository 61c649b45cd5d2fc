"""The HTTP of ``engine.py``: vLLM 0.32's paths, bodies and errors."""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import Any

from aiohttp import web

from tests.fakes import engine_core as core
from tests.fakes import engine_rollout
from tests.fakes.engine_company import held
from tests.fakes.engine_core import Job
from tests.fakes.engine_flags import FAULTS, INVALID, describe, fatal, hit, resolve
from tests.fakes.engine_profile import Profiling

DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."
Body = dict[str, Any]


class Refused(Exception):
    """A request is answered with this status and ``{"error": ...}`` body."""

    def __init__(self, code: int, message: str, kind: str = "BadRequestError") -> None:
        super().__init__(message)
        self.code = code
        self.body = {"error": {"message": message, "type": kind, "param": None, "code": code}}


def said(message: Body) -> str:
    """The text of a message, its parts joined, and its tool calls."""
    content = message.get("content") or ""
    text = content if isinstance(content, str) else "\n".join(part["text"] for part in content)
    return text + "".join(json.dumps(call) for call in message.get("tool_calls") or ())


@web.middleware
async def guard(request: web.Request, handler: Callable[..., Any]) -> web.StreamResponse:
    """The API key on /v1 only, and errors as vLLM words them."""
    key, sent = os.environ.get("VLLM_API_KEY"), request.headers.get("Authorization")
    if key and request.path.startswith("/v1") and sent != f"Bearer {key}":
        return web.json_response({"error": "Unauthorized"}, status=401)
    try:
        response: web.StreamResponse = await handler(request)
    except Refused as refused:
        return web.json_response(refused.body, status=refused.code)
    return response


class Server:
    """The handlers."""

    def __init__(self, args: argparse.Namespace, flags: Body) -> None:
        self.args, self.flags, self.spec = args, flags, resolve(args.speculative_config)
        self.detail = args.per_request_spec_decode_metrics
        if self.detail != "none" and self.spec is None:
            reason = "--per-request-spec-decode-metrics requires speculative decoding to be enabled"
            raise fatal(f"{INVALID} VllmConfig\n  Value error, {reason}")
        self.name = args.served_model_name or args.model
        self.core = core.Core(args.model, self.spec, args.max_num_seqs, args.fake_step_ms / 1000)
        if "no_enable_prefix_caching" in flags:
            self.core.seen = None
        self.requests, self.started, self.dead = 0, time.time(), False

    def app(self) -> web.Application:
        app = web.Application(middlewares=[guard], client_max_size=2**26)
        app.router.add_get("/health", self.health)
        app.router.add_get("/version", self.version)
        app.router.add_get("/metrics", self.metrics)
        app.router.add_get("/v1/models", self.models)
        app.router.add_post("/tokenize", self.tokenize)
        app.router.add_post("/v1/chat/completions", self.complete)
        app.router.add_post("/v1/completions", self.complete)
        if config := self.flags.get("profiler_config"):
            Profiling(config).add_to(app)
        if os.environ.get("VLLM_SERVER_DEV_MODE") == "1":
            app.router.add_get("/server_info", self.server_info)
            app.router.add_post("/reset_prefix_cache", self.reset_prefix_cache)
        return app

    async def health(self, _: web.Request) -> web.Response:
        if self.dead:
            self.end_soon()
        return web.Response(status=503 if self.dead else 200)

    async def version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": "0.32.0"})

    async def models(self, _: web.Request) -> web.Response:
        name = FAULTS.get("wrong_model_name", self.name)
        card = {"id": name, "object": "model", "owned_by": "vllm", "root": self.args.model}
        card |= {"max_model_len": self.args.max_model_len, "created": int(self.started)}
        return web.json_response({"object": "list", "data": [card]})

    async def tokenize(self, request: web.Request) -> web.Response:
        body = await request.json()
        text = body.get("prompt") or "".join(map(said, body["messages"]))
        tokens = core.ids(core.pieces(text))
        return web.json_response({"tokens": tokens, "count": len(tokens)})

    async def reset_prefix_cache(self, _: web.Request) -> web.Response:
        if self.core.seen is not None and not self.core.company.running:
            self.core.seen.clear()
        return web.json_response({"success": not self.core.company.running})

    async def metrics(self, _: web.Request) -> web.Response:
        self.core.company.readings += 1
        lines = [f"process_start_time_seconds {self.started}"]
        for name, more, value in self.core.samples():
            labels = f'{{engine="0",model_name="{self.name}"{more}}}'
            lines.append(f"vllm:{name}{labels} {float(value)}")
            if name.endswith("_total"):
                lines.append(f"vllm:{name.removesuffix('_total')}_created{labels} {self.started}")
        self.core.company.look()
        lines.append(f"fake:most_requests_running {self.core.company.most}")
        return web.Response(text="\n".join(lines) + "\n")

    async def server_info(self, request: web.Request) -> web.Response:
        config: Any = describe(self.args, self.flags, self.spec)
        if request.query.get("config_format", "text") == "text":
            config = f"model={self.args.model!r}, dtype={config['model_config']['dtype']}"
        env = {k: v for k, v in os.environ.items() if k.startswith("VLLM_") and "KEY" not in k}
        return web.json_response({"vllm_config": config, "vllm_env": env, "system_env": {}})

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """Both completion endpoints, streamed or not."""
        self.requests += 1
        number, share = self.requests, FAULTS.get("http_503_share", 0.0)
        if hit("die_after_requests", number) and not self.dead:
            self.die()
        if self.dead:
            raise Refused(500, DEAD, "InternalServerError")
        await held(number, FAULTS.get("held_after_requests", ()))
        if hit("hang_after_requests", number):
            await asyncio.Event().wait()
        asked = max(0, number - FAULTS.get("http_503_after", 0))
        if int(asked * share) > int((asked - 1) * share):
            raise Refused(503, "The server is overloaded.", "ServiceUnavailableError")
        body = await request.json()
        if engine_rollout.is_batch(body):
            found = await engine_rollout.batch(self.core, self.admit, body, number)
            return web.json_response(found | {"model": self.name})
        job = self.admit(body, request.path.endswith("/chat/completions"), number)
        job.answers = body.get("n") or 1
        job.reported = job.reported and job.answers == 1  # as vLLM's
        if job.body.get("stream"):
            return await self.stream(request, job)
        return await self.whole(request, job)

    def die(self) -> None:
        """vLLM after its engine's death: 500 to clients, 503 on /health, exit status 0 soon."""
        self.dead = True
        print("vllm.v1.engine.exceptions.EngineDeadError:", DEAD, flush=True)
        if not FAULTS.get("dead_until_seen"):
            self.end_soon()

    def end_soon(self) -> None:
        asyncio.get_running_loop().call_later(0.3, os._exit, 0)

    def admit(self, body: Body, chat: bool, number: int) -> Job:
        """Decide the whole answer of a request, or refuse it."""
        if body.get("model") not in (None, self.name):
            raise Refused(404, f"The model `{body['model']}` does not exist.", "NotFoundError")
        if self.spec and ((body.get("min_p") or 0) > 1e-5 or body.get("logit_bias")):
            reason = "The min_p and logit_bias sampling parameters are not yet supported"
            raise Refused(400, f"{reason} with speculative decoding.")
        prompt = body.get("prompt")
        prompt = " ".join(map(str, prompt)) if isinstance(prompt, list) else str(prompt)
        if chat:
            prompt = "".join(f"<|{m['role']}|> {said(m)}\n" for m in body["messages"])
        size, room = len(core.pieces(prompt)), self.args.max_model_len
        limit = body.get("max_completion_tokens") or body.get("max_tokens")
        limit = limit or (room - size if chat else 16)
        if size + limit > room or limit < 1:
            reason = f"This model's maximum context length is {room} tokens."
            raise Refused(400, f"{reason} However, you requested {size} + {limit} tokens.")
        seeded = body.get("seed") is not None and (body.get("temperature") or 0) > 0
        if seeded and size * (body.get("n") or 1) > FAULTS.get("seeded_parts_kill", math.inf):
            self.die()
            raise Refused(500, DEAD, "InternalServerError")
        tokens, end = core.write(self.args.model, prompt, body, limit, self.spec)
        stop = core.cut_at_stop(tokens, body.get("stop"))
        return Job(
            number=number,
            chat=chat,
            body=body,
            prompt=prompt,
            tokens=stop[0] if stop else tokens,
            text=stop[1] if stop else "".join(tokens),
            reason="stop" if stop else end,
            reported=self.detail != "none" and not stop and not hit("no_spec_metrics", number),
        )

    def envelope(self, job: Job, kind: str) -> Body:
        letter = "chatcmpl" if job.chat else "cmpl"
        found = {"id": f"{letter}-{job.number}", "object": kind, "created": int(time.time())}
        return found | {"model": self.name}

    def usage(self, job: Job) -> Body | None:
        if hit("no_usage", job.number):
            return None
        prompt, answer = len(core.pieces(job.prompt)), len(job.tokens)
        found: Body = {"prompt_tokens": prompt, "completion_tokens": answer}
        details = "enable_prompt_tokens_details" in self.flags
        return found | {
            "total_tokens": prompt + answer,
            "prompt_tokens_details": {"cached_tokens": job.cached} if details else None,
        }

    def spec_metrics(self, job: Job) -> Body | None:
        found = self.core.report(job, self.detail == "detailed")
        times = job.times_ms if "enable_per_request_metrics" in self.flags else {}
        return {**times, "speculative_decoding": found} if times or found else None

    async def whole(self, request: web.Request, job: Job) -> web.Response:
        done = 0
        async with aclosing(self.core.run(job)) as running:
            async for tokens in running:
                done += len(tokens)
                if 2 * done >= len(job.tokens):
                    self.interrupt(request, job)
        choice: Body = {"index": 0, "finish_reason": job.reason, "stop_reason": None}
        wanted = job.body.get("return_token_ids")
        prompt_ids = core.ids(core.pieces(job.prompt)) if wanted else None
        choice["token_ids"] = core.ids(job.tokens) if wanted else None
        choice |= self.logprobs(job)
        if job.chat:
            choice["message"] = {"role": "assistant", "content": job.text}
        else:
            choice |= {"text": job.text, "prompt_token_ids": prompt_ids}
            if job.body.get("prompt_logprobs") in (0, 1):
                choice["prompt_logprobs"] = engine_rollout.prompt_logprobs(job.body["prompt"])
        found = self.envelope(job, "chat.completion" if job.chat else "text_completion")
        choices = [choice, *self.others(job)]
        found |= {"choices": choices, "usage": self.usage(job), "metrics": self.spec_metrics(job)}
        return web.json_response(found | ({"prompt_token_ids": prompt_ids} if job.chat else {}))

    def others(self, job: Job) -> list[Body]:
        """Further answers of one request (``n``): tokens from one distribution for all servers,
        unless ``wrong_text_share`` says that speculation draws from another."""
        dice = random.Random(f"{job.prompt}{job.body.get('seed')}{self.spec}")
        wrong = FAULTS.get("wrong_text_share", 0.0) if self.spec else 0.0
        ids = [
            [
                dice.choice((7, 8)) if dice.random() < wrong else dice.choice((1, 2, 3))
                for _ in range(4)
            ]
            for _ in range((job.body.get("n") or 1) - 1)
        ]
        return [{"index": n, "token_ids": one, "text": ""} for n, one in enumerate(ids, start=1)]

    def logprobs(self, job: Job) -> Body:
        """Every token is likely and leads the next by 2.4 nats, in the answer and the prompt."""
        if (job.body.get("prompt_logprobs") or 0) > 1:
            given = job.body["prompt"]
            at = [{str(t): {"logprob": p} for t, p in core.likely(i)} for i in given[1:]]
            return {"prompt_logprobs": [None, *at]}
        if not job.body.get("logprobs"):
            return {}
        tops = [
            [{"token": f"token_id:{t}", "logprob": p} for t, p in core.likely(i)]
            for i in core.ids(job.tokens)
        ]
        if job.chat:
            return {"logprobs": {"content": [top[0] | {"top_logprobs": top} for top in tops]}}
        return {
            "logprobs": {"top_logprobs": [{t["token"]: t["logprob"] for t in top} for top in tops]}
        }

    def interrupt(self, request: web.Request, job: Job) -> None:
        """The faults in the middle of an answer."""
        if hit("reset_mid_stream", job.number) and request.transport:
            request.transport.abort()
            raise ConnectionResetError
        if hit("in_stream_error", job.number):
            raise Refused(500, DEAD, "InternalServerError")

    async def stream(self, request: web.Request, job: Job) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)

        async def send(data: str) -> None:
            await response.write(f"data: {data}\n\n".encode())

        with suppress(ConnectionResetError):
            try:
                async with aclosing(self.chunks(request, job)) as chunks:
                    async for chunk in chunks:
                        await send(json.dumps(chunk))
            except Refused as refused:
                await send(json.dumps(refused.body))
            await send("[DONE]")
        return response

    async def chunks(self, request: web.Request, job: Job) -> AsyncGenerator[Body, None]:
        """The events of a streamed answer: role, one a step, and usage when asked for."""
        base = self.envelope(job, "chat.completion.chunk" if job.chat else "text_completion")
        wanted, done, shown = bool(job.body.get("return_token_ids")), 0, 0
        prompt_ids = {"prompt_token_ids": core.ids(core.pieces(job.prompt))} if wanted else {}
        async with aclosing(self.core.run(job)) as running:
            async for tokens in running:
                if job.chat and not done:
                    role: Body = {"index": 0, "delta": {"role": "assistant", "content": ""}}
                    yield base | {"choices": [role | {"finish_reason": None}]} | prompt_ids
                first, done = not done, done + len(tokens)
                text = job.text[shown : shown + len("".join(tokens))]
                shown += len(text)
                ended = done >= len(job.tokens)
                choice: Body = {"index": 0, "finish_reason": job.reason if ended else None}
                choice |= {"delta": {"content": text}} if job.chat else {"text": text}
                choice |= {"token_ids": core.ids(tokens)} if wanted else {}
                choice |= prompt_ids if first and not job.chat else {}
                yield base | {"choices": [choice]}
                if 2 * done >= len(job.tokens):
                    self.interrupt(request, job)
        if (job.body.get("stream_options") or {}).get("include_usage"):
            yield base | {"choices": []} | self.ending(job)

    def ending(self, job: Job) -> Body:
        """Usage and metrics of the last event, without what is null."""
        usage, metrics = self.usage(job), self.spec_metrics(job)
        usage = usage and {key: value for key, value in usage.items() if value is not None}
        found = {"usage": usage, "metrics": metrics}
        return {key: value for key, value in found.items() if value is not None}
