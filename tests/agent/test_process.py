"""The agent as a process on this machine's own kernel; its manifests select no NIC there is."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from podrail.realise.state import State
from tests.agent.rig import policy

pytestmark = pytest.mark.netns

MAIN = [sys.executable, "-c", "from podrail.cli import main; main()", "agent"]
RSS_KB = 80 * 1024


class Running:
    """An agent, and the socket on which it tells systemd."""

    def __init__(self, process: subprocess.Popen[str], sock: socket.socket) -> None:
        self.process, self._sock = process, sock

    def hears(self, start: str) -> str:
        """The next message that starts so."""
        while True:
            said = self._sock.recv(4096).decode()
            if said.startswith(start):
                return said

    def ends(self, number: int) -> tuple[int, str]:
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=20)
        return self.process.returncode, err


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    place = tmp_path / "policy.yaml"
    place.write_text(policy(pfs="nowhere0"))
    return place


@contextmanager
def agent(tmp_path: Path, *options: str, **env: str) -> Iterator[Running]:
    name = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.settimeout(30)
        sock.bind(name)
        process = subprocess.Popen(
            [*MAIN, "--state", str(tmp_path / "state"), *options],
            env={**os.environ, "NOTIFY_SOCKET": name, **env},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            yield Running(process, sock)
        finally:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_gets_ready_and_stops(tmp_path: Path, manifest: Path, number: int) -> None:
    with agent(tmp_path, "-f", str(manifest)) as running:
        assert running.hears("READY=1").endswith(": 0; 0 as wanted, 0 not")
        code, err = running.ends(number)
        assert running.hears("STOPPING=1")
    assert (code, err.splitlines()[-1]) == (0, "stopping: the VFs stay as they are")


def test_it_stays_small(tmp_path: Path, manifest: Path) -> None:
    with agent(tmp_path, "-f", str(manifest)) as running:
        running.hears("READY=1")
        status = Path(f"/proc/{running.process.pid}/status").read_text()
    figures = dict(re.findall(r"^(VmHWM|VmRSS|Threads):\s+([0-9]+)", status, re.MULTILINE))
    assert int(figures["Threads"]) == 1
    assert int(figures["VmRSS"]) <= int(figures["VmHWM"]) <= RSS_KB


def test_a_hangup_brings_a_pass(tmp_path: Path, manifest: Path) -> None:
    with agent(tmp_path, "-f", str(manifest)) as running:
        running.hears("READY=1")
        running.process.send_signal(signal.SIGHUP)
        running.hears("STATUS=")
        assert running.ends(signal.SIGTERM)[0] == 0


def test_a_written_manifest_is_seen_without_any_event(tmp_path: Path, manifest: Path) -> None:
    with agent(tmp_path, "-f", str(manifest)) as running:
        running.hears("READY=1")
        manifest.write_text(policy("rail-b", pfs="nowhere1"))
        running.hears("STATUS=")
        _, err = running.ends(signal.SIGTERM)
    assert err.count("now wanted: ") == 2


def test_the_watchdog_is_fed(tmp_path: Path) -> None:
    with agent(tmp_path, WATCHDOG_USEC="200000") as running:
        running.hears("READY=1")
        assert [running.hears("WATCHDOG=1") for _ in range(3)] == ["WATCHDOG=1"] * 3


def test_the_second_one_is_refused_and_names_the_first(tmp_path: Path) -> None:
    with agent(tmp_path) as running:
        running.hears("READY=1")
        with State(str(tmp_path / "state")) as state:
            assert state.agent_pid() == running.process.pid
        argv = [*MAIN, "--state", str(tmp_path / "state")]
        second = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
        assert second.returncode == 5
        assert f"another agent (pid {running.process.pid})" in second.stderr
        assert running.process.poll() is None
