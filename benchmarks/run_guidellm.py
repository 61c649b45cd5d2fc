"""The same closed load by GuideLLM; prints JSON for ``benchmarks.client``.

``GUIDELLM`` names its command, which lives in an environment of its own. It runs in several
processes and imports for seconds, so it is run twice, with few requests and with all of them, and
what is printed is the difference.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory


def run(url: str, streams: int, count: int, tokens: int, folder: Path) -> tuple[float, float, int]:
    """CPU seconds of all its processes, wall seconds, requests that did not succeed."""
    prompts, out = folder / "prompts.jsonl", folder / "out.json"
    rows = ({"prompt": f"prompt {n}", "output_tokens_count": tokens} for n in range(count))
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    backend = f"kind=openai_http,target={url},model=model,request_format=/v1/completions"
    command = [
        *(os.environ["GUIDELLM"], "run", "--disable-console"),
        *("--backend", f"{backend},max_tokens={tokens},validate_backend=false,http2=false"),
        *("--profile", f"kind=concurrent,streams={streams}"),
        *("--constraint", f"kind=max_requests,count={count}"),
        *("--data", f"kind=json_file,path={prompts}"),
        *("--output", f"kind=json,path={out}"),
    ]
    before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wall = time.perf_counter() - wall
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit((done.stderr or done.stdout)[-2000:])
    totals = json.loads(out.read_text())["benchmarks"][0]["metrics"]["request_totals"]
    used = sum(getattr(after, n) - getattr(before, n) for n in ("ru_utime", "ru_stime"))
    return used, wall, count - int(totals["successful"])


def main() -> None:
    url, streams, count, tokens = sys.argv[1], *map(int, sys.argv[2:5])
    with TemporaryDirectory() as folder:
        few = run(url, streams, streams, tokens, Path(folder))
        most = run(url, streams, streams + count, tokens, Path(folder))
    cpu_s, wall_s = (m - f for m, f in zip(most[:2], few[:2], strict=True))
    print(json.dumps({"cpu_s": cpu_s, "wall_s": wall_s, "failed": most[2], "times": {}}))


if __name__ == "__main__":
    main()
