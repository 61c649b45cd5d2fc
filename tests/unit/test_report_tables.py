from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from rich.cells import cell_len
from rich.console import Console

from sweeper.judge.compare import Comparison, compare
from sweeper.judge.judgement import judge
from sweeper.report.__main__ import main
from sweeper.report.markdown import markdown
from sweeper.report.page.cells import shown
from sweeper.report.tables import points_table, print_table, write_tables
from sweeper.store import SweepFolder
from sweeper.values import RequestRecord, SpecCounts
from tests.unit.sweeps import CHAT, GREEDY, Made, counts, folder, point, record

FIXED = [
    "method",
    "gamma",
    "dataset",
    "sampling",
    "load",
    "status",
    "reason",
    "speedup",
    "speedup_low",
    "speedup_high",
    "acceptance_rate",
    "mean_acceptance_length",
    "draft_coverage",
    "tokens_per_decode_step",
    "survival_1",
    "survival_2",
    "survival_3",
    "survival_4",
    "request_time_s",
    "output_tokens_per_s",
    "ttft_ms_p50",
    "ttft_ms_p95",
    "ttft_ms_p99",
    "tpot_ms_p50",
    "tpot_ms_p95",
    "tpot_ms_p99",
    "goodput",
    "success_rate",
    "identical_share",
    "quality",
    "verdict",
]
RARE = counts((0, 0, 0, 0, 5))
OOM = "server exited with 1:\n  CUDA out of memory | see `server.log`"


def requests(
    seconds: float, spec: SpecCounts | None = None, *, tokens: int = 121, steps: int = 120
) -> tuple[RequestRecord, ...]:
    return tuple(
        record(f"p{n}", seconds=seconds * (1 + n / 10), tokens=tokens, steps=steps, spec=spec)
        for n in range(6)
    )


BASE = Made(point=point("none", 0), records=requests(2.0))
LOOKUP = Made(point=point("ngram", 4), records=requests(1.6, RARE, steps=100))
BROKEN = Made(point=point("eagle3", 4), status="failed", reason=OOM)


def compared(path: Path, *made: Made) -> tuple[Comparison, ...]:
    return compare(folder(path, *(made or (BASE, LOOKUP, BROKEN))))


def paged(path: Path) -> str:
    return markdown(judge(SweepFolder(path)))


def printed(comparisons: tuple[Comparison, ...], width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    print_table(console, comparisons)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def row(lines: list[str], start: str) -> str:
    return next(line for line in lines if line.startswith(start))


def words(text: str) -> str:
    return " ".join(text.split())


def test_columns_are_fixed_and_the_undefined_is_empty(tmp_path: Path) -> None:
    table = points_table(compared(tmp_path))
    assert list(table.columns[: len(FIXED)]) == FIXED
    base, ngram, eagle = (table.iloc[n] for n in range(3))
    assert (base["method"], base["gamma"], base["status"]) == ("none", 0, "completed")
    assert ngram["mean_acceptance_length"] == 5.0
    assert ngram["tokens_per_decode_step"] == 1.2
    assert ngram["draft_coverage"] == 0.05
    assert ngram["survival_4"] == 1.0
    assert ngram["speedup"] == pytest.approx(1.25)
    assert pd.isna(base["speedup"])
    assert pd.isna(base["acceptance_rate"])
    assert pd.isna(eagle["request_time_s"])
    assert eagle["reason"] == "server exited with 1: CUDA out of memory | see `server.log`"


@pytest.mark.parametrize("name", ["ttft_ms_p50", "tpot_ms_p99", "goodput", "quality", "verdict"])
def test_columns_nothing_measures_yet_exist_and_are_empty(tmp_path: Path, name: str) -> None:
    assert points_table(compared(tmp_path))[name].isna().all()


def test_the_columns_of_a_sweep_that_measured_nothing_are_the_same(tmp_path: Path) -> None:
    empty = [replace(m, records=(), result=False) for m in (BASE, LOOKUP, BROKEN)]
    table = points_table(compared(tmp_path / "empty", *empty))
    assert list(table.columns) == list(points_table(compared(tmp_path / "full")).columns)
    assert list(table["status"]) == ["not measured yet"] * 3
    assert table["success_rate"].isna().all()


def test_files_agree_and_leave_nothing_temporary(tmp_path: Path) -> None:
    sweep_folder = folder(tmp_path, BASE, LOOKUP, BROKEN)
    write_tables(sweep_folder, judge(sweep_folder))
    csv = pd.read_csv(sweep_folder.points_csv)
    parquet = pd.read_parquet(sweep_folder.points_parquet)
    assert list(csv.columns) == list(parquet.columns)
    assert csv["speedup"].isna().tolist() == [True, False, True]
    assert parquet["speedup"].isna().tolist() == [True, False, True]
    text = sweep_folder.points_csv.read_text(encoding="utf-8")
    assert "nan" not in text.lower()
    assert list(sweep_folder.path.rglob("*.tmp")) == []
    assert (sweep_folder.report / "report.md").read_text(encoding="utf-8") == paged(tmp_path)


def test_writing_twice_writes_the_same_bytes(tmp_path: Path) -> None:
    sweep_folder = folder(tmp_path, BASE, LOOKUP)
    paths = (sweep_folder.points_csv, sweep_folder.points_parquet)
    write_tables(sweep_folder, judge(sweep_folder))
    first = [path.read_bytes() for path in paths]
    write_tables(sweep_folder, judge(sweep_folder))
    assert [path.read_bytes() for path in paths] == first


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_the_table_fits(tmp_path: Path, width: int) -> None:
    long = Made(point=point("draft_model", 16), records=requests(1.0, counts((1,) * 17)))
    lines = printed(compared(tmp_path, BASE, LOOKUP, BROKEN, long), width)
    assert max(cell_len(line) for line in lines) <= width


def test_all_columns_are_there_at_120(tmp_path: Path) -> None:
    """Those of which nothing was measured are said beneath, with the reason."""
    lines = printed(compared(tmp_path), 120)
    assert not any("leave no room" in line for line in lines)
    assert words(row(lines, "method γ")) == (
        "method γ A/D 1+A/S coverage step time s tok/s [low, high] output status"
    )
    assert words(row(lines, "ngram γ=4")) == (
        "ngram γ=4 1.000 5.00* 5 % 1.20 2.00 60.5 1.25 [1.25, 1.25] 100 % completed"
    )
    assert lines[-2:] == [
        "TPOT P99 ms: not measured: the answers were not streamed",
        "quality: not measured: answers were not graded",
    ]
    streamed = [
        replace(m, records=tuple(replace(r, chunk_ns=(10**8, 10**8)) for r in m.records))
        for m in (BASE, LOOKUP)
    ]
    lines = printed(compared(tmp_path / "streamed", *streamed), 120)
    assert words(row(lines, "method γ")).endswith("[low, high] output P99 ms status")
    alone = printed(compared(tmp_path / "alone", BASE), 120)
    assert lines[-1:] == alone[-1:] == ["quality: not measured: answers were not graded"]


def test_a_column_that_some_have_is_there_for_all(tmp_path: Path) -> None:
    dice = Made(point=point("none", 0, sampling=replace(GREEDY, name="dice", temperature=1.0)),
                records=requests(2.0))  # fmt: skip
    lines = printed(compared(tmp_path, BASE, LOOKUP, replace(dice, baseline=None)), 120)
    assert "output" in row(lines, "method γ")


def test_what_80_columns_leave_out_is_said(tmp_path: Path) -> None:
    lines = printed(compared(tmp_path), 80)
    assert words(" ".join(lines[-2:])) == (
        "quality: not measured: answers were not graded "
        "80 columns leave no room for 1+A/S, request time s; all are in points.csv."
    )
    assert words(row(lines, "ngram γ=4")) == (
        "ngram γ=4 1.000 5 % 1.20 60.5 1.25 [1.25, 1.25] 100 % completed"
    )


def test_five_hits_in_a_hundred_steps_are_never_headed_by_five(tmp_path: Path) -> None:
    comparisons = compared(tmp_path)
    for lines in (printed(comparisons, 120), paged(tmp_path).splitlines()):
        ngram = next(line for line in lines if line.startswith(("ngram γ=4", "| ngram γ=4")))
        assert "1.20" in ngram
        assert "5.00 " not in ngram  # always with the star
        assert any("read tokens/step" in line for line in lines)
        assert not any("5.0x" in line for line in lines)


def test_a_covered_method_has_no_star(tmp_path: Path) -> None:
    eagle = Made(point=point("eagle3", 4), records=requests(1.0, counts((0, 0, 0, 0, 120))))
    lines = printed(compared(tmp_path, BASE, eagle), 120)
    assert " 5.00 " in row(lines, "eagle3 γ=4")
    assert not any("read tokens/step" in line for line in lines)


def test_failed_points_are_rows_with_their_reason(tmp_path: Path) -> None:
    lines = printed(compared(tmp_path), 120)
    expected = "failed: server exited with 1: CUDA out of memory | see `server.log`"
    assert row(lines, "eagle3 γ=4").split(maxsplit=2)[2] == expected
    page = paged(tmp_path)
    assert r"failed: server exited with 1: CUDA out of memory \| see \`server.log\` |" in page


def test_the_share_of_successes_is_a_column_where_a_request_failed(tmp_path: Path) -> None:
    flaky = replace(LOOKUP, failed=1)
    invalid = replace(flaky, point=point("suffix", 4), status="invalid", reason="1 of 6 failed")
    found = compared(tmp_path, BASE, flaky, invalid)
    for width in (80, 140):
        lines = printed(found, width)
        assert any(line.split()[-2:] == ["success", "status"] for line in lines)
        row = next(line for line in lines if line.endswith("completed") and "83.3" in line)
        assert row.split()[-3:] == ["83.3", "%", "completed"]
    assert "same output, success" in " ".join(printed(found, 60))
    page = [line for line in paged(tmp_path).splitlines() if line.startswith("| ")]
    assert page[0].endswith("| quality | success | status |")
    assert page[2].endswith("| 100 % | completed |")
    assert page[3].endswith("| 83.3 % | completed |")
    assert page[4].endswith("| 83.3 % | invalid: 1 of 6 failed |")
    column = next(c for c in shown(found) if c.name == "success")
    assert [column.cell(c).text for c in found] == ["100 %", "83.3 %", "83.3 %"]


def test_where_every_request_was_answered_there_is_no_such_column(tmp_path: Path) -> None:
    found = compared(tmp_path, BASE, LOOKUP)
    assert "success" not in "\n".join(printed(found, 160))
    assert "success" not in paged(tmp_path)
    assert "success" not in {column.name for column in shown(found)}


def test_a_speedup_without_interval_is_not_shown(tmp_path: Path) -> None:
    one = [replace(m, records=m.records[:1]) for m in (BASE, LOOKUP)]
    comparisons = compared(tmp_path, *one)
    lines = printed(comparisons, 120)
    assert "1.25" not in "\n".join(lines)
    reason = "no speed-up: 1 prompts in common with the baseline, 2 are needed"
    assert f"  ngram γ=4: {reason}" in lines
    assert f"- ngram γ=4: {reason}" in paged(tmp_path)


def test_a_failed_baseline_is_named(tmp_path: Path) -> None:
    base = Made(point=BASE.point, status="failed", reason="port in use")
    lines = printed(compared(tmp_path, base, LOOKUP), 120)
    assert "  ngram γ=4: no speed-up: baseline failed: port in use" in lines


def test_groups_have_their_baseline_first(tmp_path: Path) -> None:
    code = replace(CHAT, name="code", digest="d2")
    made = (
        replace(LOOKUP, baseline=1),
        BASE,
        replace(LOOKUP, point=point("ngram", 4, dataset=code), baseline=3),
        replace(BASE, point=point("none", 0, dataset=code)),
    )
    lines = printed(compared(tmp_path, *made), 120)
    starts = [line.split(" · ")[0].split(" ")[0] for line in lines if line]
    wanted = [s for s in starts if s in ("chat", "code", "none", "ngram")]
    assert wanted == ["chat", "none", "ngram", "code", "none", "ngram"]
    assert lines[0] == "chat · greedy (T=0, up to 96 tokens) · sequential · org/model"


def test_several_gammas_come_with_a_warning_about_acceptance(tmp_path: Path) -> None:
    warning = (
        "A/D falls as γ grows, by its definition: compare it at equal γ only, and choose γ by "
        "speed-up."
    )
    two = replace(LOOKUP, point=point("ngram", 2))
    assert warning in printed(compared(tmp_path / "two", BASE, LOOKUP, two), 120)
    assert warning not in printed(compared(tmp_path / "one", BASE, LOOKUP), 120)


def test_rows_that_would_look_alike_say_what_differs(tmp_path: Path) -> None:
    wide = replace(LOOKUP, point=point("ngram", 4, speculative={"prompt_lookup_max": 5}))
    narrow = replace(LOOKUP, point=point("ngram", 4, speculative={"prompt_lookup_max": 2}))
    again = replace(LOOKUP, point=point("suffix", 24))
    warm = replace(LOOKUP, point=point("suffix", 24, warm=True))
    compared(tmp_path, BASE, wide, narrow, again, warm)
    page, _, _ = paged(tmp_path).partition("###")  # the points' own table
    starts = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| ")]
    assert starts[3:] == [
        r"| ngram γ=4 prompt\_lookup\_max=5",
        r"| ngram γ=4 prompt\_lookup\_max=2",
        "| suffix γ=24",
        "| suffix γ=24 warm",
    ]


def test_a_synthetic_row_says_so_everywhere(tmp_path: Path) -> None:
    control = point("ngram", 4, speculative={"rejection_sample_method": "synthetic"})
    comparisons = compared(tmp_path, BASE, replace(LOOKUP, point=control))
    assert "ngram γ=4 SYNTHETIC" in paged(tmp_path)
    assert paged(tmp_path).startswith("# Speculative decoding, compared (SYNTHETIC rows)\n")
    assert "ngram γ=4 SYNTHETIC" in "\n".join(printed(comparisons, 120))
    assert points_table(comparisons)["synthetic"].tolist() == [False, True]


def test_odd_names_do_not_break_the_page(tmp_path: Path) -> None:
    odd = replace(CHAT, name="a|b\n[bold]c[/] é 日本")
    sampling = replace(GREEDY, name="*x*")
    made = replace(BASE, point=point("none", 0, dataset=odd, sampling=sampling))
    comparisons = compared(tmp_path, made)
    assert r"## a\|b \[bold]c\[/] é 日本 · \*x\* (T=0," in paged(tmp_path)
    assert "[bold]c[/] é 日本 · *x* (T=0," in "\n".join(printed(comparisons, 120))


def test_no_colour_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    print_table(console, compared(tmp_path))
    assert isinstance(console.file, io.StringIO)
    assert "\x1b[31m" not in console.file.getvalue()  # red, of the failed row
    monkeypatch.delenv("NO_COLOR")
    console = Console(file=io.StringIO(), width=120, force_terminal=True, color_system="standard")
    print_table(console, compared(tmp_path / "colour"))
    assert isinstance(console.file, io.StringIO)
    assert "\x1b[31m" in console.file.getvalue()


def test_no_points_at_all(tmp_path: Path) -> None:
    comparisons = compare(folder(tmp_path))
    assert printed(comparisons, 80) == ["no points in this sweep"]
    assert len(points_table(comparisons)) == 0


@pytest.mark.parametrize(("made", "status"), [((BASE, LOOKUP), 0), ((BASE, BROKEN), 1)])
def test_the_command_says_whether_all_points_completed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], made: tuple[Made, ...], status: int
) -> None:
    folder(tmp_path, *made)
    assert main([str(tmp_path)]) == status
    assert "chat · greedy" in capsys.readouterr().out
    assert (tmp_path / "points.csv").is_file()


def test_the_command_refuses_another_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said == f"sweeper.report: {tmp_path / 'sweep.json'} is missing\n"


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "examples:\n  python -m sweeper.report outputs/" in capsys.readouterr().out
