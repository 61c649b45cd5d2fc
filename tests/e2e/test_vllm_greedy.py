"""Greedy answers of real servers: equal in float32, near ties in bfloat16, planted ones wrong.

Run by hand: ``pytest -m long tests/e2e/test_vllm_greedy.py -s`` prints what was found.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sweeper.judge.compare import Comparison, compare
from sweeper.scores import Scores
from sweeper.serve.installed import installed
from sweeper.store import SweepFolder
from tests.e2e.planted import EVERY_DRAFT_GREEDY, SAID, planted
from tests.e2e.running import only_sweep, run

pytestmark = [pytest.mark.vllm, pytest.mark.long, pytest.mark.timeout(1200)]

PROMPTS = 8
SMALL = (
    f"dataset.limit={PROMPTS}",
    *("gamma=4", "sampling.max_tokens=32", "tracker=none", "quality=none", "check.concurrency=4"),
)


def compared(outputs: Path, *overrides: str) -> tuple[SweepFolder, list[Comparison]]:
    argv = [sys.executable, "-m", "sweeper", "-m", f"output_dir={outputs}/out", *SMALL, *overrides]
    done = run(argv, timeout=1100)
    assert done.status == 0, done.out + done.err
    folder = only_sweep(outputs)
    arms = [c for c in compare(folder) if not c.point.is_baseline]
    for one in arms:
        print(f"{one.point.label} {one.point.dataset.name}: {one.output.state}: "
              f"{one.output.sentence}")  # fmt: skip
    return folder, arms


def scores(folder: SweepFolder) -> Scores:
    (base,) = [c for c in compare(folder) if c.point.is_baseline]
    found = folder.point(base.planned).read_scores()
    assert found is not None and found.problem == ""
    return found


def test_float32_answers_agree_token_for_token(tmp_path: Path) -> None:
    _, arms = compared(
        tmp_path, "method=ngram,draft_model", "dataset=code", "+server.args.dtype=float32"
    )
    assert [c.output.state for c in arms] == ["right", "right"]
    assert [c.identical_share.value for c in arms] == [1.0, 1.0]
    drafts = [c.acceptance for c in arms]
    assert all(d.drafted > d.accepted > 0 for d in drafts), "nothing was drafted, or all accepted"


def test_bfloat16_answers_differ_at_near_ties_only(tmp_path: Path) -> None:
    folder, arms = compared(tmp_path, "method=ngram,draft_model", "dataset=chat")
    found = scores(folder)
    assert len(found.answers) == PROMPTS and found.concurrency == 4
    assert all(a.again and a.again_near and a.batched for a in found.answers)
    alone = sum(a.again != a.token_ids for a in found.answers)
    among = sum(a.batched != a.token_ids for a in found.answers)
    print(f"the baseline differs from itself: {alone} alone, {among} of {PROMPTS} among others")
    assert {c.output.state for c in arms} <= {"right", "numerical"}
    assert "numerical" in [c.output.state for c in arms]
    assert all((c.output.noise.value or 0) > 0 for c in arms)


def test_a_planted_wrong_token_is_wrong_and_shown(tmp_path: Path) -> None:
    here = installed((sys.executable,))
    if here is None or not here.cpu or here.triton_cpu:
        pytest.skip("the plugin is for a CPU build without Triton")
    path = planted(tmp_path / "plugins", EVERY_DRAFT_GREEDY)
    folder, (arm,) = compared(
        tmp_path, "method=draft_model", "dataset=chat", f"+server.env.PYTHONPATH={path}"
    )
    logs = [log.read_text() for log in folder.path.glob("servers/*/server.log")]
    assert all(SAID in log for log in logs)
    assert arm.output.state == "wrong"
    assert len(arm.output.worst) == 3
    report = (folder.report / "report.md").read_text()
    for one in arm.output.worst:
        print(f"  {one.prompt_id} token {one.position}, gap {one.gap}: "
              f"{one.before[-40:]!r} {one.baseline_text[:40]!r} / {one.text[:40]!r}")  # fmt: skip
        assert one.kind == "wrong" and one.baseline_text != one.text
        assert one.prompt_id in report
