"""A process that even KILL does not remove, because a disk or a driver holds it, is told of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sweeper.config import this_python
from sweeper.errors import ServerError
from sweeper.serve.process import ServerProcess
from sweeper.serve.session import serve
from sweeper.store import ServerFolder
from sweeper.values import Json, ServerSpec
from tests.e2e.running import ENGINE, PATIENT_S

SAID = "the server left processes behind: 4711 VLLM::EngineCor"
stop = ServerProcess.stop


@pytest.fixture(autouse=True)
def held(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel cannot be asked to keep a process; the guard's report is made up."""

    def stopped(process: ServerProcess, *, was_ready: bool = True) -> dict[str, Json]:
        return stop(process, was_ready=was_ready) | {"left": ["4711 VLLM::EngineCor"]}

    monkeypatch.setattr(ServerProcess, "stop", stopped)


def used(folder: Path, error: BaseException | None = None, **faults: object) -> None:
    spec = ServerSpec(
        kind="vllm",
        command=this_python(("python", str(ENGINE))),
        model=str(folder),
        env=(("FAKE_ENGINE", json.dumps(faults)),),
        start_timeout_s=PATIENT_S,
    )
    with serve(spec, ServerFolder(folder)):
        if error is not None:
            raise error


def test_it_is_an_error_of_the_server(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match=SAID):
        used(tmp_path)
    facts = json.loads((tmp_path / "server.json").read_text())
    assert facts["end"]["left"] == ["4711 VLLM::EngineCor"] and facts["stop_s"] > 0


def test_an_interruption_goes_first(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Else a sweep would go on with its next server after Ctrl-C."""
    with pytest.raises(KeyboardInterrupt):
        used(tmp_path, KeyboardInterrupt())
    assert caplog.messages == [SAID]


def test_why_it_did_not_start_goes_first(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ServerError, match="exited with status 3 before it was ready"):
        used(tmp_path, exit_at_start={"code": 3})
    assert caplog.messages == [SAID]
