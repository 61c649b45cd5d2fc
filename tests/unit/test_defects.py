"""Known defects of vLLM: who is concerned, who is not, and that each says something new."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import sweeper.workarounds
from sweeper.plan.concerns import cautions, known_workarounds, refusals
from sweeper.plan.defect import Defect, release
from sweeper.plan.defects import DEFECTS
from sweeper.serve.installed import Installed, refusal
from sweeper.values import Point
from tests.unit.sweeps import GREEDY, point

CPU = Installed(python="python", vllm="0.32.0", cpu=True, arctic_inference="0.3.0")
GPU = replace(CPU, cpu=False)
TRITON_CPU = replace(CPU, triton_cpu=True)
SAMPLED = replace(GREEDY, temperature=0.7)


def on_server(made: Point, **changes: Any) -> Point:
    return replace(made, server=replace(made.server, **changes))


def test_sampling_with_speculation_on_the_cpu_build() -> None:
    sampled = point("ngram", 4, sampling=SAMPLED)
    assert refusals(sampled, CPU) == (
        "sampling.temperature=0.7 with speculation is wrong on vLLM's CPU build: drafts are "
        "rejected against uninitialised sampling parameters; use sampling=greedy here, or a GPU, "
        "or server.workarounds=[vllm-55005] (vllm#55005)",
    )
    for unconcerned in (GPU, TRITON_CPU, None):
        assert refusals(sampled, unconcerned) == ()
    assert refusals(point("ngram", 4), CPU) == ()
    assert refusals(point("none", 0, sampling=SAMPLED), CPU) == ()
    assert refusals(on_server(sampled, workarounds=("vllm-55005",)), CPU) == ()


def test_top_k_alone_on_the_cpu_build() -> None:
    alone = on_server(
        point("ngram", 4, sampling=replace(SAMPLED, top_k=20)), workarounds=("vllm-55005",)
    )
    assert refusals(alone, CPU) == (
        "sampling.top_k=20 without top_p ends the engine of vLLM's CPU build at the first step "
        "without a draft; set sampling.top_p=0.999 or less beside it, or use a GPU "
        "(vllm/v1/sample/ops/topk_topp_sampler.py)",
    )
    both = replace(alone, sampling=replace(SAMPLED, top_k=20, top_p=0.9))
    assert refusals(both, CPU) == ()
    assert refusals(replace(alone, method="none", server=point("none", 0).server), CPU) == ()


def test_a_workaround_that_would_change_nothing() -> None:
    asked = on_server(point("ngram", 4), workarounds=("vllm-55005", "vllm-1"))
    unknown = "server.workarounds: vllm-1: unknown; known: vllm-55005"
    assert refusals(asked, CPU) == (unknown,)
    assert refusals(asked, GPU) == (
        "server.workarounds: vllm-55005: this vLLM does not need it; remove it",
        unknown,
    )


def test_every_workaround_has_its_module_and_no_other_is_there() -> None:
    folder = Path(sweeper.workarounds.__file__ or "").parent
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert {name.replace("-", "_") for name in known_workarounds()} == modules


SCHEDULE = {"num_speculative_tokens_per_batch_size": [[1, 4, 4], [5, 256, 0]]}


@pytest.mark.parametrize(
    ("made", "here", "begins"),
    [
        (point("suffix", 4, speculative=SCHEDULE), GPU, "suffix with a schedule by batch size"),
        (
            on_server(point("ngram", 4, speculative=SCHEDULE), args=("--data-parallel-size", "2")),
            GPU,
            "vLLM drops a schedule by batch size when data_parallel_size is above 1",
        ),
        (
            point("ngram", 4, speculative={"rejection_sample_method": "block"}),
            CPU,
            "rejection_sample_method=block is ignored by the V1 model runner",
        ),
        (
            point("ngram", 4, speculative={"rejection_sample_method": "synthetic"}),
            CPU,
            "synthetic acceptance ends a CPU server",
        ),
        (point("mlp_speculator", 3), GPU, "mlp_speculator passes vLLM's checks"),
        (point("suffix", 200), GPU, "gamma=200: the V1 model runner"),
        (
            point("eagle3", 3, sampling=replace(GREEDY, min_p=0.1)),
            GPU,
            "sampling.min_p=0.1: vLLM refuses min_p above 0 with speculation",
        ),
    ],
    ids=["suffix", "replicas", "block", "synthetic", "mlp", "gamma", "min_p"],
)
def test_refused(made: Point, here: Installed, begins: str) -> None:
    (said,) = refusals(made, here)
    assert said.startswith(begins)


@pytest.mark.parametrize(
    ("made", "here"),
    [
        (point("eagle3", 4, speculative=SCHEDULE), GPU),
        (point("eagle3", 4, speculative={"rejection_sample_method": "block"}), GPU),
        (point("eagle3", 4, speculative={"rejection_sample_method": "synthetic"}), GPU),
        (point("eagle3", 200), GPU),
        (point("none", 0, sampling=replace(GREEDY, min_p=0.1)), GPU),
        (point("suffix", 4), CPU),
        (
            on_server(point("ngram", 4, speculative=SCHEDULE), args=("--data-parallel-size", "1")),
            GPU,
        ),
    ],
)
def test_not_refused(made: Point, here: Installed) -> None:
    assert refusals(made, here) == ()


def test_the_chosen_runner_decides() -> None:
    block = point("eagle3", 4, speculative={"rejection_sample_method": "block"})
    first = on_server(block, env=(("VLLM_USE_V2_MODEL_RUNNER", "0"),))
    second = on_server(block, env=(("VLLM_USE_V2_MODEL_RUNNER", "1"),))
    assert [len(refusals(p, GPU)) for p in (block, first, second)] == [0, 1, 0]


def test_cautions_about_repeats_and_the_suffix_tree() -> None:
    assert cautions(point("ngram", 4, repeats=3), GPU) == ()  # every repeat finds cold caches
    repeated = point("ngram", 4, repeats=3, cache="warm")
    assert [said[:17] for said in cautions(repeated, GPU)] == ["a repeated prompt"]
    without = on_server(repeated, args=("--no-enable-prefix-caching",))
    assert cautions(without, GPU) == cautions(point("ngram", 4), GPU) == ()
    assert cautions(point("none", 0, repeats=3), GPU) == ()
    cold = point("suffix", 4, speculative={"suffix_decoding_max_cached_requests": 0})
    assert cautions(cold, GPU) == ()
    assert [said[:15] for said in cautions(point("suffix", 4), GPU)] == ["the suffix tree"]


def test_a_fixed_defect_concerns_older_versions_only() -> None:
    defect = Defect(
        id="x",
        seen=("0.32.0",),
        fixed="0.33.0",
        severity="refuse",
        condition=lambda point, here: True,
        consequence="",
        reference="",
    )
    of = [
        defect.concerns(point("ngram", 4), replace(GPU, vllm=version))
        for version in ("0.9.2", "0.32.1+cpu", "0.33.0rc1", "0.33.0", "1.0.0", None)
    ]
    assert of == [True, True, False, False, False, True]
    assert defect.concerns(point("ngram", 4), None)


def test_versions() -> None:
    assert release("0.32.0+cpu") == release("0.32.0rc1") == (0, 32, 0)
    assert release("0.9.2.post2") < release("0.32.0")


def test_every_defect_can_be_said_of_every_point_and_is_named_once() -> None:
    assert Counter(defect.id for defect in DEFECTS).most_common(1)[0][1] == 1
    for defect in DEFECTS:
        assert defect.consequence.format(point=point("ngram", 4))
        assert defect.reference
        assert (defect.severity == "note") is (defect.condition is None)


def test_what_an_old_vllm_does_not_have() -> None:
    old = replace(GPU, vllm="0.11.0", schedule=False, synthetic=False, suffix=False)
    assert refusal(point("ngram", 4), old) == ""
    assert refusal(point("ngram", 4, speculative=SCHEDULE), old) == (
        "vLLM 0.11.0 has no schedule by batch size (num_speculative_tokens_per_batch_size); "
        "use a newer one"
    )
    assert refusal(point("suffix", 4), old) == "vLLM 0.11.0 has no suffix drafting; use a newer one"


def test_the_page_for_readers_has_them_all() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "compatibility.md").read_text()
    rows = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")]
    assert [defect.id for defect in DEFECTS if defect.id not in rows] == []
