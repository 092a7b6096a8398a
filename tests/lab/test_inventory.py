"""Inventory of a node with rails: Soft-RoCE on VFs, a VF in a pod's namespace, NFS over RDMA."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from podrail.host.seam import Host
from podrail.inventory import discover
from podrail.lab.host import LabHost
from podrail.model.inventory import Gid, Inventory
from podrail.model.vf import Vf
from tests.twin.conftest import until

PF, NAME = "0000:81:00.0", "ens2"
SHARE, MOUNT = "/srv/podrail-share", "/mnt/podrail-share"


@dataclass(frozen=True, slots=True)
class Rail:
    """A node with two VFs; VF 0 carries `rxe0` and an address."""

    host: Host
    address: str

    def do(self, *argv: str) -> str:
        ran = self.host.run(argv, timeout=60.0)
        assert ran.rc == 0, f"{' '.join(argv)}: exit {ran.rc}: {ran.stderr}"
        return ran.stdout

    def seen(self) -> Inventory:
        return discover(self.host)

    def vf(self, index: int) -> Vf:
        return next(pf for pf in self.seen().pfs if pf.pci == PF).vfs[index]

    def gids(self) -> tuple[Gid, ...]:
        return next(d for d in self.seen().rdma if d.name == "rxe0").ports[0].gids

    def lay(self) -> None:
        at = f"/sys/bus/pci/devices/{PF}"
        self.host.write(f"{at}/sriov_numvfs", "0")
        self.do("ip", "link", "set", NAME, "up")
        self.host.write(f"{at}/sriov_numvfs", "2")
        self.do("udevadm", "settle")
        carrier = f"/sys/class/net/{NAME}/carrier"
        until(lambda: self.host.read(carrier) == "1\n", f"a carrier on {NAME}")
        for way in ("unbind", "bind"):  # enabling SR-IOV resets the PF under its first VF
            self.host.write(f"/sys/bus/pci/drivers/igbvf/{way}", "0000:81:10.0")
        self.do("udevadm", "settle")
        self.do("modprobe", "-a", "rdma_rxe", "rpcrdma")
        self.do("ip", "link", "set", f"{NAME}v0", "up")
        self.do("ip", "addr", "add", f"{self.address}/24", "dev", f"{NAME}v0")
        self.do("rdma", "link", "add", "rxe0", "type", "rxe", "netdev", f"{NAME}v0")

    def lift(self) -> None:
        self.do("rdma", "link", "delete", "rxe0")
        self.host.write(f"/sys/bus/pci/devices/{PF}/sriov_numvfs", "0")
        self.do("ip", "link", "set", NAME, "down")


@pytest.fixture(scope="module")
def rails(node1: LabHost, node2: LabHost) -> Iterator[tuple[Rail, Rail]]:
    laid = Rail(node1, "10.7.0.1"), Rail(node2, "10.7.0.2")
    for rail in laid:
        rail.lay()
    yield laid
    for rail in laid:
        rail.lift()


@pytest.fixture
def rail(rails: tuple[Rail, Rail]) -> Rail:
    return rails[0]


def test_soft_roce_stands_on_a_vf(rail: Rail) -> None:
    mapped = "0000:0000:0000:0000:0000:ffff:0a07:0001"
    until(lambda: len(rail.gids()) > 1, "a GID for the address")
    seen = rail.seen()
    device = next(d for d in seen.rdma if d.name == "rxe0")
    assert (device.parent_pci, device.parent_netdev) == (None, "ens2v0")
    assert (device.driver, device.protocol, device.fabric) == ("rdma_rxe", "roce", "eth")
    assert (device.ports[0].state, device.ports[0].active_mtu) == ("ACTIVE", 1024)
    assert device.ports[0].gids[1] == Gid(1, mapped, "RoCE v2", "ens2v0")
    assert [(f.id, f.link_layer, f.devices) for f in seen.fabrics] == [
        ("eth", "Ethernet", ("rxe0",))
    ]
    assert seen.rdma_netns == "shared"
    vf = rail.vf(0)
    assert (vf.rdma, vf.netdev, vf.holder) == ("rxe0", "ens2v0", None)


def test_a_vf_in_a_namespace_is_held_and_its_rdma_device_is_not_ours(rail: Rail) -> None:
    rail.do("rdma", "link", "add", "rxe1", "type", "rxe", "netdev", "ens2v1")
    assert rail.vf(1).rdma == "rxe1"
    rail.do("ip", "netns", "add", "pod1")
    rail.do("ip", "link", "set", "ens2v1", "netns", "pod1")
    assert [d.name for d in rail.seen().rdma] == ["rxe0"]  # moving a netdev destroys its Soft-RoCE
    rail.do("ip", "-n", "pod1", "link", "set", "ens2v1", "name", "net1")
    inside = ["ip", "netns", "exec", "pod1"]
    rail.do(*inside, "rdma", "link", "add", "rxe1", "type", "rxe", "netdev", "net1")
    held, device = rail.vf(1), rail.seen().rdma[1]
    assert (held.netdev, held.rdma) == (None, None)
    assert held.holder == "netns (net device moved away)"
    assert (device.name, device.parent_netdev) == ("rxe1", "net1")
    rail.do("ip", "netns", "del", "pod1")
    until(lambda: rail.vf(1).netdev == "net1", "the VF back in the root namespace")
    assert (rail.vf(1).holder, rail.vf(1).rdma) == (None, None)


@pytest.fixture
def share(rails: tuple[Rail, Rail]) -> Iterator[str]:
    """An NFS export of node 2, offered over RDMA."""
    server = rails[1]
    pipes = "/var/lib/nfs/rpc_pipefs"
    server.do("modprobe", "nfsd")
    server.do("mkdir", "-p", SHARE, pipes)
    mounts = {SHARE: "tmpfs", "/proc/fs/nfsd": "nfsd", pipes: "rpc_pipefs"}
    mounted = server.host.read("/proc/mounts")
    for place, kind in mounts.items():
        if f" {place} " not in mounted:
            server.do("mount", "-t", kind, kind, place)
    server.do("rpcbind", "-w")
    server.do("exportfs", "-o", "rw,no_root_squash,fsid=0,insecure,no_subtree_check", f"*:{SHARE}")
    server.do("rpc.mountd")
    server.do("rpc.nfsd", "-N", "3", "--rdma=20049", "2")
    yield f"{server.address}:/"
    server.do("rpc.nfsd", "0")
    server.do("exportfs", "-ua")
    for daemon in ("rpc.mountd", "rpcbind"):
        server.do("pkill", "-x", daemon)
    server.do("umount", SHARE)


def test_nfs_over_rdma_shows_its_transport_and_holds_the_vf(
    rails: tuple[Rail, Rail], share: str
) -> None:
    client = rails[0]
    client.do("mkdir", "-p", MOUNT)
    options = "vers=4.2,proto=rdma,port=20049"
    mount = ("mount", "-t", "nfs", "-o", options, share, MOUNT)
    # RDMA-CM may give up in the first second after an address came
    until(lambda: client.host.run(mount, timeout=60.0).rc == 0, "the mount")
    try:
        (mounted,) = client.seen().mounts
        assert (mounted.target, mounted.fstype, mounted.transport) == (MOUNT, "nfs4", "rdma")
        assert mounted.connections == 1
        assert client.vf(0).holder == "rdma: 1 kernel connection on rxe0"
        assert "kernel connections on rxe0" in str(rails[1].vf(0).holder)
    finally:
        client.do("umount", MOUNT)
    until(lambda: client.vf(0).holder is None, "the VF free again")
