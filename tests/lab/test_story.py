"""The story as `make up` tells it, and a lab of more than two nodes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from podrail.cli.lab import bring_up
from podrail.lab import lifecycle
from podrail.lab.host import LabHost
from podrail.lab.state import labs
from tests.lab.test_lab import PODRAIL, until


def test_up_once_plays_in_the_lab_and_takes_it_down() -> None:
    done = subprocess.run(
        [PODRAIL, "up", "--once"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 nodes: 4 to create" in done.stdout
    assert "clean" in done.stdout
    assert labs.load("up") is None


def test_up_that_is_killed_takes_its_lab_along() -> None:
    story = subprocess.Popen([PODRAIL, "up"], stdout=subprocess.PIPE, text=True)
    assert story.stdout
    assert any("the lab stays up until Ctrl-C" in line for line in story.stdout)
    lab = labs.load("up")
    assert lab is not None
    story.kill()
    story.wait()
    story.stdout.close()
    until(lambda: not lab.alive, 20)


def test_where_no_lab_can_be_the_twin_plays(tmp_path: Path) -> None:
    """An ordinary user without QEMU: the reason, the one command, and the story all the same."""
    program = (
        "import sys; from podrail.lab import packages; from podrail.model.errors import Refused\n"
        "def no(*_, **__): raise Refused('no QEMU; as root: apt-get install qemu-system-x86')\n"
        "packages.ensure = no\n"
        "sys.argv = ['podrail', 'up', '--once']\n"
        "from podrail.cli import main; main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no lab here: no QEMU; as root: apt-get install qemu-system-x86" in done.stdout
    assert "twin:roce-cx6: 1 node: 1 to create" in done.stdout


def test_three_nodes_hear_each_other_on_both_rails() -> None:
    name = "test-three"
    lab = bring_up(name, 3)
    try:
        nodes = [LabHost(node.name, lab.address(node.name)) for node in lab.nodes]
        for rail, nic in enumerate(("enp67s0", "ens2")):
            for number, host in enumerate(nodes, start=1):
                address = f"192.168.{90 + rail}.{number}/24"
                host.run(["ip", "addr", "add", address, "dev", nic])
                host.run(["ip", "link", "set", nic, "up"])
            for to in (1, 2):
                ping = ["ping", "-c", "1", "-W", "2", f"192.168.{90 + rail}.{to}"]
                until(lambda ping=ping: nodes[2].run(ping).rc == 0)  # type: ignore[misc]
        for host in nodes:
            host.close()
    finally:
        lifecycle.down(name)
