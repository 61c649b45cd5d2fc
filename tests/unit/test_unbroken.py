"""A call is made whole before Ctrl-C or TERM is felt."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from types import FrameType

import pytest

from sweeper.report.unbroken import Unbroken, unbroken

BOTH = (signal.SIGINT, signal.SIGTERM)


def interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {n: signal.signal(n, interrupt) for n in BOTH}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Client:
    """Is signalled while it works."""

    def __init__(self, *signals: signal.Signals, fails: bool = False) -> None:
        self.signals, self.fails = signals, fails
        self.done: list[int] = []

    def work(self, number: int, *, twice: bool = False) -> int:
        """What work does."""
        for each in self.signals:
            signal.raise_signal(each)
        if self.fails:
            raise ValueError("locked")
        self.done.append(number)
        return number * 2 if twice else number


def test_a_call_without_signals() -> None:
    client = Client()
    assert Unbroken(client).work(3, twice=True) == 6
    assert Unbroken(client).work.__doc__ == "What work does."
    assert [signal.getsignal(n) for n in BOTH] == [interrupt] * 2


@pytest.mark.parametrize("number", BOTH)
def test_a_signal_is_felt_after_the_call(number: signal.Signals) -> None:
    client = Client(number)
    with pytest.raises(KeyboardInterrupt, match=number.name):
        Unbroken(client).work(3)
    assert client.done == [3]
    assert [signal.getsignal(n) for n in BOTH] == [interrupt] * 2


def test_a_second_signal_is_felt_at_once_and_only_once() -> None:
    client = Client(signal.SIGINT, signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt, match="SIGTERM") as felt:
        Unbroken(client).work(3)
    assert (client.done, felt.value.__context__) == ([], None)


def test_a_signal_is_not_lost_when_the_call_fails() -> None:
    with pytest.raises(KeyboardInterrupt) as felt:
        Unbroken(Client(signal.SIGINT, fails=True)).work(3)
    assert str(felt.value.__context__) == "locked"


def test_a_failure_without_signals_stays_what_it_is() -> None:
    with pytest.raises(ValueError, match="locked"):
        Unbroken(Client(fails=True)).work(3)


def test_what_ends_the_process_or_is_ignored_stays_so() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with unbroken():
        assert [signal.getsignal(n) for n in BOTH] == [signal.SIG_IGN, signal.SIG_DFL]


def test_in_another_thread_nothing_is_touched() -> None:
    seen: list[object] = []

    def work() -> None:
        with unbroken():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [interrupt]
