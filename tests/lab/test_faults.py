"""Every fault is felt inside the node, and every undo mends it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from podrail.lab.client import Connection, Lost
from podrail.lab.faults import FAULTS, Where, inflict
from podrail.lab.host import LabHost
from podrail.lab.state import LabState
from podrail.model.errors import Refused, UsageError
from tests.lab.test_lab import BEHIND_SWITCH, until

PF = "enp67s0"
POD, ADDRESS = "faulty", "192.168.77"
NUMVFS = f"/sys/bus/pci/devices/{BEHIND_SWITCH}/sriov_numvfs"


def must(host: LabHost, *argv: str) -> str:
    ran = host.run(argv)
    assert ran.rc == 0, f"{argv}: {ran.stderr}"
    return ran.stdout


def give_vf_to_pod(host: LabHost, number: int) -> None:
    """One VF in a namespace, with an address on rail 0."""
    must(host, "ip", "link", "set", PF, "up")
    host.write(NUMVFS, "1")
    must(host, "udevadm", "settle")
    vf = host.readlink(f"/sys/bus/pci/devices/{BEHIND_SWITCH}/virtfn0").rpartition("/")[2]
    (name,) = host.entries(f"/sys/bus/pci/devices/{vf}/net")
    must(host, "ip", "netns", "add", POD)
    must(host, "ip", "link", "set", name, "netns", POD, "name", "net1")
    must(host, "ip", "-n", POD, "addr", "add", f"{ADDRESS}.{number}/24", "dev", "net1")
    must(host, "ip", "-n", POD, "link", "set", "net1", "up")


def clean(host: LabHost) -> None:
    host.run(["ip", "netns", "del", POD])
    until(lambda: POD not in host.run(["ip", "netns", "list"]).stdout)
    host.write(NUMVFS, "0")


@pytest.fixture(scope="module")
def pods(node1: LabHost, node2: LabHost) -> Iterator[None]:
    for number, host in enumerate((node1, node2), start=1):
        give_vf_to_pod(host, number)
    yield
    for host in (node1, node2):
        clean(host)


class Fault:
    """Inflicts faults on node1 and takes back what can be taken back."""

    def __init__(self, lab: LabState, host: LabHost) -> None:
        self._lab, self._host = lab, host
        self._open: list[tuple[str, tuple[str, ...]]] = []

    def __call__(self, kind: str, *arguments: str) -> str:
        said = inflict(Where(self._lab, "node1", self._host, arguments), kind)
        if FAULTS[kind].undo:
            self._open.append((kind, arguments))
        return said

    def mend(self) -> None:
        while self._open:
            kind, arguments = self._open.pop()
            inflict(Where(self._lab, "node1", self._host, arguments), kind, undo=True)


@pytest.fixture
def do(lab: LabState, node1: LabHost) -> Iterator[Fault]:
    fault = Fault(lab, node1)
    yield fault
    fault.mend()


def pings(host: LabHost, size: int = 56) -> bool:
    argv = [
        "ip",
        "netns",
        "exec",
        POD,
        "ping",
        "-c",
        "1",
        "-W",
        "2",
        "-s",
        str(size),
        f"{ADDRESS}.2",
    ]
    return host.run(argv).rc == 0


def carrier(host: LabHost) -> str:
    return host.read(f"/sys/class/net/{PF}/carrier").strip()


def test_link_down_and_up(pods: None, node1: LabHost, do: Fault) -> None:
    until(lambda: carrier(node1) == "1")
    do("link-down", "0")
    until(lambda: carrier(node1) == "0")
    do.mend()
    until(lambda: carrier(node1) == "1")


def test_a_flapping_carrier_is_counted(pods: None, node1: LabHost, do: Fault) -> None:
    changes = f"/sys/class/net/{PF}/carrier_changes"
    before = int(node1.read(changes))
    do("flap", "0", "3")
    assert int(node1.read(changes)) >= before + 6


def test_a_small_mtu_on_the_wire_loses_large_frames_only(
    pods: None, node1: LabHost, do: Fault
) -> None:
    until(lambda: pings(node1, 1000))
    do("wire-mtu", "600", "0")
    assert not pings(node1, 1000)
    assert pings(node1, 100)
    do.mend()
    assert pings(node1, 1000)


def test_a_policed_port_starves(pods: None, node1: LabHost, do: Fault) -> None:
    until(lambda: pings(node1, 1000))
    do("rate", "0.001", "0")
    until(lambda: not pings(node1, 1400))
    do.mend()
    until(lambda: pings(node1, 1000))


def test_a_vf_loses_its_driver(pods: None, node1: LabHost, do: Fault) -> None:
    vf = node1.readlink(f"/sys/bus/pci/devices/{BEHIND_SWITCH}/virtfn0").rpartition("/")[2]
    do("vf-unbind", vf)
    with pytest.raises(FileNotFoundError):
        node1.readlink(f"/sys/bus/pci/devices/{vf}/driver")
    do.mend()
    assert node1.readlink(f"/sys/bus/pci/devices/{vf}/driver").endswith("/igbvf")


def test_a_namespace_dies_and_gives_its_vf_back(node1: LabHost, do: Fault) -> None:
    clean(node1)
    give_vf_to_pod(node1, 1)
    do("netns-gone", POD)
    until(lambda: "net1" in node1.entries("/sys/class/net"))


def test_someone_else_writes_numvfs(node1: LabHost, do: Fault) -> None:
    clean(node1)
    node1.write(NUMVFS, "2")
    do("numvfs", BEHIND_SWITCH, "1")
    assert node1.read(NUMVFS).strip() == "1"
    node1.write(NUMVFS, "0")


def test_a_module_is_missing(node1: LabHost, do: Fault) -> None:
    must(node1, "modprobe", "rdma_rxe")
    do("module-missing", "rdma_rxe")
    assert "rdma_rxe" not in node1.read("/proc/modules")
    assert node1.run(["modprobe", "rdma_rxe"]).rc != 0, "it stays away until it is mended"
    do.mend()
    assert "rdma_rxe" in node1.read("/proc/modules")


def test_a_frozen_node_goes_on_where_it_was(lab: LabState, node1: LabHost, do: Fault) -> None:
    do("freeze")
    with pytest.raises(OSError, match="timed out"):
        Connection(lab.address("node1"), timeout=0.5)
    do.mend()
    assert node1.run(["true"]).rc == 0


def test_nonsense_is_named(do: Fault) -> None:
    for kind, arguments, error in (
        ("dance", (), UsageError), ("vf-unbind", (), UsageError), ("wire-mtu", ("x",), UsageError),
        ("vf-unbind", ("0000:ff:00.0",), Refused), ("netns-gone", ("nobody",), Refused),
        ("module-missing", ("nosuch",), Refused), ("rate", ("inf",), UsageError),
        ("numvfs", (BEHIND_SWITCH, "99"), UsageError), ("freeze", ("x",), UsageError),
    ):  # fmt: skip
        with pytest.raises(error):
            do(kind, *arguments)


def test_power_cycle(lab: LabState, node2: LabHost) -> None:
    """Last: the node comes back as after a boot, and what was asked of it before fails."""
    node2.write(NUMVFS, "1")
    inflict(Where(lab, "node2", node2, ()), "power-cycle")
    with pytest.raises(Lost, match=r"went away|does not answer"):
        node2.run(["sleep", "120"], timeout=120)
    node2.close()
    until(lambda: _answers(lab), 120)
    assert node2.read(NUMVFS).strip() == "0"


def _answers(lab: LabState) -> bool:
    try:
        with Connection(lab.address("node2"), timeout=2.0) as connection:
            return bool(json.dumps(connection.ask("ping")))
    except OSError:
        return False
