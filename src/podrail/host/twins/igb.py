"""`igb`: the lab VM with NUMA: two igb NICs, one of them behind a PCIe switch with
QEMU's edu device as a stand-in for an accelerator, and a virtio NIC for management.

Kernel 7.2 of trixie-backports; no udev, so names are the kernel's own.
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

_KERNEL = "7.2.3+deb13-amd64"
_SLOW = PcieLink("2.5", 1)
_QEMU = (0x1AF4, 0x1100)
_REDHAT, _TI = 0x1B36, 0x104C


def _igb(address: str, name: str, mac: str) -> Function:
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
        port=Port(name, mac, 1000, max_mtu=9216, firmware="2.1.0", queues=8),
    )


def _port(address: str, kind: str, vendor: int, device: int, *below: Function) -> Function:
    """QEMU gives root ports ACS, and the ports of its switch none."""
    return Function(
        address,
        vendor,
        device,
        BRIDGE,
        kind=kind,
        link=_SLOW,
        acs=0x1D if kind == "root-port" else None,
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
        subsystem=(0x1AF4, device - 0xFFF),
        link=None,
        port=port,
    )


def _fixed(address: str, vendor: int, device: int, class_: int) -> Function:
    return Function(address, vendor, device, class_, "conventional", subsystem=_QEMU, link=None)


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
    _TI,
    0x8232,
    _port(
        "0000:42:00.0",
        "downstream",
        _TI,
        0x8233,
        _igb("0000:43:00.0", "eth1", "52:54:00:03:aa:00"),
    ),
    _port("0000:42:01.0", "downstream", _TI, 0x8233, _EDU),
)

MACHINE = Machine(
    name="node3",
    kernel=_KERNEL,
    cmdline=(
        "console=ttyS0,115200 quiet loglevel=4 intel_iommu=on iommu=pt mitigations=off "
        "tsc=unstable no_timer_check rcupdate.rcu_expedited=1 net.ifnames=0 lab.node=3 lab.udev=0"
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
                _virtio(
                    "0000:00:02.0",
                    0x1000,
                    ETHERNET,
                    Port("eth0", "52:54:00:00:03:01", 0, addresses=("10.0.2.15/24",), queues=1),
                ),
                _virtio("0000:00:03.0", 0x1009, 0x000200),
                _fixed("0000:00:04.0", _REDHAT, 0x000B, 0x060000),
                _fixed("0000:00:05.0", _REDHAT, 0x000B, 0x060000),
                _virtio("0000:00:06.0", 0x1005, 0x00FF00),
                _fixed("0000:00:1f.0", INTEL, 0x2918, 0x060100),
                _fixed("0000:00:1f.2", INTEL, 0x2922, 0x010601),
                _fixed("0000:00:1f.3", INTEL, 0x2930, 0x0C0500),
            ),
        ),
        Root("0000:40", 0, (_port("0000:40:00.0", "root-port", _REDHAT, 0x000C, _SWITCH),)),
        Root(
            "0000:80",
            1,
            (
                _port(
                    "0000:80:00.0",
                    "root-port",
                    _REDHAT,
                    0x000C,
                    _igb("0000:81:00.0", "eth2", "52:54:00:03:bb:00"),
                ),
            ),
        ),
    ),
    vendor="QEMU",
    product="Standard PC (Q35 + ICH9, 2009)",
    bios=("SeaBIOS", "1.16.3-debian-1.16.3-2", "04/01/2014"),
    cpu="AuthenticAMD",
    cpu_model="QEMU TCG CPU version 2.5+",
    hypervisor=True,
    secure_boot=None,
    lockdown=None,
    clocksource="hpet",
    governor=None,
    numa=(NumaNode("0", (10, 20)), NumaNode("1", (20, 10))),
    modules={
        **VFIO_MODULES,
        "ib_core": (),
        "virtio_net": (),
        "9p": (),
        "igb": (),
        "igbvf": (),
    },
    drivers=("virtio-pci", "igb", "igbvf", "vfio-pci"),
    routes=(Route("default", "eth0", "10.0.2.2", "boot"),),
    processes=(Process(1, "labinit", "8388608"),),
    predictable_names=False,
    rdma_json=False,
)
