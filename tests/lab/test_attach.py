"""A pod's namespace gets its rail through the CNI plugin, and the VF comes back as it was."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from podrail.cli.inside import asked
from podrail.host.seam import Ran
from podrail.lab.client import Connection
from podrail.lab.host import LabHost
from podrail.lab.state import LabState
from tests.lab.inside.policies import policy
from tests.lab.test_lab import until

PF, VFS = "0000:81:00.0", ("0000:81:10.0", "0000:81:10.2")
PLUGIN = "/opt/cni/bin/podrail"
SOCKET = "/run/podrail/cni.sock"
INSTALL = """\
import sys
from pathlib import Path
sys.path[:0] = ["/opt/podrail/src", "/opt/podrail/site"]
from podrail.attach.forwarder.install import install
install(Path("/opt/cni/bin"))
"""


@dataclass
class Node:
    """A node with VFs, an agent that attaches, and the plugin where a runtime looks for it."""

    lab: LabState
    host: LabHost
    number: int

    @contextmanager
    def agent(self) -> Iterator[None]:
        with Connection(self.lab.address(f"node{self.number}")) as connection:
            argv = ["podrail", "agent", "--attach"]
            with open("/dev/null", "wb") as nowhere:
                running = threading.Thread(
                    target=connection.stream, args=(argv, None, nowhere, nowhere), daemon=True
                )
                running.start()
                until(self.answers)
                try:
                    yield
                finally:
                    connection.signal(15)
                    running.join(60)

    def answers(self) -> bool:
        return self.cni("STATUS", "", "").rc == 0

    def cni(self, command: str, container: str, device: str, **config: Any) -> Ran:
        """The plugin as a runtime calls it."""
        first = f"10.6.0.{10 * self.number}"
        body = {
            "cniVersion": "1.1.0", "name": "rail", "type": "podrail", "deviceID": device,
            "ipam": {"type": "whereabouts", "range": "10.6.0.0/24", "range_start": first},
            **config,
        }  # fmt: skip
        env = [f"CNI_COMMAND={command}", "CNI_PATH=/opt/cni/bin"]
        if container:
            env += [f"CNI_CONTAINERID={container}", f"CNI_NETNS=/run/netns/{container}",
                    "CNI_IFNAME=net1"]  # fmt: skip
        return self.host.run(["env", *env, PLUGIN], stdin=json.dumps(body))

    def add(self, container: str, device: str, **config: Any) -> dict[str, Any]:
        self.host.run(["ip", "netns", "add", container])
        ran = self.cni("ADD", container, device, **config)
        assert ran.rc == 0, ran.stdout
        result: dict[str, Any] = json.loads(ran.stdout)
        return result

    def delete(self, container: str, device: str) -> None:
        ran = self.cni("DEL", container, device)
        assert (ran.rc, ran.stdout) == (0, ""), ran.stdout

    def links(self) -> dict[str, Any]:
        """Every link and what PFs say of their VFs, without what a carrier changes by itself."""
        shown = json.loads(self.host.run(["ip", "-d", "-j", "link"]).stdout)
        gone = ("flags", "operstate", "permaddr", "qdisc", "linkmode")
        return {
            one["ifname"]: {key: value for key, value in one.items() if key not in gone}
            for one in shown
        }


@pytest.fixture(scope="module")
def nodes(lab: LabState, node1: LabHost, node2: LabHost) -> Iterator[tuple[Node, Node]]:
    found = tuple(Node(lab, host, i) for i, host in enumerate((node1, node2), start=1))
    manifests = [("rails.yaml", policy("rails", 2, "ens2"))]
    for node in found:
        spec = f"lab:{lab.name}/node{node.number}"
        told = asked(spec, "apply", [], manifests)
        assert all(one["state"] == "done" for one in told["outcomes"]), told
        node.host.run(["python3", "-IS", "-c", INSTALL])
    yield found[0], found[1]
    for node in found:
        asked(f"lab:{lab.name}/node{node.number}", "reset", [])


def test_two_pods_on_two_nodes_reach_each_other_over_their_rails(
    nodes: tuple[Node, Node],
) -> None:
    one, two = nodes
    before = [node.links() for node in nodes]
    with one.agent(), two.agent():
        mine = one.add("pod1", VFS[0], vlan=100, mac="02:00:00:00:00:61", mtu=1400)
        other = two.add("pod2", VFS[1], vlan=100)
        assert mine["interfaces"][0] == {
            "name": "net1", "mac": "02:00:00:00:00:61", "sandbox": "/run/netns/pod1",
            "mtu": 1400, "pciID": VFS[0],
        }  # fmt: skip
        assert mine["ips"] == [{"address": "10.6.0.10/24", "interface": 0}]
        assert other["ips"][0]["address"] == "10.6.0.20/24"
        ping = ["ip", "netns", "exec", "pod1", "ping", "-c", "1", "-W", "1", "10.6.0.20"]
        until(lambda: one.host.run(ping).rc == 0)
        assert one.cni("CHECK", "pod1", VFS[0], prevResult=mine).rc == 0
        one.delete("pod1", VFS[0])
        one.delete("pod1", VFS[0])
        two.delete("pod2", VFS[1])
    for node, pod in ((one, "pod1"), (two, "pod2")):
        node.host.run(["ip", "netns", "del", pod])
    assert [node.links() for node in nodes] == before


def test_a_vf_comes_back_when_its_namespace_died(nodes: tuple[Node, Node]) -> None:
    node, _ = nodes
    before = node.links()
    with node.agent():
        node.add("pod3", VFS[0])
        node.host.run(["ip", "netns", "del", "pod3"])
        until(lambda: bool(node.host.entries(f"/sys/bus/pci/devices/{VFS[0]}/net")))
        node.delete("pod3", VFS[0])
    assert node.links() == before


def test_without_the_agent_an_add_waits_and_a_del_is_kept(nodes: tuple[Node, Node]) -> None:
    node, _ = nodes
    before = node.links()
    with node.agent():
        node.add("pod4", VFS[0])
    refused = node.cni("ADD", "pod5", VFS[1])
    assert (refused.rc, json.loads(refused.stdout)["code"]) == (1, 11)
    node.delete("pod4", VFS[0])
    assert VFS[0] not in json.dumps(node.links()), "nobody was there to do it"
    with node.agent():
        until(lambda: node.links() == before)
    node.host.run(["ip", "netns", "del", "pod4"])


def test_what_fails_half_way_is_undone(nodes: tuple[Node, Node]) -> None:
    node, _ = nodes
    before = node.links()
    with node.agent():
        node.host.run(["ip", "netns", "add", "pod6"])
        refused = node.cni("ADD", "pod6", VFS[0], link_state="enable")  # igb has no such thing
        assert "Operation not supported" in json.loads(refused.stdout)["msg"]
        assert node.links() == before
        node.add("pod6", VFS[0])
        taken = node.cni("ADD", "pod7", VFS[0])
        assert json.loads(taken.stdout)["code"] == 11
        node.delete("pod6", VFS[0])
    node.host.run(["ip", "netns", "del", "pod6"])
    assert node.links() == before
