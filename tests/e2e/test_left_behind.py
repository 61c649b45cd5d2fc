"""A process that even KILL does not remove, because a disk or a driver holds it, is told of."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sweeper.config import this_python
from sweeper.errors import ServerError
from sweeper.serve import guard, process
from sweeper.serve.session import serve
from sweeper.store import ServerFolder
from sweeper.values import ServerSpec
from tests.e2e.running import ENGINE, PATIENT_S

SAID = "the server left processes behind: "


@pytest.fixture(autouse=True)
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The kernel cannot be asked to keep a process: this guard's time for KILL is over at once."""
    program = Path(guard.__file__).read_text()
    hasty = tmp_path / "guard.py"
    hasty.write_text(program.replace(f"KILL_S = {guard.KILL_S}", "KILL_S = 0.0"))
    assert hasty.read_text() != program
    monkeypatch.setattr(process, "_GUARD", hasty)
    yield
    for one in left(tmp_path):
        with suppress(ProcessLookupError):
            os.kill(int(one.split()[0]), signal.SIGKILL)


def left(folder: Path) -> list[str]:
    return list(json.loads((folder / "server.json").read_text())["end"]["left"])


def used(
    folder: Path, error: BaseException | None = None, wait_s: float = PATIENT_S, **faults: object
) -> None:
    spec = ServerSpec(
        kind="vllm",
        command=this_python(("python", str(ENGINE))),
        model=str(folder),
        env=(("FAKE_ENGINE", json.dumps(faults)),),
        start_timeout_s=wait_s,
    )
    with serve(spec, ServerFolder(folder)):
        if error is not None:
            raise error


def test_it_is_an_error_of_the_server(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match=SAID) as caught:
        used(tmp_path, spawn_child=True)
    assert [str(caught.value)] == [SAID + one for one in left(tmp_path)]


def test_an_interruption_goes_first(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Else a sweep would go on with its next server after Ctrl-C."""
    with pytest.raises(KeyboardInterrupt):
        used(tmp_path, KeyboardInterrupt(), spawn_child=True)
    assert caplog.messages == [SAID + one for one in left(tmp_path)]


def test_why_it_did_not_start_goes_first(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ServerError, match="not ready after 1 s"):
        used(tmp_path, wait_s=1.0, never_ready=True, ignore_sigterm=True)
    assert caplog.messages == [SAID + one for one in left(tmp_path)]
