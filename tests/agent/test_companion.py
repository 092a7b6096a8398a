"""The process beside the agent."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from podrail.agent.companion import Companion

STAYS = "import signal; signal.sigwait({signal.SIGUSR1})"


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def stays(clock: Clock) -> Iterator[Companion]:
    one = Companion([sys.executable, "-c", STAYS], clock)
    yield one
    one.stop()


def _pid(one: Companion) -> int:
    assert one._process is not None
    return one._process.pid


def test_it_is_started_once_and_ends_with_the_agent(stays: Companion) -> None:
    assert stays.look() is None
    pid = _pid(stays)
    assert stays.look() is None
    assert _pid(stays) == pid
    stays.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_one_that_cannot_stay_is_started_later_and_later(clock: Clock) -> None:
    one = Companion([sys.executable, "-c", "raise SystemExit(7)"], clock)
    told = []
    for _ in range(4):
        one.look()
        if one._process:
            one._process.wait()
        told.append(one.look())
        clock.now += 60
    assert told[:3] == [
        "it ended with 7; started again in 2 s",
        "it ended with 7; started again in 4 s",
        "it ended with 7; started again in 8 s",
    ]
    one.stop()


def test_until_then_it_is_left_alone(clock: Clock) -> None:
    one = Companion([sys.executable, "-c", ""], clock)
    one.look()
    assert one._process is not None
    one._process.wait()
    assert one.look() == "it ended with 0; started again in 2 s"
    assert one.look() is None
    clock.now += 2.5
    one.look()
    assert one._process.returncode is None, "and then it is started"
    one.stop()


def test_it_finds_the_same_modules(tmp_path: Path, clock: Clock) -> None:
    mark = tmp_path / "mark"
    program = f"import podrail.attach.service, pathlib; pathlib.Path({str(mark)!r}).touch()"
    one = Companion([sys.executable, "-c", program], clock)
    one.look()
    assert one._process is not None
    assert one._process.wait() == 0
    assert mark.exists()
