from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from sweeper.drive.datasets import describe
from sweeper.errors import StoreError
from sweeper.judge.compare import compare
from sweeper.quality.__main__ import main
from sweeper.quality.blind import export, read_back
from sweeper.quality.grade import grade
from sweeper.scores import Grader
from sweeper.store import SweepFolder, read_sweep, to_json
from sweeper.values import Dataset
from tests.unit.sweeps import Made, folder, point, record

GRADER = Grader(name="blind", pairs=50)


def sweep(path: Path, count: int = 12) -> SweepFolder:
    """A baseline that answers with ``plain`` and ngram with ``drafted``; one answer is equal."""
    prompts = path / "prompts.jsonl"
    lines = [{"id": f"p{n}", "prompt": f"<b>question</b> {n}", "reference": str(n)}
             for n in range(count)]  # fmt: skip
    prompts.write_text("".join(json.dumps(one) + "\n" for one in lines))
    dataset: Dataset = describe("mine", prompts, None)
    arms = []
    for method, gamma, word in (("none", 0, "plain"), ("ngram", 4, "drafted")):
        answers = tuple(
            record(f"p{n}", text="equal" if n == 0 else f"{word} {n}") for n in range(count)
        )
        arms.append(Made(point=point(method, gamma, dataset=dataset), records=answers))
    return folder(path / "sweep", *arms)


def choose(made: SweepFolder, file: Path, prefer: str) -> None:
    rows = list(csv.DictReader((made.blind / "pairs.csv").read_text().splitlines()))
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, ("pair", "choice"))
        writer.writeheader()
        for row in rows:
            choice = "left" if row["left"].startswith(prefer) else "right"
            writer.writerow({"pair": row["pair"], "choice": choice})


def test_sides_are_shuffled_and_the_key_is_apart(tmp_path: Path) -> None:
    made = sweep(tmp_path)
    assert export(made, GRADER, 0) == 11
    rows = list(csv.DictReader((made.blind / "pairs.csv").read_text().splitlines()))
    left = [row["left"].split()[0] for row in rows]
    assert {"plain", "drafted"} == set(left)
    key = json.loads(made.blind_key.read_text())
    for row in rows:
        side = key[row["pair"]]["side"]
        assert row[side].startswith("drafted")
    page = (made.blind / "pairs.html").read_text()
    assert "&lt;b&gt;question" in page and "<b>question" not in page
    assert not any(word in page for word in ("ngram", "point", "prompt_id"))


def test_of_two_turns_the_first_is_shown_under_its_question(tmp_path: Path) -> None:
    made = sweep(tmp_path, count=3)
    for planned in read_sweep(made).plan.points:
        with made.point(planned).requests.open("a") as file:
            for n in range(3):
                later = record(f"p{n}", text=f"later of {planned.number}", turn=1)
                file.write(json.dumps(to_json(later)) + "\n")
    assert export(made, GRADER, 0) == 2
    rows = csv.DictReader((made.blind / "pairs.csv").read_text().splitlines())
    assert not any("later" in row["left"] + row["right"] for row in rows)


def test_choices_become_a_win_rate(tmp_path: Path) -> None:
    made = sweep(tmp_path)
    export(made, GRADER, 0)
    choose(made, tmp_path / "chosen.csv", "drafted")
    assert read_back(made, GRADER, tmp_path / "chosen.csv") == {1: 11}
    output = compare(made)[1].output
    assert output.quality.value == pytest.approx(11.5 / 12)
    assert output.quality.low is not None and output.quality.low > 0.8
    assert output.quality_change.value == pytest.approx(11.5 / 12 - 0.5)
    assert output.quality_p == pytest.approx(2 / 2**11)


def test_a_file_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    made, file = sweep(tmp_path), tmp_path / "x.csv"
    export(made, GRADER, 0)
    for text, why in (
        ("a,b\n1,2\n", "no columns pair and choice; save it from pairs.html"),
        ("pair,choice\npair-001,leftish\n", "choices are left, right, same, not pair-001: leftish"),
        ("pair,choice\npair-999,left\n", "not pairs of this sweep: pair-999"),
    ):
        file.write_text(text)
        with pytest.raises(StoreError) as refused:
            read_back(made, GRADER, file)
        assert str(refused.value) == f"{file}: {why}"


def test_answers_are_graded_once_and_again_when_they_change(tmp_path: Path) -> None:
    made, said = sweep(tmp_path), list[str]()
    grader = Grader(name="exact_match")
    grade(made, grader, said.append)
    assert said == [
        "quality of none mine: 11 of 12 answers pass",
        "quality of ngram γ=4 mine: 11 of 12 answers pass",
    ]
    grade(made, grader, said.append)
    assert len(said) == 2
    base, other = compare(made)
    assert base.output.quality.value == pytest.approx(11 / 12)
    assert base.output.quality_change.reason == "is the baseline"
    assert (other.output.quality_change.value, other.output.quality_p) == (0.0, 1.0)
    home = made.point(other.planned)
    home.append(record("p11", text="drafted 7"))
    grade(made, grader, said.append)
    assert said[2:] == ["quality of ngram γ=4 mine: 11 of 13 answers pass"]


def test_a_grader_that_finds_nothing_to_grade_says_so(tmp_path: Path) -> None:
    made, said = sweep(tmp_path), list[str]()
    grade(made, Grader(name="unit_tests"), said.append)
    assert said[0] == "quality of none mine: not measured: no prompt with tests"
    assert compare(made)[0].output.quality.reason == "no prompt with tests"
    grade(made, Grader(name="by_dataset"), said.append)
    assert len(said) == 2


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = sweep(tmp_path)
    assert main([str(made.path), "--grader", "exact_match"]) == 0
    assert "11 of 12 answers pass" in capsys.readouterr().out
    assert main([str(made.path), "export"]) == 0
    assert capsys.readouterr().out.startswith("11 pairs: ")
    choose(made, made.blind / "pairs.csv.tmp", "plain")
    assert main([str(made.path), "read", "--file", str(made.blind / "pairs.csv.tmp")]) == 0
    assert capsys.readouterr().out == "point 1: 11 choices\n"
    assert main([str(tmp_path / "nothing")]) == 2
