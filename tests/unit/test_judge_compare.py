from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sweeper.errors import StoreError
from sweeper.judge.compare import Comparison, compare
from sweeper.scores import Grade, Quality
from sweeper.store import SweepFolder, read_sweep, to_json, write_json
from sweeper.values import Point, RequestRecord
from tests.unit.sweeps import PROVENANCE, Made, counts, folder, point, record


def requests(seconds: float, *, drafting: bool = False) -> tuple[RequestRecord, ...]:
    spec = counts((1, 0, 0, 0, 2)) if drafting else None
    return tuple(
        record(
            f"p{n}",
            seconds=seconds * (1 + n / 10),
            tokens=11,
            steps=3 if drafting else 10,
            spec=spec,
        )
        for n in range(6)
    )


NGRAM = point("ngram", 4)
BASE = Made(point=point("none", 0), records=requests(2.0))


def second(path: Path, /, base: Made = BASE, **made: Any) -> Comparison:
    """The comparison of ngram with ``base`` when ``made`` describes ngram."""
    fields: dict[str, Any] = {"point": NGRAM, "records": requests(1.0, drafting=True)} | made
    return compare(folder(path, base, Made(**fields)))[1]


def provenance(section: str, **changes: Any) -> dict[str, Any]:
    return PROVENANCE | {section: PROVENANCE.get(section, {}) | changes}


def test_a_point_beside_its_baseline(tmp_path: Path) -> None:
    found = second(tmp_path)
    assert (found.status, found.baseline, found.success_rate) == ("completed", 0, 1.0)
    assert found.speedup.value == pytest.approx(2.0)
    assert found.speedup.low == pytest.approx(2.0)
    assert found.identical_share.value == 1.0
    assert found.request_time_s.value == pytest.approx(1.25)
    assert found.output_tokens_per_s.value == pytest.approx(66 / 7.5)
    assert found.acceptance.violations == 0


def test_a_baseline_is_compared_with_nothing(tmp_path: Path) -> None:
    found = compare(folder(tmp_path, BASE))[0]
    assert found.speedup.value is None
    assert found.speedup.reason == "is the baseline"
    assert found.acceptance.state == "no speculation"
    assert found.request_time_s.value == pytest.approx(2.5)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (
            provenance("host", cpu="Xeon"),
            "not comparable: host.cpu is Xeon here and EPYC for the baseline",
        ),
        (
            provenance("versions", vllm="0.33.0"),
            "not comparable: versions.vllm is 0.33.0 here and 0.32.0 for the baseline",
        ),
        (
            {k: v for k, v in PROVENANCE.items() if k != "versions"},
            "not comparable: versions.torch is not recorded here and 2.13.0 for the baseline; "
            "versions.vllm is not recorded here and 0.32.0 for the baseline",
        ),
        (
            provenance("caches", prefix="kept"),
            "not comparable: caches.prefix is kept here and reset before every repeat for the "
            "baseline",
        ),
    ],
)
def test_other_conditions_are_not_divided(
    tmp_path: Path, changed: dict[str, Any], reason: str
) -> None:
    found = second(tmp_path, provenance=changed)
    assert found.speedup.value is None
    assert found.speedup.reason == reason
    assert found.acceptance.acceptance_rate.value is not None


def test_digests_that_both_recorded_must_agree(tmp_path: Path) -> None:
    base = Made(point=BASE.point, records=BASE.records, provenance=provenance("model", digest="a"))
    found = second(tmp_path, base, provenance=provenance("model", digest="b", draft_digest="c"))
    reason = "not comparable: model.digest is b here and a for the baseline"
    assert found.speedup.reason == reason


@pytest.mark.parametrize(
    "changed",
    [
        provenance("caches", suffix_tree="cold"),
        provenance("host", load_average=3.0),
        provenance("model", draft_digest="c"),
    ],
)
def test_what_only_one_arm_can_have_does_not_matter(
    tmp_path: Path, changed: dict[str, Any]
) -> None:
    assert second(tmp_path, provenance=changed).speedup.value == pytest.approx(2.0)


def test_another_scheduler_is_said_and_compared(tmp_path: Path) -> None:
    found = second(tmp_path, provenance=provenance("engine", scheduler="sync"))
    assert found.speedup.value == pytest.approx(2.0)
    assert found.notes == ("engine.scheduler is sync here and async for the baseline",)


def test_what_only_this_server_said_at_its_start_is_shown(tmp_path: Path) -> None:
    both, only_here = "tcmalloc is not preloaded", "async scheduling is off with ngram"
    base = Made(
        point=BASE.point,
        records=BASE.records,
        provenance=PROVENANCE | {"start_warnings": [both]},
    )
    found = second(tmp_path, base, provenance=PROVENANCE | {"start_warnings": [only_here, both]})
    assert found.notes == (f"at the server's start: {only_here}",)


def test_streamed_answers_have_latencies_and_goodput(tmp_path: Path) -> None:
    """20 ms to the first of 11 tokens, then 10 gaps of 5 ms: TPOT 5 ms, 70 ms in all."""
    streamed = tuple(
        replace(r, chunk_ns=(20_000_000, *[5_000_000] * 10)) for r in requests(1.0, drafting=True)
    )
    load = replace(NGRAM.load, name="closed", concurrency=2, stream=True)
    base = Made(point=replace(BASE.point, load=load), records=BASE.records)
    found = second(tmp_path, base, point=replace(NGRAM, load=load), records=streamed)
    assert found.latencies["ttft_ms_p50"].value == pytest.approx(20.0)
    assert found.latencies["tpot_ms_p99"].value == pytest.approx(5.0)
    assert found.goodput.reason == "no slo was set"
    assert second(tmp_path / "b").latencies["tpot_ms_p99"].reason == "the answers were not streamed"


def test_nothing_recorded_is_an_assumption_and_said(tmp_path: Path) -> None:
    base = Made(point=BASE.point, records=BASE.records, provenance={})
    found = second(tmp_path, base, provenance={})
    assert found.speedup.value == pytest.approx(2.0)
    expected = "provenance without host and versions: equal conditions are assumed"
    assert found.notes == (expected,)


def test_other_text_for_the_same_prompt_is_not_divided(tmp_path: Path) -> None:
    other = tuple(record(f"p{n}", prompt_digest="thinking") for n in range(6))
    found = second(tmp_path, records=other)
    assert found.speedup.reason == "not comparable: 6 prompts were rendered differently"


def test_a_failed_baseline_takes_the_speedups_along(tmp_path: Path) -> None:
    base = Made(point=BASE.point, status="failed", reason="the server exited:\n out of memory")
    found = second(tmp_path, base)
    assert found.speedup.reason == "baseline failed: the server exited: out of memory"
    assert found.status == "completed"
    assert found.acceptance.acceptance_rate.value is not None


def test_a_baseline_that_is_not_there_yet(tmp_path: Path) -> None:
    found = second(tmp_path, Made(point=BASE.point, result=False))
    expected = "baseline not measured yet: no request and no result.json"
    assert found.speedup.reason == expected


def test_a_sweep_without_a_baseline(tmp_path: Path) -> None:
    made = Made(point=NGRAM, records=requests(1.0, drafting=True), baseline=None)
    assert compare(folder(tmp_path, made))[0].speedup.reason == "no baseline in this sweep"


def test_a_baseline_that_speculates_is_none(tmp_path: Path) -> None:
    base = Made(point=BASE.point, records=requests(2.0, drafting=True))
    expected = "the baseline drafted tokens: its server speculates"
    assert second(tmp_path, base).speedup.reason == expected


@pytest.mark.parametrize("status", ["failed", "invalid", "preempted", "lost", "skipped"])
def test_a_point_that_did_not_complete_has_no_figures(tmp_path: Path, status: str) -> None:
    found = second(tmp_path, status=status, reason="why")
    assert (found.status, found.reason) == (status, "why")
    for figure in (found.speedup, found.request_time_s, found.acceptance.acceptance_rate):
        assert figure.value is None
        assert figure.reason == f"{status}: why"


def test_a_half_written_result_is_lost(tmp_path: Path) -> None:
    found = second(tmp_path, result='{"number": 1, "ke')
    expected = "result.json is not complete; 6 requests are recorded"
    assert (found.status, found.reason, found.result) == ("lost", expected, None)


@pytest.mark.parametrize("text", ["[]", "{}", '"x"', '{"number": 1}'])
def test_a_result_of_another_shape_is_lost_too(tmp_path: Path, text: str) -> None:
    assert second(tmp_path, result=text).status == "lost"


def test_a_point_without_result_is_lost_once_it_has_requests(tmp_path: Path) -> None:
    found = second(tmp_path, result=False)
    expected = "no result.json after 6 requests: still running, or killed"
    assert (found.status, found.reason, found.success_rate) == ("lost", expected, None)


def test_a_point_that_has_nothing_was_not_measured_yet(tmp_path: Path) -> None:
    found = second(tmp_path, records=(), result=False)
    assert (found.status, found.reason) == ("not measured yet", "no request and no result.json")


@pytest.mark.parametrize("line", ["not json\n", "[]\n", '{"prompt_id": "a"}\n'])
def test_a_foreign_line_loses_its_own_point_only(tmp_path: Path, line: str) -> None:
    made = folder(tmp_path, BASE, Made(point=NGRAM, records=requests(1.0, drafting=True)))
    path = next(tmp_path.glob("points/001-*/requests.jsonl"))
    path.write_text(line, encoding="utf-8")
    base, found = compare(made)
    assert base.status == "completed"
    assert found.status == "lost"
    assert str(path) in found.reason


def test_a_half_written_last_line_is_left_out(tmp_path: Path) -> None:
    made = folder(tmp_path, BASE, Made(point=NGRAM, records=requests(1.0, drafting=True)))
    path = next(tmp_path.glob("points/001-*/requests.jsonl"))
    path.write_text(path.read_text(encoding="utf-8")[:-40], encoding="utf-8")
    assert compare(made)[1].status == "completed"


def test_answers_recorded_twice_count_once(tmp_path: Path) -> None:
    again = requests(9.0, drafting=True) + requests(1.0, drafting=True)
    found = second(tmp_path, records=again)
    assert found.speedup.value == pytest.approx(2.0)
    expected = "6 requests were recorded twice (measured again?); the last answers count"
    assert found.notes == (expected,)


def test_tokens_that_do_not_add_up_are_said(tmp_path: Path) -> None:
    odd = tuple(record(f"p{n}", tokens=50, spec=counts((1, 0, 0, 0, 2))) for n in range(6))
    expected = "6 of 6 requests: tokens and steps do not add up"
    assert second(tmp_path, records=odd).notes == (expected,)


@pytest.mark.parametrize(
    "finish,notes",
    [
        ("length", ("quality counts 6 of 6 answers that were cut at max_tokens",)),
        ("stop", ()),
    ],
)
def test_quality_of_cut_answers_is_said_once(
    tmp_path: Path, finish: str, notes: tuple[str, ...]
) -> None:
    records = tuple(replace(r, finish_reason=finish) for r in BASE.records)
    made = folder(tmp_path, replace(BASE, records=records))
    grade = Grade(prompt_id="p0", turn=0, repeat=0, passed=False)
    write_json(
        made.point(read_sweep(made).plan.points[0]).quality,
        to_json(Quality(grader="unit_tests", key="k", grades=(grade,))),
    )
    assert compare(made)[0].notes == notes


def test_synthetic_acceptance_is_recognised(tmp_path: Path) -> None:
    control: Point = point("ngram", 4, speculative={"rejection_sample_method": "synthetic"})
    assert second(tmp_path, point=control).synthetic
    assert not second(tmp_path / "other").synthetic


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"sweep\.json is missing"):
        compare(SweepFolder(tmp_path))
