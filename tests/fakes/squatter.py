"""Somebody else's server on our port: 200 on /health, and a model that nobody asked for.

python tests/fakes/squatter.py PORT [HOST]
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CARD = {"id": "not-yours", "object": "model", "owned_by": "somebody", "root": "/models/not-yours"}


class Squatter(BaseHTTPRequestHandler):
    """Answers every path; completions with a text that is not ours."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        models = {"object": "list", "data": [CARD | {"max_model_len": 4096}]}
        self.reply(models if self.path.startswith("/v1/models") else {})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        choice = {"index": 0, "text": "no", "message": {"role": "assistant", "content": "no"}}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        self.reply({"model": CARD["id"], "choices": [choice], "usage": usage})

    def reply(self, data: object) -> None:
        body = json.dumps(data).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


if __name__ == "__main__":
    host = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1"
    ThreadingHTTPServer((host, int(sys.argv[1])), Squatter).serve_forever()
