"""Speed-ups where requests overlap, and what lookup methods must not be praised for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sweeper.judge.compare import Comparison, compare
from sweeper.judge.judgement import judge
from sweeper.judge.speedup import pair, paired
from sweeper.report.columns import figures, row
from sweeper.report.loadtable import load_rows
from sweeper.report.markdown import markdown
from sweeper.store import SweepFolder, from_json, read_json, to_json, write_json
from sweeper.values import Load, PointResult, RequestRecord
from tests.unit.sweeps import Made, counts, folder, point, record

CLOSED = Load(name="closed", concurrency=4, stream=True)
PROMPTS = 6


def streamed(
    prompt: int, *, gap_ms: float, chunk: int, tokens: int = 41, spec: bool = False
) -> RequestRecord:
    """The first token after 100 ms, then ``chunk`` tokens every ``gap_ms``."""
    chunks = (tokens - 1) // chunk
    gaps = (100_000_000, *(round(gap_ms * 1e6) for _ in range(chunks)))
    made = record(
        f"p{prompt}",
        tokens=tokens,
        steps=None,
        spec=counts((0,) * chunk + (chunks,)) if spec else None,
        seconds=sum(gaps) / 1e9,
    )
    return replace(made, first_ns=gaps[0], chunk_ns=gaps)


def arm(method: str, gamma: int, records: tuple[RequestRecord, ...], load: Load = CLOSED) -> Made:
    return Made(point=point(method, gamma, load=load), records=records)


def compared(path: Path, *made: Made) -> tuple[Comparison, ...]:
    return compare(folder(path, *made))


def test_bundled_tokens_are_faster_by_tpot_though_their_chunks_are_further_apart(
    tmp_path: Path,
) -> None:
    """10 ms for one token against 20 ms for four: twice as fast, and the gaps say the opposite."""
    slow = tuple(streamed(n, gap_ms=10, chunk=1) for n in range(PROMPTS))
    fast = tuple(streamed(n, gap_ms=20, chunk=4, spec=True) for n in range(PROMPTS))
    base, spec = compared(tmp_path, arm("none", 0, slow), arm("eagle3", 3, fast))
    assert spec.speedup_by == "TPOT"
    assert spec.speedup.value == pytest.approx(2.0)
    assert (base.latencies["tpot_ms_p50"].value, spec.latencies["tpot_ms_p50"].value) == (10, 5)
    assert base.latencies["chunk_gap_ms_p50"].value == 10
    assert spec.latencies["chunk_gap_ms_p50"].value == 20


def test_the_throughput_of_the_whole_server_stands_beside_it(tmp_path: Path) -> None:
    slow = tuple(streamed(n, gap_ms=10, chunk=1) for n in range(PROMPTS))
    fast = tuple(streamed(n, gap_ms=20, chunk=4, spec=True) for n in range(PROMPTS))
    base, spec = compared(tmp_path, arm("none", 0, slow), arm("eagle3", 3, fast))
    # All are sent at 0, so the window is one answer long: 0.5 s and 0.3 s.
    assert spec.speedup_throughput.value == pytest.approx(0.5 / 0.3)
    assert spec.speedup_throughput.reason == "two windows have no interval"
    assert base.speedup_throughput.reason == "is the baseline"


def test_sequential_requests_are_compared_by_output_rate(tmp_path: Path) -> None:
    load = Load(name="sequential")
    slow = tuple(record(f"p{n}", seconds=2.0) for n in range(PROMPTS))
    fast = tuple(record(f"p{n}", seconds=1.0) for n in range(PROMPTS))
    _, ngram = compared(tmp_path, arm("none", 0, slow, load), arm("ngram", 4, fast, load))
    assert (ngram.speedup_by, ngram.speedup.value) == ("output rate", 2.0)
    assert ngram.speedup_throughput.value is None


def test_answers_of_one_token_are_counted_and_have_no_tpot(tmp_path: Path) -> None:
    answers = (
        *(streamed(n, gap_ms=10, chunk=1) for n in range(4)),
        *(streamed(n, gap_ms=10, chunk=1, tokens=1) for n in (4, 5)),
    )
    base, other = compared(tmp_path, arm("none", 0, answers), arm("ngram", 4, answers))
    assert row(base)["one_token_answers"] == 2
    assert base.latencies["tpot_ms_mean"].value == 10
    assert other.speedup.value == 1.0


def test_a_pair_with_an_answer_of_one_token_is_in_neither_arms_tpot(tmp_path: Path) -> None:
    """Twice as fast a token; the baseline's long answers to which one token was the answer here,
    and the other way round, say nothing."""
    one = {n: streamed(n, gap_ms=30, chunk=1, tokens=1) for n in (4, 5)}
    base = (
        *(streamed(n, gap_ms=10, chunk=1) for n in range(4)),
        streamed(4, gap_ms=30, chunk=1),
        one[5],
    )
    mine = (
        *(streamed(n, gap_ms=5, chunk=1) for n in range(4)),
        one[4],
        streamed(5, gap_ms=50, chunk=1, tokens=81),
    )
    found = compared(tmp_path, arm("none", 0, base), arm("ngram", 4, mine))[1]
    assert found.speedup_by == "TPOT"
    assert found.speedup.value == pytest.approx(2.0)
    assert found.speedup_tpot == found.speedup
    assert found.paired is not None
    assert found.paired.prompts == tuple(f"p{n}" for n in range(6))
    workload = judge(SweepFolder(tmp_path)).workloads[0]
    assert workload.speedup.value == pytest.approx(2.0)
    assert "5 or more" in workload.sentence, "four prompts have a TPOT"


def test_a_prompt_keeps_the_repeats_that_have_a_tpot() -> None:
    def twice(gap_ms: float, short: int) -> list[RequestRecord]:
        """Prompt 0 is answered by one token in repeat ``short``."""
        return [
            replace(streamed(n, gap_ms=gap_ms, chunk=1, tokens=1 if (n, r) == (0, short) else 41),
                    repeat=r)
            for n in range(3) for r in range(3)
        ]  # fmt: skip

    both = paired(pair(twice(10, 0), twice(5, 1)))
    assert both.columns("base_emitted", "emitted").tolist() == [[40, 40], [120, 120], [120, 120]]
    assert both.columns("base_tokens", "tokens").tolist() == [[83, 83], [123, 123], [123, 123]]
    assert both.tpot(seed=0).value == pytest.approx(2.0)


def test_answers_of_one_token_only_have_no_speedup_by_tpot(tmp_path: Path) -> None:
    answers = tuple(streamed(n, gap_ms=10, chunk=1, tokens=1) for n in range(PROMPTS))
    found = compared(tmp_path, arm("none", 0, answers), arm("ngram", 4, answers))[1]
    assert (found.speedup.value, found.speedup.reason) == (
        None,
        "a sum of times or tokens is zero",
    )


def test_concurrency_and_rate_are_columns(tmp_path: Path) -> None:
    answers = tuple(streamed(n, gap_ms=10, chunk=1) for n in range(2))
    loads = (CLOSED, Load(name="open", rate=2.5, stream=True), Load(name="sequential"))
    found = [
        row(one) for one in compared(tmp_path, *(arm("none", 0, answers, load) for load in loads))
    ]
    assert [(r["concurrency"], r["rate"]) for r in found] == [(4, None), (None, 2.5), (1, None)]


def test_means_have_an_interval_and_all_percentiles_are_there(tmp_path: Path) -> None:
    answers = tuple(streamed(n, gap_ms=10 + n, chunk=1) for n in range(PROMPTS))
    (base,) = compared(tmp_path, arm("none", 0, answers))
    found = row(base)
    for kind in ("ttft", "tpot", "e2e", "chunk_gap"):
        for end in ("mean", "mean_low", "mean_high", "p50", "p90", "p95", "p99"):
            assert found[f"{kind}_ms_{end}"] is not None
    assert found["queue_ms_p50"] is None
    assert figures(base)["queue_ms_p50"].reason == "the server does not report it"


def with_counters(path: Path, made: Made, **change: float) -> Made:
    """``made`` with a result whose counters moved by ``change``."""
    folder(path, made)
    (file,) = path.glob("points/*/result.json")
    result = from_json(PointResult, read_json(file))
    counters = {"change": change, "cross_check": {"agree": True}}
    text = path / "made.json"
    write_json(text, to_json(replace(result, counters=counters)))
    return replace(made, result=text.read_text(encoding="utf-8"))


@pytest.mark.parametrize("load", [CLOSED, Load(name="sequential")])
def test_five_hits_in_a_hundred_steps_are_no_speed_up_of_five(tmp_path: Path, load: Load) -> None:
    """drafts=5, draft_tokens=20, accepted=20, generation_tokens=120, in 100 decode steps: of the
    1 + A/S = 5 nothing is left in what the table leads with."""
    hit, miss = counts((0, 0, 0, 0, 1)), counts((0, 0, 0, 0, 0))
    steps = None if load.overlapping else 5

    def answers(spec: bool, seconds: float) -> tuple[RequestRecord, ...]:
        made = (
            record(
                f"p{n}",
                tokens=10 if n < 5 else 5,
                steps=steps,
                seconds=seconds,
                spec=(hit if n < 5 else miss) if spec else None,
            )
            for n in range(20)
        )
        return tuple(
            replace(r, first_ns=0, chunk_ns=(0, r.done_ns)) if load.stream else r for r in made
        )

    ngram = with_counters(
        tmp_path / "made",
        arm("ngram", 4, answers(True, 1.0), load),
        verify_steps=5, drafted=20, accepted=20, decode_steps=100, completion_tokens=125,
    )  # fmt: skip
    comparisons = compared(tmp_path / "all", arm("none", 0, answers(False, 1.1), load), ngram)
    found = comparisons[1]
    assert found.acceptance.mean_acceptance_length.value == 5.0
    assert found.acceptance.draft_coverage.value == 0.05
    assert found.acceptance.tokens_per_decode_step.value == 1.05
    assert found.speedup.value == pytest.approx(1.1)
    page = markdown(judge(SweepFolder(tmp_path / "all")))
    (line,) = (text for text in page.splitlines() if text.startswith("| ngram γ=4 | 1.10 ["))
    cells = [cell.strip() for cell in line.split("|")]
    assert cells[3].startswith("1.05")  # tokens/step, before 1+A/S
    assert cells[6].startswith(r"5.00\*")  # and that one with its warning
    assert "read tokens/step" in page


def test_counters_that_disagree_give_no_coverage(tmp_path: Path) -> None:
    answers = tuple(streamed(n, gap_ms=20, chunk=4, spec=True) for n in range(PROMPTS))
    (found,) = compared(tmp_path, arm("eagle3", 3, answers))
    reason = "no decode steps counted per request"
    assert found.acceptance.tokens_per_decode_step.reason == reason


def test_a_load_has_a_table_of_its_own_and_sequential_requests_have_none(tmp_path: Path) -> None:
    answers = tuple(streamed(n, gap_ms=10, chunk=1) for n in range(PROMPTS))
    loaded = compared(tmp_path / "closed", arm("none", 0, answers))
    header, line = load_rows(loaded)
    assert len(header) == len(line)
    assert line[:4] == (
        "none",
        "100.0 / 100.0 / 100.0",
        "10.0 / 10.0 / 10.0",
        "500.0 / 500.0 / 500.0",
    )
    assert line[6:] == ("not measured", "not measured", "1.00", "0")
    assert "| under load | TTFT P50 / P95 / P99 (ms) |" in markdown(
        judge(SweepFolder(tmp_path / "closed"))
    )
    alone = compared(tmp_path / "alone", arm("none", 0, answers, Load(name="sequential")))
    assert load_rows(alone) == []


def test_a_point_without_a_success_is_in_no_table_as_a_number(tmp_path: Path) -> None:
    refused = tuple(record(f"p{n}", error="HTTP 503: full", tokens=0) for n in range(PROMPTS))
    made = replace(arm("none", 0, refused), status="invalid", reason="6 of 6 requests failed")
    (found,) = compared(tmp_path, replace(made, failed=PROMPTS))
    numbers = {name: figure.value for name, figure in figures(found).items()}
    assert {name for name, value in numbers.items() if value is not None} == {"success_rate"}
    assert numbers["success_rate"] == 0.0
    header, line = load_rows((found,))
    told = dict(zip(header, line, strict=True))
    assert (told.pop("under load"), told.pop("success")) == ("none (invalid)", "0.00")
    assert set(told.values()) == {"not measured"}
