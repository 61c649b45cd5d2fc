from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from sweeper.judge.judgement import judge
from sweeper.report.page import build
from sweeper.report.page.answers import block, steps_of
from sweeper.report.page.build import write_page
from sweeper.report.page.curves import curve_drawing
from sweeper.report.page.drawing import Drawing
from sweeper.report.page.histogram import histogram
from sweeper.report.page.svg import style, styles
from sweeper.store import SweepFolder
from sweeper.values import Load, SpecCounts
from tests.unit.sweeps import CHAT, Made, counts, folder, point, record

SPEC = counts((1, 0, 2))
BASE = Made(
    point=point("none", 0), records=tuple(record(f"p{n}", seconds=2.0 + n / 9) for n in range(4))
)
NGRAM = Made(
    point=point("ngram", 2),
    records=tuple(record(f"p{n}", spec=SPEC, steps=3, tokens=8) for n in range(4)),
)
BROKEN = Made(point=point("eagle3", 4), status="failed", reason="CUDA out of memory")


class Letters:
    """A tokenizer whose token n is the n-th letter; 200 and 201 are the halves of one sign."""

    def decode(self, ids: list[int]) -> str:
        text = "".join({200: "<", 201: ">"}.get(i, chr(96 + i)) for i in ids)
        return text.replace("<>", "é").replace("<", "�").replace(">", "�")

    def decode_batch(self, batch: list[list[int]]) -> list[str]:
        return [self.decode(ids) for ids in batch]


def paged(path: Path, *made: Made) -> str:
    sweep_folder = folder(path, *made)
    return write_page(sweep_folder, judge(sweep_folder)).read_text(encoding="utf-8")


def side(page: str, name: str) -> object:
    found = re.search(f'<script [^>]*id="side-{name}">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found.group(1))


def test_the_page_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    page = paged(tmp_path, BASE, NGRAM, BROKEN)
    addresses = re.findall(r'(?:src|href)="([^"#][^"]*)"', page)
    assert [a for a in addresses if not a.startswith("data:")] == []
    assert "@import" not in page and "url(http" not in page


def test_a_request_has_no_ratio_without_interval(tmp_path: Path) -> None:
    page = paged(tmp_path, BASE, NGRAM)
    assert "× the baseline" not in page
    assert "tokens/s, the baseline ${speed(base)}" in page


def test_undefined_figures_have_a_numbered_reason(tmp_path: Path) -> None:
    page = paged(tmp_path, BASE, NGRAM, BROKEN)
    reasons = re.findall(r"<li>(.*?)</li>", page[page.index("Why figures are missing") :])
    assert "failed: CUDA out of memory" in reasons
    mark = reasons.index("failed: CUDA out of memory") + 1
    row = page[page.index('href="#point-2">eagle3') :]
    assert f"not measured<sup>{mark}</sup>" in row[: row.index("</tr>")]


def test_a_speedup_stands_with_its_interval(tmp_path: Path) -> None:
    page = paged(tmp_path, BASE, NGRAM)
    row = page[page.index('href="#point-1">ngram') :]
    cell = row[row.index('<td class="n"') : row.index("</td>", row.index('<td class="n"'))]
    assert re.search(r">1\.\d\d<small>1\.\d\d to 1\.\d\d</small>$", cell)


def test_what_models_and_users_write_stays_text(tmp_path: Path) -> None:
    evil = "</script><img src=x onerror=alert(1)>\u2028"
    records = tuple(replace(r, text=evil) for r in BASE.records)
    named = point("none", 0, dataset=replace(CHAT, name="<b>a</b>"))
    page = paged(tmp_path, replace(BASE, point=named, records=records))
    assert "<img src=x" not in page and "<b>a</b>" not in page
    answers = side(page, "0")
    assert isinstance(answers, list) and answers[0]["text"] == evil


def test_plots_are_links_to_points_and_files(tmp_path: Path) -> None:
    timed = [
        replace(m, records=tuple(replace(r, decode_ms=r.done_ns / 2e6) for r in m.records))
        for m in (BASE, NGRAM)
    ]
    page = paged(tmp_path, *timed)
    assert '<a href="#point-1"><title>ngram γ=2: speed-up ' in page
    names = {path.name for path in (tmp_path / "report").glob("*.png")}
    drawn = ("speedup", "survival", "accepted", "steps", "over-time", "curve")
    assert names == {f"{n}-01-chat.png" for n in drawn}


def test_the_axis_does_not_follow_an_endless_interval(tmp_path: Path) -> None:
    seconds = (0.001, 1.0, 900.0, 2.0)
    wild = tuple(record(f"p{n}", spec=SPEC, steps=3, seconds=s) for n, s in enumerate(seconds))
    page = paged(tmp_path, BASE, replace(NGRAM, records=wild))
    assert "Intervals that reach the upper edge go on." in page
    assert "reach the upper edge" not in paged(tmp_path / "calm", BASE, NGRAM)


def timed(made: Made) -> Made:
    """With a decode time for every request, which the cost of a step comes from."""
    return replace(made, records=tuple(replace(r, decode_ms=900.0) for r in made.records))


def test_the_prediction_over_gamma_is_drawn_beside_what_was_measured(tmp_path: Path) -> None:
    deep = Made(
        point=point("ngram", 3),
        records=tuple(record(f"p{n}", spec=counts((1, 1, 1, 2)), steps=5) for n in range(4)),
    )
    sweep_folder = folder(tmp_path, *map(timed, (BASE, NGRAM, deep)))
    judgement = judge(sweep_folder)
    with style():
        (drawing,) = curve_drawing(judgement.comparisons, judgement.workloads, styles(["ngram"]))
    assert isinstance(drawing, Drawing)
    (curve,) = judgement.workloads[0].curves
    predicted = [p.predicted_tokens_per_step.value for p in curve.points]
    tokens, speed = drawing.figure.axes
    line = tokens.lines[0]
    assert (line.get_linestyle(), list(line.get_ydata())) == ("--", predicted)
    dots = tokens.collections[0].get_offsets().data.tolist()
    measured = [c.acceptance.tokens_per_decode_step.value for c in judgement.comparisons[1:]]
    assert dots == [[2.0, measured[0]], [3.0, measured[1]]]
    assert speed.get_ylabel() == "decode speed-up"
    assert "Dashed: prediction" in drawing.caption
    page = write_page(sweep_folder, judgement).read_text(encoding="utf-8")
    assert "<h4>Predicted over γ</h4>" in page
    assert (tmp_path / "report" / "curve-01-chat.png").is_file()


def test_the_shares_of_steps_by_accepted_tokens_are_bars(tmp_path: Path) -> None:
    sweep_folder = folder(tmp_path, BASE, NGRAM)
    with style():
        drawing = histogram(judge(sweep_folder).comparisons[1:], styles(["ngram"]))
    assert isinstance(drawing, Drawing)
    heights = [bar.get_height() for bar in drawing.figure.axes[0].patches]
    assert heights == pytest.approx([1 / 3, 0, 2 / 3])
    blind = replace(NGRAM, records=tuple(replace(r, spec=None) for r in NGRAM.records))
    page = paged(tmp_path / "blind", BASE, blind)
    assert "<li>Tokens accepted in a step: not measured: no per-request metrics</li>" in page


def test_where_nothing_can_be_predicted_the_reason_stands(tmp_path: Path) -> None:
    unknown = replace(SPEC, histogram=None)
    records = tuple(replace(r, spec=unknown) for r in NGRAM.records)
    page = paged(tmp_path, BASE, replace(NGRAM, records=records))
    assert "<li>Predicted over γ: not measured: no acceptance histogram</li>" in page


def test_where_answers_leave_the_baselines_is_drawn(tmp_path: Path) -> None:
    said = [(1, 2, 3), (1, 2, 3), (1, 9), (8, 2, 3)]
    answers = zip(NGRAM.records, said, strict=True)
    other = tuple(replace(r, token_ids=ids, text=f"{ids}") for r, ids in answers)
    same = tuple(replace(r, text="(1, 2, 3)") for r in BASE.records)
    page = paged(tmp_path, replace(BASE, records=same), replace(NGRAM, records=other))
    assert "A line falls where an answer first leaves the baseline" in page
    assert (tmp_path / "report" / "divergence-01-chat.png").is_file()


def test_without_a_divergence_a_sentence_says_so(tmp_path: Path) -> None:
    said = "Divergence from the baseline&#39;s answers: "
    assert f"{said}none: every greedy answer is the baseline&#39;s" in paged(tmp_path, BASE, NGRAM)
    sampling = replace(NGRAM.point.sampling, temperature=0.7)
    hot = [replace(m, point=replace(m.point, sampling=sampling)) for m in (BASE, NGRAM)]
    assert f"{said}not measured: " in paged(tmp_path / "hot", *hot)


def test_a_group_without_completed_points_says_so(tmp_path: Path) -> None:
    page = paged(tmp_path, BASE, BROKEN)
    assert "Plots: not measured: no point beside the baseline was completed" in page


def test_colours_are_those_of_the_page(tmp_path: Path) -> None:
    svg = paged(tmp_path, BASE, NGRAM).split("<svg", 1)[1].split("</svg>", 1)[0]
    assert "var(--ink)" in svg and "#1b1f24" not in svg and "#ffffff" not in svg


def test_load_plots_need_several_loads(tmp_path: Path) -> None:
    made: list[Made] = []
    for concurrency in (1, 4):
        load = Load(name="closed", concurrency=concurrency, stream=True)
        for one in (BASE, NGRAM):
            records = tuple(
                replace(r, first_ns=r.sent_ns + 10**8, chunk_ns=(10**8, r.done_ns - 10**8))
                for r in one.records
            )
            baseline = len(made) - 1 if made and len(made) % 2 else 0
            made.append(
                replace(
                    one, point=replace(one.point, load=load), records=records, baseline=baseline
                )
            )
    page = paged(tmp_path, *made)
    assert "Speed-up over the load" in page and "chat · greedy · org/model over the load" in page
    alone = paged(tmp_path / "one", *made[:2])
    for title in ("Latency and throughput", "Speed-up"):
        why = "not measured: every workload has one load; load=closed load.concurrency=1,4,16"
        assert f"<li>{title} over the load: {why} measures several</li>" in alone


def test_a_large_sweep_has_its_requests_beside_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "EMBED_BYTES", 100)
    page = paged(tmp_path, BASE, NGRAM)
    assert 'id="side-1"' not in page
    script = (tmp_path / "report/requests/1.js").read_text(encoding="utf-8")
    assert script.startswith("sweeperSide(1,[{") and script.endswith("}]);\n")


def test_writing_twice_writes_the_same_page(tmp_path: Path) -> None:
    assert paged(tmp_path, BASE, NGRAM) == paged(tmp_path / "again", BASE, NGRAM)


def test_a_sweep_without_any_result_has_a_page(tmp_path: Path) -> None:
    page = paged(tmp_path, *(replace(m, records=(), result=False) for m in (BASE, NGRAM)))
    assert "0 of 2 points completed" in page
    assert "2 of 2 points have no figures" in page


def answered(accepted: tuple[int, ...], ids: tuple[int, ...], text: str) -> object:
    spec = SpecCounts(
        verify_steps=len(accepted),
        drafted=2 * len(accepted),
        accepted=sum(accepted),
        per_step_drafted=(2,) * len(accepted),
        per_step_accepted=accepted,
    )
    one = record("p", spec=spec, steps=len(accepted), token_ids=ids, text=text)
    return steps_of(one, Letters())


def test_the_answer_is_cut_by_step() -> None:
    steps = [("", "a", 0, 0), ("bc", "d", 2, 2), ("", "e", 2, 0)]
    assert answered((2, 0), (1, 2, 3, 4, 5), "abcde") == (steps, "")


def test_what_was_accepted_past_the_end_is_left_out() -> None:
    assert answered((2, 2), (1, 2, 3, 4, 5), "abcde") == (
        [("", "a", 0, 0), ("bc", "d", 2, 2), ("e", "", 2, 2)],
        "",
    )


def test_a_sign_of_two_tokens_goes_to_the_second() -> None:
    assert answered((1,), (1, 200, 201), "aé") == ([("", "a", 0, 0), ("", "é", 2, 1)], "")


def test_answers_that_cannot_be_cut_say_why() -> None:
    spec = replace(SPEC, per_step_drafted=(2, 2, 2), per_step_accepted=(0, 2, 2))
    one = record("p", spec=spec, steps=3, text="abc")
    assert steps_of(replace(one, decode_steps=7), Letters()) == (
        None,
        "4 of 7 steps had no draft, and which is not told",
    )
    assert steps_of(replace(one, decode_steps=None), Letters())[1] == (
        "steps without a draft are not counted where requests overlap"
    )
    assert steps_of(one, None)[1] == "the target's tokenizer is not on this machine"
    assert steps_of(replace(one, text="other"), Letters())[1] == (
        "the text does not come out of its tokens one by one"
    )
    assert steps_of(record("p", spec=SPEC, steps=3), Letters())[1] == (
        "the server reported no single steps"
    )
    assert steps_of(record("p"), None)[1] == "no draft was made for this answer"


def test_blocks_are_json_that_ends_no_script() -> None:
    text = block({"a": "</script>\u2028é"})
    assert "<" not in text and "\u2028" not in text
    assert json.loads(text) == {"a": "</script>\u2028é"}


def test_prompts_of_a_changed_file_are_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_text('{"id": "p0", "prompt": "why"}\n', encoding="utf-8")
    dataset = replace(CHAT, path=str(path))
    page = paged(tmp_path / "s", replace(BASE, point=point("none", 0, dataset=dataset)))
    assert side(page, "prompts-d1") == {}


def test_the_folder_of_a_sweep_names_its_page(tmp_path: Path) -> None:
    assert SweepFolder(tmp_path).page == tmp_path / "report" / "index.html"
