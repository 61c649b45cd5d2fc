"""The distribution test on real servers: equal ones pass, wrong samplers are caught.

Run by hand: ``pytest -m long tests/e2e/test_vllm_sampling.py -s`` prints every p-value.
"""

from __future__ import annotations

import os
import random
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from sweeper.judge.distribution import ALPHA, Sampled, p_value, sampled
from sweeper.measure.sampling import draw
from sweeper.scores import Check, Samples
from sweeper.serve.installed import installed
from sweeper.serve.session import serve
from sweeper.store import PointFolder, ServerFolder
from sweeper.values import Point, Sampling, ServerSpec
from tests.e2e.planted import EVERY_DRAFT_SAMPLED, SAID, planted
from tests.unit.sweeps import GREEDY, point

CACHE = Path(os.environ.get("SWEEPER_CACHE", Path.home() / ".cache" / "sweeper"))
MODEL = CACHE / "smollm2-135m-instruct"
WARM: Sampling = replace(GREEDY, name="t07_p09", temperature=0.7, top_p=0.9)
CHECK = Check(name="output", samples=64, tokens=8, texts=4)
NGRAM = (
    '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4, '
    '"prompt_lookup_min": 2}'
)
FIXED = ("vllm-55005",)

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.long,
    pytest.mark.timeout(2400),
    pytest.mark.skipif(not MODEL.is_dir(), reason=f"{MODEL} is not there: make setup"),
]


@pytest.fixture(autouse=True, scope="module")
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


def said(name: str, found: Sampled) -> Sampled:
    print(f"{name}: {found.state}: {found.sentence}")
    return found


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> list[Samples]:
    """What one server without speculation samples, again and again with other seeds."""
    base = point("none", 0)
    points = [replace(base, repeats=n) for n in range(1, 5)]
    return drawn(server(""), tmp_path_factory.mktemp("baseline") / "none", *points)


def test_a_baseline_against_itself_passes(alike: list[Samples]) -> None:
    found = [said("baseline", sampled(a, b, seed=0)) for a, b in combinations(alike, 2)]
    assert {one.state for one in found} == {"right"}, "once in 1,000 comparisons it may be wrong"


def test_it_does_so_at_the_stated_rate(alike: list[Samples]) -> None:
    """Real continuations of one server dealt into two arms by chance, again and again."""
    dice, found = random.Random(7), []
    pools = [[c for one in alike for c in one.draws[text]] for text in range(CHECK.texts)]
    for seed in range(200):
        dealt = [dice.sample(pool, 2 * CHECK.samples) for pool in pools]
        one, other = (
            replace(alike[0], draws=tuple(tuple(d[half::2]) for d in dealt)) for half in (0, 1)
        )
        found.append(p_value(one, other, seed=seed))
    shares = {level: sum(p <= level for p in found) / 200 for level in (0.05, 0.1, 0.5)}
    print(f"share of p-values up to a level: {shares}")
    assert 0.005 <= shares[0.05] <= 0.11  # 3.5 standard errors above
    assert 0.35 <= shares[0.5] <= 0.65


def test_the_defect_is_caught_as_vllm_is(alike: list[Samples], tmp_path: Path) -> None:
    """vllm#55005. The plan refuses this point; the test must not need that."""
    (broken,) = drawn(server(NGRAM), tmp_path / "broken", point("ngram", 4))
    found = said("vllm#55005", sampled(alike[0], broken, seed=0))
    assert found.state == "wrong"
    assert found.p_value.value is not None and found.p_value.value <= ALPHA


def test_with_the_work_around_nothing_is_reported(alike: list[Samples], tmp_path: Path) -> None:
    points = [replace(point("ngram", 4), repeats=n) for n in range(1, 4)]
    for right in drawn(server(NGRAM, workarounds=FIXED), tmp_path / "fixed", *points):
        assert right.drafted
        assert said("work-around", sampled(alike[0], right, seed=0)).state == "right"


def test_a_sampler_that_accepts_every_draft_is_caught(alike: list[Samples], tmp_path: Path) -> None:
    fixed = server(NGRAM, workarounds=FIXED)
    path = planted(tmp_path / "plugins", EVERY_DRAFT_SAMPLED)
    lenient = replace(fixed, env=(*fixed.env, ("PYTHONPATH", str(path))))
    (wrong,) = drawn(lenient, tmp_path / "lenient", point("ngram", 4))
    assert SAID in (tmp_path / "lenient" / "server.log").read_text()
    assert said("every draft accepted", sampled(alike[0], wrong, seed=0)).state == "wrong"
