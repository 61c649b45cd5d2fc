from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sweeper.judge.judgement import judge
from tests.unit.sweeps import CHAT, Made, folder, point, record


def test_a_workload_is_one_target_dataset_sampling_and_load(tmp_path: Path) -> None:
    code = replace(CHAT, name="code", digest="d2")
    answers = tuple(record(f"p{n}") for n in range(3))
    made = folder(
        tmp_path,
        Made(point=point("none", 0), records=answers),
        Made(point=point("none", 0, dataset=code), records=answers),
        Made(point=point("ngram", 2), records=answers),
        Made(point=point("ngram", 4, dataset=code), records=answers, baseline=1),
    )
    found = judge(made)
    assert [w.name for w in found.workloads] == [
        "chat · greedy · sequential · org/model",
        "code · greedy · sequential · org/model",
    ]
    assert [[c.number for c in w.candidates] for w in found.workloads] == [[2], [3]]
    assert [w.baseline.number for w in found.workloads if w.baseline] == [0, 1]
    assert [a.question for a in found.workloads[0].answers] == [
        "Is the output still right?",
        "Does the workload have useful candidates?",
        "Does a step pay for itself?",
        "Does the SLO hold under load?",
    ]
