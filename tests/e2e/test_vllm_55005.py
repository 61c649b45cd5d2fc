"""The defect of vLLM's CPU build at temperatures above 0, and the work-around, on real servers."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from sweeper.measure.counters import parse
from sweeper.serve.installed import installed
from sweeper.serve.session import serve
from sweeper.store import ServerFolder
from sweeper.values import Json, ServerSpec

CACHE = Path(os.environ.get("SWEEPER_CACHE", Path.home() / ".cache" / "sweeper"))
MODEL = CACHE / "smollm2-135m-instruct"
PYTHON = os.environ.get("SWEEPER_TEST_SERVER_PYTHON", sys.executable)
"""Another environment's Python, to try the same with another vLLM."""
REPETITIVE = "The same line comes again and again.\n" * 12
CALM = {"temperature": 0.01, "seed": 7, "max_tokens": 48}
"""So cold that only the most probable token is drawn: what greedy would accept is accepted."""

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not MODEL.is_dir(), reason=f"{MODEL} is not there: make setup"),
]


def ngram(workarounds: tuple[str, ...]) -> ServerSpec:
    return ServerSpec(
        kind="vllm",
        command=(PYTHON, "-m", "vllm.entrypoints.openai.api_server"),
        model=str(MODEL),
        speculative_config='{"method": "ngram", "num_speculative_tokens": 4, '
        '"prompt_lookup_max": 4, "prompt_lookup_min": 2}',
        args=("--enforce-eager", "--max-model-len", "1024"),
        env=(("VLLM_CPU_KVCACHE_SPACE", "1"),),
        workarounds=workarounds,
    )


def probe(tmp_path: Path, workarounds: tuple[str, ...]) -> tuple[float, float, list[str]]:
    """Drafted and accepted tokens of one prompt asked twice at T = 0.01, and both answers."""
    with serve(ngram(workarounds), ServerFolder(tmp_path)) as session:
        before = parse(session.endpoint.metrics() or "")
        texts = [
            _text(session.endpoint.complete({"prompt": REPETITIVE} | CALM, 120.0)) for _ in range(2)
        ]
        change = parse(session.endpoint.metrics() or "").since(before)
    assert change is not None and change.drafted is not None and change.accepted is not None
    print(f"workarounds={workarounds} D={change.drafted:g} A={change.accepted:g} {texts[0][:60]!r}")
    return change.drafted, change.accepted, texts


def _text(answer: Json) -> str:
    return str(answer["choices"][0]["text"])


@pytest.fixture(autouse=True)
def cpu_without_triton() -> None:
    here = installed((PYTHON,))
    if here is None or not here.cpu or here.triton_cpu:
        pytest.skip("this vLLM does not have the defect: it is not a CPU build without Triton")


def test_without_it_drafts_are_rejected_and_the_text_is_noise(tmp_path: Path) -> None:
    drafted, accepted, texts = probe(tmp_path, ())
    assert drafted > 0
    assert accepted / drafted < 0.5
    assert not all("The same line comes again and again." in text for text in texts)
    assert not (tmp_path / "plugins").exists()


def test_with_it_what_repeats_is_accepted(tmp_path: Path) -> None:
    drafted, accepted, texts = probe(tmp_path, ("vllm-55005",))
    assert drafted > 0
    assert accepted / drafted > 0.9
    assert texts[0] == texts[1]
    assert "The same line comes again and again." in texts[0]
    assert "work-around vllm-55005 in force" in (tmp_path / "server.log").read_text()
