"""Code that a model may write, where it runs: under bubblewrap."""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from sweeper.errors import ServerError
from sweeper.serve.sandbox import Limits, run_code

SHORT = Limits(seconds=3.0)
"""For what never ends; whatever ends by itself has time to do so on a busy machine."""
LONG = Limits(seconds=60.0)


@pytest.fixture(autouse=True, scope="module")
def bubblewrap() -> None:
    try:
        run_code(["pass"])
    except ServerError as none:
        pytest.skip(str(none))


def test_what_passes_and_what_does_not() -> None:
    assert run_code(["x = 1", "assert x == 1"]) == ""
    assert run_code(["x = 1", "assert x == 2, 'two'"]) == "AssertionError: two"
    assert run_code(["def f(:", ""]).startswith("SyntaxError: ")


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("import os; os._exit(0)", "no answer: ended with status 0"),
        ("import sys; sys.exit(0)", "SystemExit: 0"),
    ],
)
def test_ending_early_is_no_pass(source: str, why: str) -> None:
    assert run_code([source, "pass"], LONG) == why


def test_ending_never_is_no_pass() -> None:
    assert run_code(["while True: pass", "pass"], SHORT) == "no end within 3 s"


def test_forking_without_end() -> None:
    forks = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    assert run_code([forks], SHORT) == "no end within 3 s"
    once = "import os\nn = 0\nwhile n < 1000:\n    n += 1\n    if not os.fork(): os.pause()"
    assert run_code([once.replace("os.pause()", "__import__('time').sleep(99)")], LONG).startswith(
        "BlockingIOError: "
    )


def test_allocating_without_end() -> None:
    assert run_code(["a = []\nwhile True: a.append(bytearray(10**7))"], LONG) == "MemoryError:"
    together = (
        "import os, time\nfor _ in range(9):\n    if not os.fork(): break\n"
        "a = [bytearray(b'x' * 10**7) for _ in range(20)]\ntime.sleep(99)"
    )
    assert run_code([together], LONG) == "more than 512 MB"


def test_reading_the_home_folder_and_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THIS_TEST", "x")
    here = Path(__file__).resolve()
    for path in (here, Path.home(), Path("/home"), Path("/root"), Path("/etc/passwd")):
        assert run_code([f"import os; os.stat({str(path)!r})"]).startswith("FileNotFoundError: ")
    assert run_code(["import os; assert 'SECRET_OF_THIS_TEST' not in os.environ"]) == ""
    own = f"assert not __import__('os').path.exists('/proc/{os.getpid()}/environ')"
    assert os.getpid() < 20 or run_code([own]) == ""


def test_opening_a_socket() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        connect = f"import socket; socket.create_connection(('127.0.0.1', {port}), 1)"
        assert run_code([connect]).startswith("ConnectionRefusedError: ")
    outside = "import socket; socket.create_connection(('192.0.2.1', 80), 1)"
    assert "Network is unreachable" in run_code([outside])


def test_writing_gigabytes() -> None:
    one = "f = open('/tmp/x', 'wb')\nwhile True: f.write(b'x' * 10**6)"
    assert "File too large" in run_code([one], LONG)
    many = "n = 0\nwhile True:\n    n += 1\n    open(f'/tmp/{n}', 'wb').write(b'x' * 10**6)"
    assert "No space left on device" in run_code([many], LONG)
    for path in ("/x", "/usr/x", "/dev/x", "/etc/x"):
        assert "Read-only file system" in run_code([f"open({path!r}, 'w')"])
    assert run_code(["import sys\nsys.stdout.write('x' * 10**8)"], LONG) == ""


def test_killing_its_parent() -> None:
    parent = "import os\nos.kill(os.getppid(), 9)"
    assert run_code([parent, "pass"], LONG) == ""
    everything = (
        "import os\nfor pid in range(1, 70000):\n    try: os.kill(pid, 9)\n    except OSError: pass"
    )
    assert run_code([everything], LONG) == "no answer: ended with status 137"


def test_no_way_out_of_its_limits() -> None:
    raised = "import resource as r; r.setrlimit(r.RLIMIT_NPROC, (999, 999))"
    assert run_code([raised]) == "ValueError: not allowed to raise maximum limit"
    unshare = "import ctypes; assert ctypes.CDLL(None).unshare(0x10000000) == -1"
    assert run_code([unshare]) == ""
    root = "import os; assert os.getuid() != 0"
    assert os.geteuid() != 0 or run_code([root]) == ""


def test_nothing_is_left_of_it() -> None:
    """Its walls are known by a size that no other run asks for, what is inside by a name."""
    size, name = 100 + secrets.randbelow(9000), secrets.token_hex(6)
    named = f"import ctypes, os\nctypes.CDLL(None).prctl(15, b'{name}', 0, 0, 0)"
    run_code(
        [f"{named}\nfor _ in range(5): os.fork()\nwhile True: pass"], replace(SHORT, files_mb=size)
    )
    seen = (
        [*(p.info["cmdline"] or ()), p.info["name"]]
        for p in psutil.process_iter(["cmdline", "name"])
    )
    assert [words for words in seen if {name, str(size * 2**20)} & {*words}] == []


def test_without_bubblewrap_it_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from sweeper.serve import sandbox

    monkeypatch.setenv("PATH", str(tmp_path))
    sandbox._python.cache_clear()
    try:
        with pytest.raises(ServerError) as none:
            run_code(["pass"])
    finally:
        sandbox._python.cache_clear()
    assert str(none.value) == (
        "no sandbox: bwrap is not installed (Debian: apt-get install bubblewrap)"
    )
