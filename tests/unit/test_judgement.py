from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sweeper.judge.__main__ import main
from sweeper.judge.bootstrap import Figure, undefined
from sweeper.judge.decision import decide
from sweeper.judge.judgement import judge
from sweeper.judge.ratio import Ratio, prompts_to_clear
from sweeper.judge.service import over_loads
from sweeper.judge.verdict import SYNTHETIC, Judgement, WorkloadVerdict
from sweeper.judge.words import lines, recommended
from sweeper.report.labels import groups, heading
from sweeper.report.markdown import markdown
from sweeper.values import Load, RequestRecord, Slo, SpecCounts, Thresholds
from tests.unit.sweeps import CHAT, PROVENANCE, Made, counts, folder, point, record

PROMPTS = 12
LOOKUP = counts((2, 2, 6))


def answers(
    seconds: float, *, noise: float = 0.02, spec: SpecCounts | None = None, **changes: Any
) -> tuple[RequestRecord, ...]:
    """Twelve prompts of different lengths, 21 tokens each; equal seeds, so arms differ in noise."""
    generator = np.random.default_rng(round(1e6 * seconds))
    factors = np.linspace(0.5, 1.5, PROMPTS) * np.exp(generator.normal(0, noise, PROMPTS))
    return tuple(
        record(f"p{n}", seconds=float(seconds * f), tokens=21, spec=spec, **{"steps": 20} | changes)
        for n, f in enumerate(factors)
    )


BASE = Made(point=point("none", 0), records=answers(2.0))
FAST = Made(point=point("ngram", 2), records=answers(1.0, spec=LOOKUP, steps=12))
AS_FAST = Made(point=point("ngram", 4), records=answers(0.99, spec=LOOKUP, steps=12))
SLOW = Made(point=point("eagle3", 4), records=answers(3.0, spec=LOOKUP, steps=12))
UNSURE = Made(point=point("suffix", 2), records=answers(1.8, noise=0.6, spec=LOOKUP, steps=12))


def judged(path: Path, *made: Made, **settings: Any) -> Judgement:
    return judge(folder(path, *made, settings={"seed": 0, **settings}))


def only(found: Judgement) -> WorkloadVerdict:
    (workload,) = found.workloads
    return workload


def states(workload: WorkloadVerdict) -> list[str]:
    return [answer.state for answer in workload.answers]


def test_a_workload_is_one_target_dataset_sampling_and_load(tmp_path: Path) -> None:
    code = replace(CHAT, name="code", digest="d2")
    made = (
        Made(point=point("none", 0), records=answers(2.0)),
        Made(point=point("none", 0, dataset=code), records=answers(2.0)),
        Made(point=point("ngram", 2), records=answers(1.0)),
        Made(point=point("ngram", 4, dataset=code), records=answers(1.0), baseline=1),
    )
    found = judged(tmp_path, *made)
    assert [w.name for w in found.workloads] == [
        "chat · greedy · sequential · org/model",
        "code · greedy · sequential · org/model",
    ]
    assert [[c.number for c in w.candidates] for w in found.workloads] == [[2], [3]]
    assert [b.number for w in found.workloads for b in w.baselines] == [0, 1]


@pytest.mark.parametrize(
    ("others", "end"),
    [((), "by output rate"), ((SLOW,), "by output rate; faster than every other setting")],
)
def test_a_choice_is_set_beside_others_where_there_are_some(
    others: tuple[Made, ...], end: str, tmp_path: Path
) -> None:
    workload = only(judged(tmp_path, BASE, FAST, *others))
    assert (workload.verdict, workload.sentence.endswith(end)) == ("deploy", True)


def test_of_equal_gamma_the_faster_wins_a_tie(tmp_path: Path) -> None:
    alike = replace(AS_FAST, point=point("suffix", 2))
    workload = only(judged(tmp_path, BASE, FAST, alike))
    assert workload.recommended is not None
    assert workload.recommended.point.label == "suffix γ=2"
    assert workload.sentence.endswith("from ngram γ=2 (2.01): of equal γ the faster is taken")


def test_the_smaller_gamma_wins_a_tie(tmp_path: Path) -> None:
    found = judged(tmp_path, BASE, FAST, AS_FAST, SLOW)
    workload = only(found)
    assert workload.verdict == "deploy"
    assert workload.best is not None
    assert workload.best.point.label == "ngram γ=4"
    assert [c.point.label for c in workload.tied] == ["ngram γ=2"]
    assert workload.recommended is not None
    assert workload.recommended.point.label == "ngram γ=2"
    assert workload.sentence.endswith(
        "times the baseline by output rate; not told apart from ngram γ=4 (2.03): "
        "the smaller γ is taken"
    )
    assert found.words == {1: "deploy", 2: "deploy", 3: "don't"}
    assert states(workload) == ["yes", "yes", "not measured", "not measured"]


def test_the_command_is_that_of_the_measured_server(tmp_path: Path) -> None:
    def so(made: Made) -> Made:
        flags, variables = ("--max-model-len", "2048"), (("VLLM_CPU_KVCACHE_SPACE", "1"),)
        server = replace(made.point.server, args=flags, env=variables)
        return replace(made, point=replace(made.point, server=server))

    found = judged(tmp_path, so(BASE), so(FAST))
    assert only(found).command == (
        "VLLM_CPU_KVCACHE_SPACE=1 vllm serve org/model --max-model-len 2048 "
        """--speculative-config '{"method": "ngram", "num_speculative_tokens": 2}'"""
    )
    assert found.overall.verdict == "deploy"
    assert found.overall.sentence == "ngram γ=2 for the one workload"
    assert found.overall.recommendation == only(found).recommendation


def test_the_command_of_a_cpu_build_is_the_one_that_was_measured(tmp_path: Path) -> None:
    here = PROVENANCE | {"versions": {"vllm": "0.32.0", "torch": "2.13.0+cpu"}}
    base, fast = (replace(made, provenance=here) for made in (BASE, FAST))
    assert only(judged(tmp_path, base, fast)).command == (
        "vllm serve --model org/model "
        """--speculative-config '{"method": "ngram", "num_speculative_tokens": 2}'"""
    )


def test_the_command_of_a_wrapper_is_the_wrappers(tmp_path: Path) -> None:
    server = replace(FAST.point.server, command=("/p/python", "/s/trl_serve.py"))
    fast = replace(FAST, point=replace(FAST.point, server=server))
    assert only(judged(tmp_path, BASE, fast)).command == (
        "/p/python /s/trl_serve.py --model org/model "
        """--speculative-config '{"method": "ngram", "num_speculative_tokens": 2}'"""
    )


def test_slower_settings_only_are_not_deployed(tmp_path: Path) -> None:
    found = judged(tmp_path, BASE, SLOW)
    workload = only(found)
    assert workload.verdict == "don't"
    assert workload.sentence.startswith("eagle3 γ=4, the best of 1: speed-up 0.6")
    assert workload.sentence.endswith("is below 1.05")
    assert workload.recommendation is None
    assert found.overall.sentence == "no setting for any workload"


def test_an_open_verdict_says_how_many_prompts_would_settle_it(tmp_path: Path) -> None:
    workload = only(judged(tmp_path, BASE, UNSURE))
    assert workload.verdict == "inconclusive"
    assert len(workload.to_conclude) == 1
    assert "does not settle 1.05 on 12 prompts; about " in workload.to_conclude[0]


def test_what_is_open_for_several_settings_is_said_once(tmp_path: Path) -> None:
    made = (BASE, FAST, AS_FAST, SLOW)
    few = [replace(one, records=one.records[:4]) for one in made]
    assert only(judged(tmp_path, *few)).to_conclude == (
        "ngram γ=2, ngram γ=4, eagle3 γ=4: 4 prompts decide nothing; measure 5 or more",
    )


def test_twice_the_spread_needs_four_times_the_prompts() -> None:
    """The interval at the number that is named leaves the limit out, and just does: a distance of
    0.1 at 1.96 errors is settled when the error of 100 prompts, 0.1, is down to 0.051."""
    narrow = Ratio(value=1.05 * exp(0.1), error=0.1, prompts=100, t=np.zeros(1))
    settled = prompts_to_clear(narrow, 1.05, 1)
    assert settled is not None and settled == pytest.approx(100 * 1.96**2, rel=0.01)
    twice = prompts_to_clear(replace(narrow, error=0.2), 1.05, 1)
    assert twice is not None and twice == pytest.approx(4 * settled, rel=0.01)
    together = prompts_to_clear(narrow, 1.05, 15)
    assert together is not None and together == pytest.approx(100 * 2.935**2, rel=0.01)
    few = prompts_to_clear(replace(narrow, prompts=5, error=0.01), 1.05, 1)
    assert few == 6  # one that is settled needs no more than one more
    assert prompts_to_clear(replace(narrow, value=1.05), 1.05, 1) is None
    assert prompts_to_clear(replace(narrow, value=1.0501), 1.05, 1) is None


def test_few_prompts_decide_nothing(tmp_path: Path) -> None:
    base, fast = (replace(m, records=m.records[:4]) for m in (BASE, FAST))
    workload = only(judged(tmp_path, base, fast))
    assert workload.verdict == "inconclusive"
    assert workload.sentence == "ngram γ=2: 4 prompts decide nothing; measure 5 or more"


def on_two_cores(made: Made, load: float) -> Made:
    host = PROVENANCE["host"] | {"cores": 2}
    return replace(made, provenance=PROVENANCE | {"host": host, "load_average": [load, 9.0, 9.0]})


@pytest.mark.parametrize(("arm", "word"), [(FAST, "deploy"), (SLOW, "don't")])
def test_times_of_a_busy_machine_speak_neither_for_nor_against(
    tmp_path: Path, arm: Made, word: str
) -> None:
    for name, load, expected in (("calm", 6.0, word), ("busy", 6.1, "inconclusive")):
        base, other = on_two_cores(BASE, load), on_two_cores(arm, 1.0)
        workload = only(judged(tmp_path / name, base, other))
        assert workload.verdict == expected
    said = "the machine was busy with other work: load average 6.1 on 2 cores"
    assert workload.baselines[0].notes[-1] == said
    assert workload.to_conclude == (
        f"{arm.point.label}: {said} when none was measured; measure again when it is not",
    )


def test_a_wrong_output_is_not_deployed(tmp_path: Path) -> None:
    comparisons = judged(tmp_path, BASE, FAST).comparisons
    check = replace(comparisons[1].output, state="wrong", sentence="2 of 12 answers are wrong")
    group = (comparisons[0], replace(comparisons[1], output=check))
    strict = decide(group, over_loads(group), Thresholds(), 0)
    assert (strict.verdict, strict.answers[0].state) == ("don't", "no")
    assert strict.sentence == (
        "ngram γ=2, the best of 1: the output is not right: 2 of 12 answers are wrong"
    )
    assert decide(group, over_loads(group), Thresholds(output="any"), 0).verdict == "deploy"


def test_an_output_nobody_checked_is_open(tmp_path: Path) -> None:
    other = replace(FAST, records=(replace(FAST.records[0], token_ids=(9,)), *FAST.records[1:]))
    workload = only(judged(tmp_path, BASE, other))
    assert (workload.verdict, states(workload)[0]) == ("inconclusive", "unclear")
    asked = asdict(Thresholds(output="not wrong"))
    assert only(judged(tmp_path / "b", BASE, other, verdict=asked)).verdict == "deploy"


def test_lost_quality_is_not_deployed(tmp_path: Path) -> None:
    comparisons = judged(tmp_path, BASE, FAST).comparisons
    for change, word in ((Figure(value=-0.1, low=-0.2, high=-0.05), "don't"),
                         (Figure(value=-0.1, low=-0.2, high=0.0), "inconclusive"),
                         (Figure(value=-0.01, low=-0.2, high=0.0), "deploy")):  # fmt: skip
        check = replace(comparisons[1].output, quality_change=change)
        group = (comparisons[0], replace(comparisons[1], output=check))
        found = decide(group, over_loads(group), Thresholds(), 0)
        assert found.verdict == word
        # 12 · ((0.0 + 0.1) / (0.1 - 0.02))²
        hint = "; about 19 prompts would tell" if word == "inconclusive" else ""
        assert "".join(found.to_conclude).endswith(hint)
        assert bool(found.to_conclude) == bool(hint)


def test_what_was_not_measured_keeps_a_dont_open(tmp_path: Path) -> None:
    failed = Made(point=point("ngram", 4), status="failed", reason="no memory")
    workload = only(judged(tmp_path, BASE, SLOW, failed))
    assert workload.verdict == "inconclusive"
    assert workload.to_conclude == ("ngram γ=4 was not measured (failed: no memory)",)


def test_synthetic_acceptance_gets_no_verdict(tmp_path: Path) -> None:
    speculative = {"rejection_sample_method": "synthetic", "synthetic_acceptance_length": 2}
    made = replace(FAST, point=point("eagle3", 4, speculative=speculative))
    found = judged(tmp_path, BASE, made)
    workload = only(found)
    assert (workload.verdict, workload.sentence) == (None, SYNTHETIC)
    assert found.overall.verdict is None
    assert list(lines(found))[-1] == f"over all: {SYNTHETIC}"
    assert workload.recommendation is None


def test_the_config_a_server_resolved_says_synthetic(tmp_path: Path) -> None:
    resolved = {"resolved_speculative_config": {"rejection_sample_method": "synthetic"}}
    made = replace(FAST, provenance=FAST.provenance | resolved)
    assert judged(tmp_path, BASE, made).comparisons[1].synthetic


def test_a_control_is_synthetic_with_its_baseline_and_whatever_it_drafts(tmp_path: Path) -> None:
    base = replace(BASE, point=replace(BASE.point, control="synthetic"))
    fast = replace(FAST, point=replace(FAST.point, control="synthetic"))
    found = judged(tmp_path, base, fast)
    assert [c.synthetic for c in found.comparisons] == [True, True]
    assert (only(found).verdict, only(found).sentence) == (None, SYNTHETIC)
    alone = only(judged(tmp_path / "alone", base))
    assert (alone.verdict, alone.sentence) == (None, SYNTHETIC)


def test_without_a_baseline_nothing_is_said_of_speed(tmp_path: Path) -> None:
    workload = only(judged(tmp_path, replace(FAST, baseline=None)))
    assert workload.verdict == "inconclusive"
    assert workload.sentence == (
        "there is no baseline to compare with; measure one (baseline=shared)"
    )


def test_without_one_because_it_is_off(tmp_path: Path) -> None:
    found = judged(tmp_path, replace(FAST, baseline=None), baseline="off")
    assert found.comparisons[0].speedup.reason == "baseline=off"
    said = list(lines(found))
    sentence = "baseline=off: there is no baseline to compare with; measure one (baseline=shared)"
    assert said[0] == f"chat · greedy · sequential · org/model: inconclusive. {sentence}"
    assert said[1] == f"  output right? not measured: {sentence}"
    assert found.comparisons[0].output.sentence == "not measured: baseline=off"
    assert "speed-up not measured: baseline=off" in markdown(found)


def test_a_setting_is_compared_with_the_baseline_of_its_own_server(tmp_path: Path) -> None:
    """On the second node everything takes twice as long; there the faster setting is."""
    ngram, eagle3 = FAST.point, SLOW.point
    own = [replace(BASE.point, before=p.server.key) for p in (ngram, eagle3)]
    made = (
        Made(point=own[0], records=answers(2.0)),
        Made(point=ngram, records=answers(1.0, spec=LOOKUP, steps=12), baseline=0),
        Made(point=own[1], records=answers(4.0, decode_ms=8000.0)),
        Made(
            point=eagle3,
            records=answers(1.5, spec=LOOKUP, steps=12, decode_ms=3000.0),
            baseline=2,
        ),
    )
    found = judged(tmp_path, *made)
    workload = only(found)
    speedups = [c.speedup.value for c in found.comparisons]
    assert speedups[1] == pytest.approx(2.0, rel=0.05)
    assert speedups[3] == pytest.approx(4 / 1.5, rel=0.05)
    assert [b.number for b in workload.baselines] == [0, 2]
    assert workload.best is not None and workload.best.number == 3
    assert workload.tied == ()
    assert workload.break_even[1].needed.value == pytest.approx((3.0 / 12) / (8.0 / 20))
    titles = [heading(group) for group in groups(found.comparisons)]
    assert [title.rpartition(" · ")[2] for title in titles] == [
        "own baseline of ngram γ=2",
        "own baseline of eagle3 γ=4",
    ]


def test_break_even_is_measured(tmp_path: Path) -> None:
    base = replace(BASE, records=answers(2.0, decode_ms=2000.0))
    fast = replace(FAST, records=answers(1.0, spec=LOOKUP, steps=12, decode_ms=1500.0))
    workload = only(judged(tmp_path, base, fast))
    (even,) = workload.break_even
    assert even.step_cost.value == pytest.approx((1.5 / 12) / (2.0 / 20))
    assert even.needed.value == pytest.approx(1.25)
    assert even.got.value == pytest.approx(20 / 12)
    assert even.margin.value == pytest.approx(20 / 12 / 1.25 - 1)
    assert workload.answers[2].state == "yes"
    assert workload.answers[2].sentence.startswith("a step costs 1.25 [1.25, 1.25] baseline steps")


def test_the_curve_is_a_prediction_from_the_largest_gamma(tmp_path: Path) -> None:
    base = replace(BASE, records=answers(2.0, decode_ms=2000.0))
    two = point("ngram", 2)
    four = point("ngram", 4)
    made = (
        replace(FAST, point=two, records=answers(1.0, spec=LOOKUP, steps=12, decode_ms=1000.0)),
        Made(
            point=four,
            records=answers(1.1, spec=counts((2, 1, 1, 1, 3)), steps=10, decode_ms=1500.0),
        ),
    )
    (curve,) = only(judged(tmp_path, base, *made)).curves
    assert (curve.method, curve.source, len(curve.points)) == ("ngram", 2, 4)
    # Of 10 steps, 6, 5, 4 and 3 accepted at least 1, 2, 3 and 4 tokens.
    predicted = [p.predicted_tokens_per_step.value for p in curve.points]
    assert predicted == pytest.approx([1.6, 2.1, 2.5, 2.8])
    assert curve.points[1].predicted_tokens_per_step.reason == "prediction"
    assert curve.points[1].measured_tokens_per_step.value == pytest.approx(20 / 12)
    assert curve.points[2].measured_tokens_per_step.reason == "this γ was not measured"
    # A step of γ = 4 costs 1.5 times a baseline's, so one of γ = 2 is taken as 1.25.
    assert curve.points[1].predicted_speedup.value == pytest.approx(2.1 / 1.25)


def closed(concurrency: int) -> Load:
    return Load(name="closed", concurrency=concurrency, stream=True)


def streamed(records: Sequence[RequestRecord]) -> tuple[RequestRecord, ...]:
    """In one event at the start and one at the end."""
    return tuple(replace(r, first_ns=10**8, chunk_ns=(10**8, r.done_ns - 10**8)) for r in records)


def at_loads(*speeds: tuple[int, float]) -> list[Made]:
    """One baseline and one ngram γ=4 for every (concurrency, speed-up)."""
    made = []
    for n, (concurrency, speed) in enumerate(speeds):
        load = closed(concurrency)
        slow, fast = answers(2.0, steps=None), answers(2.0 / speed, spec=LOOKUP, steps=None)
        made.append(Made(point=point("none", 0, load=load), records=streamed(slow)))
        four = point("ngram", 4, load=load)
        made.append(Made(point=four, records=streamed(fast), baseline=2 * n))
    return made


def test_several_loads_make_a_schedule_that_is_off_where_it_does_not_pay(tmp_path: Path) -> None:
    found = judged(tmp_path, *at_loads((1, 2.0), (8, 1.4), (32, 0.7)))
    assert [w.verdict for w in found.workloads] == ["deploy", "deploy", "don't"]
    (one,) = found.schedules
    assert one.recommendation.schedule == ((1, 1, 4), (2, 8, 4), (9, 32, 0), (33, 4096, 0))
    assert found.overall.verdict == "deploy"
    assert found.overall.recommendation == one.recommendation
    assert one.recommendation.sentence == (
        "above 32 requests at once nothing was measured, so nothing is drafted there"
    )
    assert '"num_speculative_tokens": 4' in one.recommendation.command
    config = one.recommendation.speculative_config
    assert config["num_speculative_tokens_per_batch_size"][0] == [1, 1, 4]


def test_a_method_without_schedules_gets_none(tmp_path: Path) -> None:
    made = at_loads((1, 2.0), (8, 1.4))
    suffix = [
        replace(m, point=replace(point("suffix", 4), load=m.point.load)) if n % 2 else m
        for n, m in enumerate(made)
    ]
    assert judged(tmp_path, *suffix).schedules == ()


def test_the_slo_decides_at_its_load(tmp_path: Path) -> None:
    slo = asdict(Slo(e2e_ms=2000.0))
    found = judged(tmp_path, *at_loads((1, 1.6), (8, 0.6)), slo=slo)
    one, eight = found.workloads
    # Times go from half to one and a half of the mean: 1.25 s keeps 2 s everywhere, 2 s does not.
    assert one.answers[3].state == "yes"
    assert one.answers[3].sentence == (
        "100 % of the requests kept the SLO, 50 % at the baseline; 95 % are asked for; "
        "it holds up to concurrency 1, at the baseline at no measured concurrency"
    )
    assert eight.answers[3].state == "no"


def test_a_limit_on_what_was_not_measured_is_not_broken(tmp_path: Path) -> None:
    load = replace(closed(8), stream=False)
    base = Made(point=point("none", 0, load=load), records=answers(2.0, steps=None))
    fast = answers(1.0, spec=LOOKUP, steps=None)
    made = (base, Made(point=point("ngram", 4, load=load), records=fast))
    reason = "TTFT is not measured: the answers are not streamed"
    for slo in (Slo(ttft_ms=200.0), Slo(ttft_ms=200.0, tpot_ms=20.0, e2e_ms=9000.0)):
        found = judged(tmp_path / str(slo.e2e_ms), *made, slo=asdict(slo))
        (workload,) = found.workloads
        assert workload.answers[3].state == "not measured"
        assert workload.answers[3].sentence == f"not measured: {reason}"
        for one in found.comparisons:
            assert (one.goodput, one.slo_share) == (undefined(reason), undefined(reason))
    found = judged(tmp_path / "e2e", *made, slo=asdict(Slo(e2e_ms=9000.0)))
    assert found.workloads[0].answers[3].state == "yes"


def test_datasets_that_disagree_leave_the_whole_open(tmp_path: Path) -> None:
    code = replace(CHAT, name="code", digest="d2")
    found = judged(
        tmp_path,
        BASE,
        replace(BASE, point=point("none", 0, dataset=code)),
        FAST,
        replace(SLOW, point=point("ngram", 2, dataset=code), baseline=1),
    )
    assert found.overall.verdict == "inconclusive"
    assert found.overall.sentence == (
        "deploy for chat · greedy · sequential · org/model; "
        "don't for code · greedy · sequential · org/model"
    )


def test_one_setting_for_all_datasets(tmp_path: Path) -> None:
    code = replace(CHAT, name="code", digest="d2")
    found = judged(
        tmp_path,
        BASE,
        replace(BASE, point=point("none", 0, dataset=code)),
        FAST,
        replace(FAST, point=point("ngram", 2, dataset=code), baseline=1),
    )
    assert found.overall.verdict == "deploy"
    assert found.overall.sentence == "ngram γ=2 for all 2 workloads"


def test_an_empty_sweep_is_judged_too(tmp_path: Path) -> None:
    found = judged(tmp_path)
    assert (found.overall.verdict, found.overall.sentence) == (
        "inconclusive",
        "nothing was measured",
    )


def test_the_command_line_writes_what_scripts_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = folder(tmp_path, BASE, FAST)
    assert main([str(tmp_path)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("chat · greedy · sequential · org/model: deploy. ngram γ=2: 2.0")
    assert said[-2] == "over all: deploy. ngram γ=2 for the one workload"
    assert said[-1].startswith("  run: vllm serve org/model --speculative-config ")
    written = json.loads((made.report / "recommended.json").read_text(encoding="utf-8"))
    assert written == json.loads(json.dumps(recommended(judge(made))))
    assert written["overall"]["recommendation"]["speculative_config"] == {
        "method": "ngram",
        "num_speculative_tokens": 2,
    }


def test_other_thresholds_change_the_word_and_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = folder(tmp_path, BASE, FAST)
    assert main([str(tmp_path), "--verdict", "strict"]) == 1
    assert "12 prompts decide nothing; measure 50 or more" in capsys.readouterr().out
    assert not (made.report / "recommended.json").exists()
    assert main([str(tmp_path), "--verdict", "nosuch"]) == 2
    assert capsys.readouterr().err == (
        "sweeper.judge: --verdict nosuch: no such file; known: default, speed, strict\n"
    )


def test_a_folder_of_something_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"sweeper.judge: {tmp_path}/sweep.json is missing\n"
