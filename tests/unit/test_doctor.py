"""What the doctor makes of what it sees, and what it says to do."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from sweeper.doctor.check import Check, as_json, healthy, print_checks
from sweeper.doctor.engine import of_installed
from sweeper.doctor.machine import LONGEST_TMPDIR, machine_checks, read_gpus, temporary_folder
from sweeper.doctor.services import mlflow_checks
from sweeper.doctor.trial import Trial, settings_checks, smallest
from sweeper.errors import UserError
from sweeper.jobs.cluster import Partition, read_partitions
from sweeper.multirun import compose_here
from sweeper.plan.grid import plan
from sweeper.prepare import Prepared
from sweeper.serve.installed import Installed
from sweeper.values import Job, Plan, Refusal
from tests.unit.sweeps import Made, counts, folder, point, record

HERE = Installed(
    python="/opt/v/bin/python",
    vllm="0.32.0",
    cpu=True,
    arctic_inference="0.3.0",
    methods=("ngram", "eagle3"),
)


def test_a_complete_environment() -> None:
    found = list(of_installed(HERE, gpu=False))
    assert {check.state for check in found} == {"ok"}
    assert found[0].found == "0.32.0 (CPU build) in /opt/v/bin/python"
    assert found[1].found == "ngram, eagle3"


def test_no_vllm_says_how_to_get_it() -> None:
    missing = Installed(python="/opt/v/bin/python", vllm=None, cpu=False, arctic_inference=None)
    (check,) = of_installed(missing, gpu=False)
    assert (check.state, check.found) == (
        "failure",
        "vLLM is not installed in /opt/v/bin/python",
    )
    assert check.fix.startswith(
        "in a clone of this project: /opt/v/bin/python -m pip install '.[cpu]' (no GPU) or '.[gpu]'"
    )


@pytest.mark.parametrize(
    ("cpu", "gpu", "sentence"),
    [(True, True, "and this machine has a GPU"), (False, False, "and this machine has no GPU")],
)
def test_a_build_for_another_machine(cpu: bool, gpu: bool, sentence: str) -> None:
    here = Installed(python="/p", vllm="0.32.0", cpu=cpu, arctic_inference="0.3.0")
    first = next(iter(of_installed(here, gpu=gpu)))
    assert first.state == "warning" and first.found.endswith(sentence) and first.fix


def test_what_an_old_vllm_lacks_is_named() -> None:
    old = Installed(
        python="/p",
        vllm="0.27.1",
        cpu=True,
        arctic_inference=None,
        per_request_metrics=False,
    )
    found = list(of_installed(old, gpu=False))
    assert found[0].found == "0.27.1 (CPU build) in /p; the method rules were read from 0.32.0"
    lacking = [c.found for c in found if c.state == "warning"]
    assert lacking == [
        "not here: counts with every request (--per-request-spec-decode-metrics)",
        "not installed: method=suffix cannot run",
    ]
    assert found[-1].fix == "in a clone of this project: /p -m pip install '.[suffix]'"


def test_a_temporary_folder_with_a_long_name() -> None:
    assert temporary_folder("/t" * 35).state == "ok"
    long = temporary_folder("/" + "t" * LONGEST_TMPDIR)
    assert long.state == "failure"
    assert long.fix == "export TMPDIR=/tmp, or another of at most 70 characters"


def test_gpus_and_who_holds_their_memory() -> None:
    said = (
        "0, NVIDIA A100-SXM4-80GB, 512, 81920, 550.54\n1, NVIDIA A100-SXM4-80GB, 0, 81920, 550.54"
    )
    held = "NVIDIA A100-SXM4-80GB, 4711, python, 500\n"
    first, second, holder = read_gpus(said, held)
    assert first.found == "NVIDIA A100-SXM4-80GB, driver 550.54, 512 of 81920 MiB in use"
    assert (second.name, second.state) == ("GPU 1", "ok")
    assert (holder.state, holder.found) == ("warning", "held by others: pid 4711 python: 500 MiB")
    assert [c.name for c in read_gpus(said, "")] == ["GPU 0", "GPU 1"]


def test_this_machine_can_be_looked_at(tmp_path: Path) -> None:
    names = [check.name for check in machine_checks(tmp_path / "not" / "there" / "yet")]
    assert names[:5] == [
        "disk for results",
        "disk for temporary files",
        "TMPDIR",
        "bubblewrap",
        "memory",
    ]


def test_partitions_as_sinfo_writes_them() -> None:
    said = "gpu*|up|1-00:00:00|4|gpu:a100:8\ndebug|down|30:00|1|(null)\n"
    assert list(read_partitions(said)) == [
        Partition(name="gpu*", up=True, limit="1-00:00:00", nodes=4, gres="gpu:a100:8"),
        Partition(name="debug", up=False, limit="30:00", nodes=1, gres=""),
    ]


def test_a_database_that_will_be_made_is_not_made(tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"
    (check,) = mlflow_checks(f"sqlite:///{database}")
    assert check.state == "ok"
    assert check.found.endswith(f"{database} will be made by the first sweep")
    assert not database.exists()


def test_settings_are_composed_or_refused_in_words() -> None:
    assert compose_here(["method=suffix", "gamma=2"]).data["gamma"] == 2
    with pytest.raises(UserError, match=r"^method=egle3: no such choice\. Did you mean 'eagle3'"):
        compose_here(["method=egle3"])


def test_a_comma_is_for_sweeps() -> None:
    with pytest.raises(UserError) as refused:
        compose_here(["method=ngram,suffix"])
    assert str(refused.value) == (
        "method=ngram,suffix: several values are a sweep (python -m sweeper -m …) and this takes "
        "one; a value that has a comma in it is quoted: \"key='a,b'\""
    )


def test_own_yaml_is_found(tmp_path: Path) -> None:
    (tmp_path / "method").mkdir()
    own = "name: mine\nspeculative: {method: ngram, num_speculative_tokens: 3}\n"
    (tmp_path / "method" / "mine.yaml").write_text(own)
    assert compose_here(["method=mine"], [str(tmp_path)]).data["method"]["name"] == "mine"


def asked(*skips: str) -> Plan:
    one = point("ngram", 4)
    return plan(
        [Job(number=0, overrides=(), point=one)],
        baseline="shared",
        skips={one.key: skips[0]} if skips else {},
    )


def test_refused_settings_and_points_that_cannot_be_measured_here_fail() -> None:
    refused = Plan(
        jobs=(), groups=(), refusals=(Refusal(number=0, overrides=(), reason="gamma: 0: no"),)
    )
    for wanted, fix in ((refused, "gamma: 0: no"), (asked("no CPU kernel"), "no CPU kernel")):
        found = list(settings_checks(Prepared(plan=wanted, settings=None, notes=())))
        assert [(c.state, c.fix) for c in found] == [("failure", fix)]


def test_notes_of_the_checks_are_passed_on() -> None:
    found = list(settings_checks(Prepared(plan=asked(), settings=None, notes=("not asked",))))
    assert [(c.state, c.found) for c in found] == [
        ("warning", "not asked"),
        ("ok", "ngram γ=4 on org/model with 6 prompts"),
    ]


def test_a_trial_is_two_prompts_of_every_point() -> None:
    small = smallest(asked())
    assert [(p.point.dataset.limit, p.point.repeats) for p in small.points] == [(2, 1), (2, 1)]
    assert [p.key for p in small.points] == [p.key for p in asked().points]


def tried(tmp_path: Path, accepted: list[int], seconds: float) -> list[Check]:
    spec = counts(accepted) if sum(accepted) else counts([0, 0, 0, 0, 0])
    base = tuple(record(name, seconds=2.0) for name in "ab")
    fast = tuple(record(name, seconds=seconds, spec=spec) for name in "ab")
    made = folder(
        tmp_path / "s",
        Made(point=point("none", 0), records=base),
        Made(point=point("ngram", 4), records=fast),
    )
    server = made.path / "servers" / "servers" / "x"
    server.mkdir(parents=True)
    (server / "server.json").write_text('{"start_s": 41.2, "version": "0.32.0"}')
    return list(Trial(plan=asked(), folder=made).checks())


def test_a_trial_says_what_was_drafted_and_which_was_faster(tmp_path: Path) -> None:
    found = tried(tmp_path, [1, 0, 0, 0, 2], 1.0)
    said = {check.name: check for check in found}
    assert said["drafts"].found == "24 tokens drafted, 16 accepted"
    assert (said["speed"].state, said["speed"].found) == (
        "ok",
        "2.00x its baseline's output rate in 6 generations: faster this once; a sweep says "
        "whether it is so",
    )
    assert said["resolved"].found == "the server did not say what it runs (/server_info)"
    assert said["none"].found.startswith("ready after 41 s, vLLM 0.32.0: ")


def test_a_lookup_that_drafted_nothing_is_a_warning(tmp_path: Path) -> None:
    said = {check.name: check for check in tried(tmp_path, [], 4.0)}
    assert said["drafts"].state == "warning"
    assert said["speed"].state == "note"


def test_what_is_printed_and_what_scripts_read() -> None:
    checks = [
        Check(name="disk", state="ok", found="9 GB free"),
        Check(name="TMPDIR", state="failure", found="too long", fix="export TMPDIR=/tmp"),
    ]
    console = Console(file=io.StringIO(), width=80)
    print_checks(console, checks)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == (
        "✓ disk    9 GB free\n✗ TMPDIR  too long\n          → export TMPDIR=/tmp\n"
    )
    assert not healthy(checks) and healthy(checks[:1])
    assert as_json(checks[:1]) == {
        "healthy": True,
        "checks": [{"name": "disk", "state": "ok", "found": "9 GB free", "fix": ""}],
    }
