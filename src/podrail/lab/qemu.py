"""The machine a node is: QEMU's argument vector. Pure.

Two NUMA nodes with a root complex each (pxb-pcie). Behind the first, a PCIe switch with a NIC and a
stand-in accelerator (`edu`); behind the second, another NIC. Every other device names `pcie.0`, or
QEMU would put it on a pxb and refuse. KVM is not asked for: nested under some hypervisors it cannot
boot the guest, and the lab proves function, not speed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

NICS = 2
"""Data-plane NICs of a node; NIC k of every node is on rail k."""


@dataclass(frozen=True, slots=True)
class Image:
    """What a node boots from."""

    kernel: Path
    initrd: Path
    root: Path


@dataclass(frozen=True, slots=True)
class Machine:
    """One node: its place in the lab and its files."""

    number: int
    port: int
    """Of the host, forwarded to the agent."""
    run: Path
    memory_mb: int = 1024

    @property
    def name(self) -> str:
        return f"node{self.number}"

    @property
    def console(self) -> Path:
        return self.run / f"{self.name}.console"

    @property
    def qmp(self) -> Path:
        return self.run / f"{self.name}.qmp"

    @property
    def secret(self) -> Path:
        return self.run / "secret"

    def wire(self, nic: int) -> Path:
        """The socket on which QEMU receives frames for a NIC."""
        return self.run / f"{self.name}.nic{nic}"

    def hub(self, nic: int) -> Path:
        """The socket on which the hub receives frames from a NIC."""
        return self.run / f"hub.{self.name}.nic{nic}"


_CMDLINE = (
    "console=ttyS0,115200 quiet loglevel=4 intel_iommu=on iommu=pt mitigations=off tsc=unstable "
    "no_timer_check rcupdate.rcu_expedited=1 net.ifnames=1 lab.udev=1"
)


def argv(machine: Machine, image: Image, podrail: Path | None, program: str) -> list[str]:
    """How to start one node."""
    return [
        program, "-name", machine.name, "-nodefaults", "-no-user-config", "-display", "none",
        *_board(machine),
        "-kernel", str(image.kernel), "-initrd", str(image.initrd),
        "-append", f"{_CMDLINE} lab.node={machine.number}",
        *_disk("root", image.root, snapshot=True),
        *(_disk("podrail", podrail, snapshot=False) if podrail else ()),
        *_management(machine),
        *_tree(machine),
        "-device", "virtio-rng-pci,bus=pcie.0",
        "-fw_cfg", f"name=opt/podrail/secret,file={machine.secret}",
        "-serial", f"file:{machine.console}",
        "-qmp", f"unix:{machine.qmp},server=on,wait=off",
    ]  # fmt: skip


def _board(machine: Machine) -> list[str]:
    half = machine.memory_mb // 2
    return [
        "-machine", "q35", "-accel", "tcg,thread=multi,tb-size=256", "-cpu", "max",
        "-smp", "2,sockets=2,cores=1", "-m", str(machine.memory_mb),
        "-object", f"memory-backend-ram,id=mem0,size={half}M",
        "-object", f"memory-backend-ram,id=mem1,size={half}M",
        "-numa", "node,nodeid=0,cpus=0,memdev=mem0", "-numa", "node,nodeid=1,cpus=1,memdev=mem1",
        "-device", "intel-iommu,intremap=on,device-iotlb=on,caching-mode=on",
    ]  # fmt: skip


def _disk(name: str, file: Path, *, snapshot: bool) -> list[str]:
    mode = "snapshot=on" if snapshot else "readonly=on"
    return [
        "-drive", f"file={file},format=raw,if=none,id={name},{mode}",
        "-device", f"virtio-blk-pci,bus=pcie.0,drive={name},serial={name}",
    ]  # fmt: skip


def _management(machine: Machine) -> list[str]:
    return [
        "-netdev", f"user,id=m0,restrict=on,hostfwd=tcp:127.0.0.1:{machine.port}-10.0.2.15:2222",
        "-device", f"virtio-net-pci,bus=pcie.0,netdev=m0,mac=52:54:00:00:{machine.number:02x}:01",
    ]  # fmt: skip


def _nic(machine: Machine, nic: int, bus: str) -> list[str]:
    mac = f"52:54:00:{machine.number:02x}:{0xAA + nic * 0x11:02x}:00"
    return [
        "-netdev", f"dgram,id=d{nic},local.type=unix,local.path={machine.wire(nic)},"
                   f"remote.type=unix,remote.path={machine.hub(nic)}",
        "-device", f"igb,id=nic{nic},bus={bus},netdev=d{nic},mac={mac}",
    ]  # fmt: skip


def _tree(machine: Machine) -> list[str]:
    return [
        "-device", "pxb-pcie,id=pxb0,bus=pcie.0,bus_nr=64,numa_node=0",
        "-device", "pxb-pcie,id=pxb1,bus=pcie.0,bus_nr=128,numa_node=1",
        "-device", "pcie-root-port,id=rp1,bus=pxb0,chassis=1,slot=1",
        "-device", "pcie-root-port,id=rp2,bus=pxb1,chassis=2,slot=2",
        "-device", "x3130-upstream,id=sw0,bus=rp1",
        "-device", "xio3130-downstream,id=dn0,bus=sw0,chassis=10,slot=0",
        "-device", "xio3130-downstream,id=dn1,bus=sw0,chassis=11,slot=1",
        *_nic(machine, 0, "dn0"),
        *_nic(machine, 1, "rp2"),
        "-device", "edu,bus=dn1",
    ]  # fmt: skip
