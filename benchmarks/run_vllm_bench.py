"""The same closed load by ``vllm bench serve``; prints JSON for ``benchmarks.client``.

Its own ``main`` runs, with prompts handed over in place of a dataset (no tokenizer is needed), and
the CPU time of its ``benchmark`` coroutine is taken: imports do not count.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from vllm.benchmarks import serve
from vllm.utils.argparse_utils import FlexibleArgumentParser

FLAGS = (
    *("--backend", "openai", "--endpoint", "/v1/completions", "--model", "model"),
    *("--dataset-name", "custom", "--skip-tokenizer-init", "--disable-tqdm", "--temperature", "0"),
    *("--save-result", "--save-detailed", "--result-filename", "result.json"),
)


def main() -> None:
    url, streams, count, tokens = sys.argv[1], *map(int, sys.argv[2:5])
    prompts = [f"prompt {n}" for n in range(count)]
    used: dict[str, float] = {}
    original = serve.benchmark

    async def timed(**given: Any) -> Any:
        began, wall = time.process_time(), time.perf_counter()
        result = await original(**given)
        used.update(cpu_s=time.process_time() - began, wall_s=time.perf_counter() - wall)
        return result

    serve.benchmark = timed
    serve.get_samples = lambda *_: [
        serve.SampleRequest(prompt=p, prompt_len=5, expected_output_len=tokens) for p in prompts
    ]
    parser = FlexibleArgumentParser()
    serve.add_cli_args(parser)
    with TemporaryDirectory() as folder, redirect_stdout(sys.stderr):
        place = ("--base-url", url, "--result-dir", folder)
        amount = ("--num-prompts", str(count), "--max-concurrency", str(streams))
        serve.main(parser.parse_args([*FLAGS, *place, *amount]))
        found = json.loads((Path(folder) / "result.json").read_text())
    rows = zip(prompts, found["ttfts"], found["itls"], found["output_lens"], strict=True)
    times = {p: (first * 1e9, sum(gaps) / max(1, n - 1) * 1e9) for p, first, gaps, n in rows}
    written = sum(found["output_lens"])
    print(json.dumps(used | {"failed": found["failed"], "times": times, "tokens": written}))


if __name__ == "__main__":
    main()
