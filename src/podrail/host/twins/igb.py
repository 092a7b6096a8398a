"""`igb`: a node of the lab: two igb NICs, one of them behind a PCIe switch with QEMU's edu
device as a stand-in for an accelerator, two virtio disks and a virtio NIC for management.

Kernel 7.2 of trixie-backports; udev gives the names. tests/lab/test_twin_truth.py holds the twin to
a node.
"""

from __future__ import annotations

from podrail.host.twins.parts import BRIDGE, ETHERNET, INTEL, VFIO_MODULES
from podrail.host.twins.spec import (
    Function,
    Machine,
    NumaNode,
    PcieLink,
    Port,
    Process,
    Root,
    Route,
    Sriov,
)

_KERNEL = "7.2.12+deb13-amd64"
_SLOW = PcieLink("2.5", 1)
_LINKS = {
    "root-port": PcieLink("2.5", 1, "16.0", 32),
    "upstream": _SLOW,
    "downstream": PcieLink("2.5", 1, "Unknown"),
}
_VIRTIO = {0x1000: 1, 0x1001: 2, 0x1005: 4}
"""Transitional PCI device id → virtio device type, which is the subsystem id."""
_QEMU = (0x1AF4, 0x1100)
_REDHAT, _TI = 0x1B36, 0x104C


def _igb(address: str, mac: str, name: str, *altnames: str) -> Function:
    return Function(
        address,
        INTEL,
        0x10C9,
        ETHERNET,
        driver="igb",
        subsystem=_QEMU,
        revision=1,
        link=_SLOW,
        payload=128,
        read_request=128,
        relaxed_ordering=False,
        sriov=Sriov(total=7, offset=128, stride=2, vf_device=0x10CA, hardware=8),
        port=Port(
            name,
            mac,
            1000,
            max_mtu=9216,
            up=False,
            firmware="2.1.0",
            altnames=(*altnames, f"enx{mac.replace(':', '')}"),
            queues=8,
        ),
    )


def _port(address: str, kind: str, device: int, revision: int, *below: Function) -> Function:
    """QEMU gives root ports ACS, and the ports of its switch none."""
    root = kind == "root-port"
    return Function(
        address,
        _REDHAT if root else _TI,
        device,
        BRIDGE,
        kind=kind,
        subsystem=(_REDHAT, 0) if root else (0, 0),
        revision=revision,
        link=_LINKS[kind],
        acs=0x1D if root else None,
        payload=128,
        read_request=128,
        relaxed_ordering=False,
        below=below,
    )


def _virtio(address: str, device: int, class_: int, port: Port | None = None) -> Function:
    return Function(
        address,
        0x1AF4,
        device,
        class_,
        kind="conventional",
        driver="virtio-pci",
        subsystem=(0x1AF4, _VIRTIO[device]),
        link=None,
        port=port,
    )


def _fixed(address: str, vendor: int, device: int, class_: int, revision: int = 0) -> Function:
    return Function(
        address,
        vendor,
        device,
        class_,
        "conventional",
        subsystem=_QEMU,
        revision=revision,
        link=None,
    )


_EDU = Function(
    "0000:44:00.0",
    0x1234,
    0x11E8,
    0x00FF00,
    "conventional",
    subsystem=_QEMU,
    revision=0x10,
    link=None,
)
_SWITCH = _port(
    "0000:41:00.0",
    "upstream",
    0x8232,
    2,
    _port(
        "0000:42:00.0",
        "downstream",
        0x8233,
        1,
        _igb("0000:43:00.0", "52:54:00:01:aa:00", "enp67s0"),
    ),
    _port("0000:42:01.0", "downstream", 0x8233, 1, _EDU),
)
_MANAGEMENT = Port(
    "enp0s3",
    "52:54:00:00:01:01",
    0,
    altnames=("enx525400000101",),
    addresses=("10.0.2.15/24", "fec0::5054:ff:fe00:101/64"),
    queues=1,
)

MACHINE = Machine(
    name="node1",
    kernel=_KERNEL,
    cmdline=(
        "console=ttyS0,115200 quiet loglevel=4 intel_iommu=on iommu=pt mitigations=off "
        "tsc=unstable no_timer_check rcupdate.rcu_expedited=1 net.ifnames=1 lab.udev=1 lab.node=1"
    ),
    os_release=(
        'PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nNAME="Debian GNU/Linux"\nVERSION_ID="13"\n'
        'VERSION="13 (trixie)"\nVERSION_CODENAME=trixie\nID=debian\n'
    ),
    roots=(
        Root(
            "0000:00",
            -1,
            (
                _fixed("0000:00:00.0", INTEL, 0x29C0, 0x060000),
                _virtio("0000:00:01.0", 0x1001, 0x010000),
                _virtio("0000:00:02.0", 0x1001, 0x010000),
                _virtio("0000:00:03.0", 0x1000, ETHERNET, _MANAGEMENT),
                _fixed("0000:00:04.0", _REDHAT, 0x000B, 0x060000),
                _fixed("0000:00:05.0", _REDHAT, 0x000B, 0x060000),
                _virtio("0000:00:06.0", 0x1005, 0x00FF00),
                _fixed("0000:00:1f.0", INTEL, 0x2918, 0x060100, 2),
                _fixed("0000:00:1f.2", INTEL, 0x2922, 0x010601, 2),
                _fixed("0000:00:1f.3", INTEL, 0x2930, 0x0C0500, 2),
            ),
        ),
        # ACPI lists the second expander first, so IOMMU groups are counted in this order
        Root(
            "0000:80",
            1,
            (
                _port(
                    "0000:80:00.0",
                    "root-port",
                    0x000C,
                    0,
                    _igb("0000:81:00.0", "52:54:00:01:bb:00", "ens2", "enp129s0"),
                ),
            ),
        ),
        Root("0000:40", 0, (_port("0000:40:00.0", "root-port", 0x000C, 0, _SWITCH),)),
    ),
    vendor="QEMU",
    product="Standard PC (Q35 + ICH9, 2009)",
    bios=("SeaBIOS", "1.16.3-debian-1.16.3-2~bpo12+1", "04/01/2014"),
    cpu="AuthenticAMD",
    cpu_model="QEMU TCG CPU version 2.5+",
    hypervisor=True,
    secure_boot=None,
    clocksource="hpet",
    governor=None,
    numa=(NumaNode("0", (10, 20)), NumaNode("1", (20, 10))),
    modules={
        "virtio_blk": (),
        "crc32c_cryptoapi": (),
        "jbd2": (),
        "mbcache": (),
        "crc16": (),
        "ext4": ("crc16", "mbcache", "jbd2"),
        "failover": (),
        "net_failover": ("failover",),
        "virtio_net": ("net_failover",),
        "virtio_rng": (),
        "qemu_fw_cfg": (),
        "dca": (),
        "i2c_algo_bit": (),
        "igb": ("i2c_algo_bit", "dca"),
    },
    loadable={
        "igbvf": (),
        **VFIO_MODULES,
        "ib_core": (),
        "udp_tunnel": (),
        "ip6_udp_tunnel": (),
        "rdma_rxe": ("ib_core", "ip6_udp_tunnel", "udp_tunnel"),
        "ib_uverbs_support": ("ib_core",),
        "ib_uverbs": ("ib_core", "ib_uverbs_support"),
    },
    drivers=("virtio-pci", "igb"),
    routes=(
        Route("default", "enp0s3", "10.0.2.2", "boot"),
        Route("default", "enp0s3", "fe80::2", "ra", 1024),
    ),
    processes=(Process(1, "lab-init", "8388608"),),
    mac_altnames=True,
    rdma_json=False,
)
