"""The keeper: no way of ending leaves a machine behind. Machines here are `sleep`."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


class Kept:
    """A keeper with two machines that only sleep."""

    def __init__(self, folder: Path) -> None:
        self.control = folder / "control"
        nodes = [
            {
                "name": f"node{n}",
                "argv": ["sleep", "600"],
                "nics": [[str(folder / f"h{n}"), str(folder / f"n{n}")]],
            }
            for n in (1, 2)
        ]
        file = folder / "spec.json"
        file.write_text(
            json.dumps({"control": str(self.control), "log": str(folder / "log"), "nodes": nodes})
        )
        self.process = subprocess.Popen(
            [sys.executable, "-m", "podrail.lab.keeper", str(file)], stdin=subprocess.PIPE
        )
        self.machines = self._wait_for_machines()

    def _wait_for_machines(self) -> list[int]:
        deadline = time.monotonic() + 20
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        while time.monotonic() < deadline:
            found = [int(pid) for pid in children.read_text().split()]
            if len(found) == 2 and self.control.exists():
                return found
        raise AssertionError("the keeper did not start its machines")

    def ask(self, **request: Any) -> Any:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(5)
            sock.connect(str(self.control))
            sock.sendall(json.dumps(request).encode() + b"\n")
            return json.loads(sock.makefile("rb").readline())

    def all_gone(self, watched: list[int]) -> bool:
        """Waits for every machine to end."""
        return all(select.select([fd], [], [], 10)[0] for fd in watched)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    made = Kept(tmp_path)
    yield made
    made.process.kill()
    made.process.wait()
    assert made.process.stdin
    made.process.stdin.close()


def watch(kept: Kept) -> list[int]:
    return [os.pidfd_open(pid) for pid in made] if (made := kept.machines) else []


def test_the_starter_dying_before_keep_takes_all_down(kept: Kept) -> None:
    machines = watch(kept)
    assert kept.process.stdin
    kept.process.stdin.close()
    assert kept.process.wait(10) == 0
    assert kept.all_gone(machines)


def test_after_keep_the_starter_may_go(kept: Kept) -> None:
    assert kept.process.stdin
    kept.process.stdin.write(b"keep\n")
    kept.process.stdin.close()
    assert kept.ask(op="status") == {"nodes": {"node1": None, "node2": None}, "kept": True}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_to_the_keeper_ends_every_machine(kept: Kept, number: int) -> None:
    machines = watch(kept)
    kept.process.send_signal(number)
    kept.process.wait(10)
    assert kept.all_gone(machines)


def test_a_machine_that_died_is_told(kept: Kept) -> None:
    os.kill(kept.machines[0], signal.SIGKILL)
    deadline = time.monotonic() + 10
    while (nodes := kept.ask(op="status")["nodes"])["node1"] is None:
        assert time.monotonic() < deadline
    assert nodes == {"node1": -9, "node2": None}


def test_wires_are_changed_and_nonsense_is_answered(kept: Kept) -> None:
    assert kept.ask(op="wire", node="node1", nic=0, mtu=1500) == {}
    assert "error" in kept.ask(op="wire", node="nobody", nic=0)
    assert "error" in kept.ask(op="dance")
    assert kept.ask(op="stop") == {}
    assert kept.process.wait(10) == 0
