"""The distribution test on real servers: equal ones pass, wrong samplers are caught.

Run by hand: ``pytest -m long tests/e2e/test_vllm_sampling.py -s`` prints every p-value.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sweeper.judge.distribution import ALPHA, Sampled, sampled
from sweeper.measure.sampling import draw
from sweeper.scores import Check, Samples
from sweeper.serve.installed import installed
from sweeper.serve.session import serve
from sweeper.store import PointFolder, ServerFolder
from sweeper.values import Point, Sampling, ServerSpec
from tests.unit.sweeps import GREEDY, point

CACHE = Path(os.environ.get("SWEEPER_CACHE", Path.home() / ".cache" / "sweeper"))
MODEL = CACHE / "smollm2-135m-instruct"
WARM: Sampling = replace(GREEDY, name="t07_p09", temperature=0.7, top_p=0.9)
CHECK = Check(name="output", samples=64, tokens=8, texts=4)
NGRAM = (
    '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4, '
    '"prompt_lookup_min": 2}'
)
WRONG = '''
import torch


def register():
    """Every draft token is accepted, whatever its probability."""
    from vllm.utils import cpu_triton_utils as kernels

    right = kernels._rejection_random_sample_kernel_impl

    def wrong(*args, **kwargs):
        args = list(args)
        args[7] = torch.full_like(args[7], -1.0)  # uniform_probs: below every ratio
        return right(*args, **kwargs)

    kernels._rejection_random_sample_kernel_impl = wrong
    print("test: every draft is accepted", flush=True)
'''

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.long,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not MODEL.is_dir(), reason=f"{MODEL} is not there: make setup"),
]


@pytest.fixture(autouse=True)
def cpu_without_triton() -> None:
    here = installed((sys.executable,))
    if here is None or not here.cpu or here.triton_cpu:
        pytest.skip("this vLLM does not have the defect: it is not a CPU build without Triton")


def server(speculative: str, **more: object) -> ServerSpec:
    made = ServerSpec(
        kind="vllm",
        command=(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
        model=str(MODEL),
        speculative_config=speculative,
        args=("--enforce-eager", "--max-model-len", "1024"),
        env=(("VLLM_CPU_KVCACHE_SPACE", "1"),),
    )
    return replace(made, **more)  # type: ignore[arg-type]


def drawn(spec: ServerSpec, folder: Path, *points: Point) -> list[Samples]:
    """What one server samples, once for every point: their seeds differ."""
    found = []
    folder.mkdir()
    with serve(spec, ServerFolder(folder)) as session:
        for number, one in enumerate(points):
            home = PointFolder(folder / f"point-{number}")
            found.append(draw(session, replace(one, sampling=WARM), home, CHECK))
    return found


def planted(folder: Path) -> tuple[tuple[str, str], ...]:
    """A plugin that is no work-around, before the server's Python."""
    about = folder / "wrong_sampler-0.dist-info"
    about.mkdir(parents=True)
    (folder / "wrong_sampler.py").write_text(WRONG)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: wrong-sampler\nVersion: 0\n")
    (about / "entry_points.txt").write_text(
        "[vllm.general_plugins]\nwrong-sampler = wrong_sampler:register\n"
    )
    return (("VLLM_CPU_KVCACHE_SPACE", "1"), ("PYTHONPATH", str(folder)))


def said(name: str, found: Sampled) -> Sampled:
    print(f"{name}: {found.state}: {found.sentence}")
    return found


def test_equal_servers_pass_and_wrong_samplers_are_caught(tmp_path: Path) -> None:
    base = point("none", 0)
    baselines = [replace(base, repeats=n) for n in range(1, 7)]
    first, *others = drawn(server(""), tmp_path / "none", *baselines)
    again = [said("baseline again", sampled(first, o, seed=0)) for o in others]
    assert all(one.state == "right" for one in again)

    fixed = server(NGRAM, workarounds=("vllm-55005",))
    points = [replace(point("ngram", 4), repeats=n) for n in range(1, 4)]
    for right in drawn(fixed, tmp_path / "fixed", *points):
        assert right.drafted
        assert said("work-around", sampled(first, right, seed=0)).state == "right"

    # As vLLM is. The plan refuses this point; the test must not need that.
    (broken,) = drawn(server(NGRAM), tmp_path / "broken", point("ngram", 4))
    found = said("vllm#55005", sampled(first, broken, seed=0))
    assert found.state == "wrong"
    assert found.p_value.value is not None and found.p_value.value <= ALPHA

    lenient = replace(fixed, env=planted(tmp_path / "plugins"))
    (wrong,) = drawn(lenient, tmp_path / "lenient", point("ngram", 4))
    log = (tmp_path / "lenient" / "server.log").read_text()
    assert "test: every draft is accepted" in log
    assert said("every draft accepted", sampled(first, wrong, seed=0)).state == "wrong"
