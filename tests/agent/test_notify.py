"""systemd is told over a real socket, by path and by abstract name."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from podrail.agent.notify import Notifier
from tests.agent.rig import Clock


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    by_path = request.param == "path"
    name = str(tmp_path / "notify") if by_path else f"@podrail-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.settimeout(5)
        sock.bind(name if by_path else f"\0{name[1:]}")
        yield sock, name


def test_ready_status_and_stopping(manager: tuple[socket.socket, str]) -> None:
    sock, name = manager
    notifier = Notifier({"NOTIFY_SOCKET": name})
    notifier.ready("2 PFs\nREADY=0")
    notifier.status("as wanted")
    notifier.stopping()
    said = [sock.recv(4096).decode() for _ in range(3)]
    assert said[0] == "READY=1\nSTATUS=2 PFs READY=0"
    assert said[1] == "STATUS=as wanted"
    assert said[2].startswith("STOPPING=1\n")


def test_the_watchdog_is_fed_at_half_its_time(manager: tuple[socket.socket, str]) -> None:
    sock, name = manager
    clock = Clock()
    env = {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "4000000", "WATCHDOG_PID": str(os.getpid())}
    notifier = Notifier(env, clock)
    assert notifier.feed_seconds == 2.0
    notifier.alive()
    clock.now += 2.0
    notifier.alive()
    notifier.alive()
    notifier.status("end")
    assert [sock.recv(64) for _ in range(2)] == [b"WATCHDOG=1", b"STATUS=end"]


@pytest.mark.parametrize(
    "env",
    [
        pytest.param({}, id="none"),
        pytest.param({"WATCHDOG_USEC": "0"}, id="zero"),
        pytest.param({"WATCHDOG_USEC": "soon"}, id="no-number"),
        pytest.param({"WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}, id="another-process"),
    ],
)
def test_no_watchdog(env: dict[str, str]) -> None:
    assert Notifier(env).feed_seconds is None


@pytest.mark.parametrize("name", ["", "relative", "/nowhere/at/all", "@nobody-there", "vsock:2:1"])
def test_a_manager_that_is_not_there_harms_nobody(name: str) -> None:
    Notifier({"NOTIFY_SOCKET": name}).ready("x")
