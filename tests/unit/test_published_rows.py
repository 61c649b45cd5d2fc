"""Rows that SpecForge publishes, through comparison and verdict: the choice is what they support.

A row is one number for a whole benchmark, so twelve requests stand in for it, all with its output
rate: intervals have no width, and only the choice is looked at. Trees (topk above 1) are left out,
vLLM drafts chains.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sweeper.judge.judgement import judge
from sweeper.values import Load, RequestRecord
from tests.unit.sweeps import CHAT, Made, folder, point, record

TOKENS = 500
NAME = "specforge_data.json"


def rows() -> dict[str, dict[str, Any]]:
    home = os.environ.get("SWEEPER_TEST_DATA")
    if not home or not (Path(home) / NAME).is_file():
        pytest.skip(f"SWEEPER_TEST_DATA has no {NAME}: published rows are not part of the project")
    found = json.loads((Path(home) / NAME).read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def answered(rate: float) -> tuple[RequestRecord, ...]:
    return tuple(record(f"p{n}", seconds=TOKENS / rate, tokens=TOKENS) for n in range(12))


def made(results: list[dict[str, Any]], **conditions: Any) -> tuple[list[Made], dict[int, float]]:
    """The baseline, then the last listed draft of every chain; and its rates by steps."""
    rates = {r["steps"]: r["metrics"][-1]["output_throughput"] for r in results if r["topk"] == 1}
    base = results[0]["metrics"][0]["output_throughput"]
    points = [Made(point=point("none", 0, **conditions), records=answered(base))]
    for steps, rate in sorted(rates.items()):
        points.append(Made(point=point("eagle3", steps, **conditions), records=answered(rate)))
    return points, {0: base, **rates}


def test_the_steps_that_their_own_numbers_support_are_recommended(tmp_path: Path) -> None:
    judged = 0
    for model, benchmarks in rows().items():
        for name, one in benchmarks.items():
            load = Load(name="closed", concurrency=one["results"][0]["batch_size"])
            dataset = replace(CHAT, name=name, digest=name)
            points, rates = made(one["results"], dataset=dataset, load=load, target=model)
            (workload,) = judge(folder(tmp_path / f"{judged}", *points)).workloads
            fastest = max(rates, key=lambda steps: rates[steps])
            if rates[fastest] / rates[0] > 1.05:
                assert workload.verdict == "deploy", (model, name)
                assert workload.recommended is not None
                assert workload.recommended.point.gamma == fastest, (model, name)
                assert workload.recommendation is not None
                config = workload.recommendation.speculative_config
                assert config["num_speculative_tokens"] == fastest
                assert f'"num_speculative_tokens": {fastest}' in workload.command
                assert workload.speedup.value == pytest.approx(rates[fastest] / rates[0])
            else:
                assert workload.verdict == "don't", (model, name)
            judged += 1
    assert judged == 60


def test_their_best_number_of_steps_differs_by_benchmark() -> None:
    """What they publish for one model, and the reason why one γ for all is a compromise."""
    found = {}
    for name in ("math500", "gsm8k", "financeqa"):
        _, rates = made(rows()["Llama-3.1-8B-Instruct"][name]["results"])
        found[name] = max(rates, key=lambda steps: rates[steps])
    assert found == {"math500": 7, "gsm8k": 5, "financeqa": 3}
