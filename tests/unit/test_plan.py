"""Equal points once, baselines added, one server for all it can serve, nothing dropped."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hydra import compose, initialize_config_dir

from sweeper.config import config_dir, plain, register_resolvers, settings_from_mapping
from sweeper.errors import ConfigError
from sweeper.plan.arguments import merged, tokens
from sweeper.plan.grid import plan
from sweeper.plan.kept import together
from sweeper.plan.points import baseline_of, point_of
from sweeper.report.plan import total
from sweeper.serve.command import argv, environment, shown
from sweeper.values import Baselines, Dataset, Job, Plan, Point

TARGET = ["target=own", "target.model=/models/t", "target.drafts={eagle3:/d,draft_model:/d}"]


@pytest.fixture(autouse=True)
def hydra_here() -> Iterator[None]:
    register_resolvers()
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        yield


def point(*overrides: str, changes: dict[str, Any] | None = None) -> Point:
    data = plain(compose("config", [*TARGET, *overrides]))
    for path, value in (changes or {}).items():
        *parents, last = path.split(".")
        node = data
        for part in parents:
            node = node[part]
        node[last] = value
    settings = settings_from_mapping(data)
    name = settings.dataset.name or "x"
    return point_of(settings, Dataset(name=name, path=f"/{name}", digest=name * 8, prompts=12))


def planned(*sweep: Sequence[str], baseline: Baselines = "shared") -> Plan:
    jobs = [
        Job(number=n, overrides=tuple(combination), point=point(*combination))
        for n, combination in enumerate(itertools.product(*sweep))
    ]
    return plan(jobs, baseline=baseline)


METHODS = ["method=none", "method=ngram", "method=eagle3"]
GAMMAS = ["gamma=2", "gamma=4", "gamma=8"]
DATASETS = ["dataset=code", "dataset=chat"]


def test_eighteen_jobs_fourteen_points_seven_servers() -> None:
    found = planned(METHODS, GAMMAS, DATASETS)
    assert (len(found.jobs), len(found.points), len(found.groups)) == (18, 14, 7)
    assert sorted(n for p in found.points for n in p.jobs) == list(range(18))
    assert [p.number for g in found.groups for p in g.points] == list(range(14))


def test_the_baseline_needed_is_added_once_and_measured_first() -> None:
    found = planned(["method=ngram"], GAMMAS, DATASETS)
    assert (len(found.jobs), len(found.points), len(found.groups)) == (6, 8, 4)
    added = [p for p in found.points if not p.jobs]
    assert [p.point.label for p in added] == ["none", "none"]
    assert found.groups[0].points == tuple(added)
    names = {p.number: p.point.dataset.name for p in added}
    assert all(
        names[p.baseline] == p.point.dataset.name for p in found.points if p.baseline is not None
    )


def test_no_baseline_when_it_is_off() -> None:
    found = planned(["method=ngram"], ["gamma=2"], baseline="off")
    assert [(p.point.label, p.baseline) for p in found.points] == [("ngram γ=2", None)]


def test_every_server_has_its_own_baseline_right_before_its_points() -> None:
    found = planned(["method=ngram"], ["gamma=2", "gamma=4"], DATASETS, baseline="per_group")
    assert (len(found.jobs), len(found.points), len(found.groups)) == (4, 8, 2)
    assert total(found) == "4 jobs, 8 points, 4 servers"
    for group in found.groups:
        labels = [p.point.label for p in group.points]
        assert labels == ["none", "none", labels[-1], labels[-1]]
        assert group.server.key == group.points[-1].point.server.key == group.key
        first, second = group.starts
        assert [p.point.is_baseline for p in (*first.points, *second.points)] == [True] * 2 + [
            False
        ] * 2
        assert first.server.speculative is None
        by_number = {p.number: p for p in group.points}  # nobody else's baseline
        for one in second.points:
            assert one.baseline is not None
            assert by_number[one.baseline].point.dataset == one.point.dataset
    assert len({p.key for p in found.points}) == 8


def test_a_baseline_that_was_asked_for_is_answered_by_those_of_the_servers() -> None:
    methods = ["method=none", "method=ngram", "method=suffix"]
    found = planned(methods, ["gamma=2"], baseline="per_group")
    assert [(p.point.label, p.jobs) for p in found.points] == [
        ("none", (0,)),
        ("ngram γ=2", (1,)),
        ("none", (0,)),
        ("suffix γ=2", (2,)),
    ]
    alone = planned(["method=none"], ["gamma=2"], baseline="per_group")
    assert [(p.point.label, p.point.before) for p in alone.points] == [("none", "")]


def test_an_own_baseline_shares_order_and_conditions_with_its_points() -> None:
    found = planned(["method=ngram"], ["gamma=2"], baseline="per_group")
    base, one = (p.point for p in found.points)
    assert base.before == one.server.key
    assert (base.order, base.conditions) == (one.order, one.conditions)
    assert base.key != baseline_of(one).key


def test_an_own_baseline_is_measured_again_with_its_points() -> None:
    found = planned(["method=ngram"], ["gamma=2"], DATASETS, baseline="per_group")
    assert [(p.number, p.baseline) for p in found.points] == [
        (0, None),
        (1, None),
        (2, 0),
        (3, 1),
    ]
    assert together(found.points, {3}) == {1, 3}
    assert together(found.points, {0}) == {0, 2}
    shared = planned(["method=ngram"], ["gamma=2"], DATASETS)
    assert together(shared.points, {3}) == {3}


def test_method_none_over_gammas_is_one_point() -> None:
    found = planned(["method=none"], GAMMAS)
    assert [(p.point.label, p.jobs) for p in found.points] == [("none", (0, 1, 2))]


@pytest.mark.parametrize(
    "override",
    [
        "sampling.max_tokens=7",
        "repeats=2",
        "sampling=t07_p09",
        "load.warmup_requests=2",
    ],
)
def test_other_conditions_have_their_own_baseline_on_the_same_server(override: str) -> None:
    found = planned(["method=ngram"], ["gamma=2"], ["seed=0", override])
    assert (len(found.points), len(found.groups)) == (4, 2)


def test_equal_points_keep_the_warnings_of_every_spelling() -> None:
    one = point("method=ngram")
    warned = [replace(one, warnings=(text, "of both")) for text in ("of one", "of the other")]
    jobs = [Job(number=n, overrides=(), point=p) for n, p in enumerate(warned)]
    (found,) = plan(jobs, baseline="off").points
    assert found.point.warnings == ("of one", "of both", "of the other")


def test_a_work_around_is_part_of_the_command_shown() -> None:
    server = point("method=ngram", "server.workarounds=[vllm-55005]").server
    assert "PYTHONPATH=$PLUGINS " in shown(server)
    assert "PYTHONPATH" not in shown(point("method=ngram").server)


def test_identity_is_content_not_names() -> None:
    one = point("method=ngram")
    same = Dataset(digest=one.dataset.digest, prompts=12, path="/elsewhere", name="other")
    assert replace(one, dataset=same).key == one.key
    assert replace(one, dataset=replace(same, digest="else")).key != one.key
    assert point("method=ngram", "server.start_timeout_s=5.0").key == one.key
    assert point("method=ngram", "gamma=5").key != one.key
    assert baseline_of(one).key == point("method=none").key


def test_arguments_reach_the_command_line_whatever_their_type() -> None:
    found, wrong = tokens(
        {
            "max_model_len": 2048,
            "enforce-eager": True,
            "enable_prefix_caching": False,
            "seed": None,
            "allowed_origins": ["a", "b"],
            "hf_overrides": {"x": [1]},
            "dtype": "float32",
        },
        "server.args",
    )
    assert wrong == []
    assert found == (
        "--allowed-origins",
        "a",
        "b",
        "--dtype",
        "float32",
        "--no-enable-prefix-caching",
        "--enforce-eager",
        "--hf-overrides",
        '{"x": [1]}',
        "--max-model-len",
        "2048",
    )


def test_what_we_set_ourselves_cannot_be_set() -> None:
    _, wrong = tokens({"port": 1, "api-key": "x", "speculative_config": "{}"}, "server.args")
    assert wrong == [
        "server.args.port: not yours to set here: set server.port",
        "server.args.api-key: not yours to set here: a fresh key is made for every start",
        "server.args.speculative_config: not yours to set here: set method and method.speculative",
    ]


def test_two_spellings_of_one_flag() -> None:
    _, wrong = tokens({"max-model-len": 1, "max_model_len": 2}, "server.args")
    assert wrong == ["server.args.max_model_len: given twice in two spellings; keep one"]
    assert merged({"max-model-len": 1, "a": 2}, {"max_model_len": 3}) == {
        "a": 2,
        "max_model_len": 3,
    }


def test_secrets_are_not_written_down() -> None:
    with pytest.raises(ConfigError, match=r"server\.env\.HF_TOKEN: looks like a secret"):
        point("method=none", "+server.env.HF_TOKEN=abc")


def test_command_line_of_a_server() -> None:
    spec = point("method=ngram", "gamma=3", "+server.args.max_num_seqs=8").server
    found = argv(spec, port=1234, name="n")
    assert found[found.index("--speculative-config") + 1] == json.dumps(
        {
            "method": "ngram",
            "num_speculative_tokens": 3,
            "prompt_lookup_max": 4,
            "prompt_lookup_min": 2,
        }
    )
    assert found[found.index("--max-num-seqs") + 1] == "8"
    assert found[found.index("--host") + 1] == "127.0.0.1"
    assert "$PORT" in shown(spec) and "$NAME" in shown(spec)
    assert "--per-request-spec-decode-metrics" not in argv(point("method=none").server)


def test_the_key_is_in_the_environment_and_not_on_the_command_line() -> None:
    spec = point("method=none").server
    env = environment(spec, {"HOME": "/h"}, api_key="s3cret", preload=())
    assert env["VLLM_API_KEY"] == "s3cret" and env["HOME"] == "/h"
    assert "s3cret" not in " ".join(argv(spec, port=1, name="n")) and "LD_PRELOAD" not in env


def test_the_suffix_tree_is_off_by_default() -> None:
    asked = point("method=suffix", "gamma=4").server.speculative
    assert asked is not None and asked["suffix_decoding_max_cached_requests"] == 0
