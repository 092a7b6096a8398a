"""`ib-cx7`: the OpenShift node of seed 003: six ConnectX-7 InfiniBand ports in two fabrics.

Four ports are in Fabric1 and two in Fabric2, each with its own subnet manager and prefix. The
addresses are those of a PowerEdge XE9680, where each NIC shares a switch with the GPU one bus
before it. The seed calls the port at dc:00.0 `ibp222s0`; 0xdc is 220, and udev counts right.
"""

from __future__ import annotations

from podrail.host.twins import openshift
from podrail.host.twins.parts import (
    IPOIB_MODULES,
    KUBERNETES_PROCESSES,
    MLX5_MODULES,
    NVIDIA_MODULES,
    VFIO_MODULES,
    gpu,
    hca,
    ipoib,
    management,
    matrox,
    root_port,
    switched_root,
)
from podrail.host.twins.spec import Function, GpuDriver, Machine, NumaNode, Root, Sriov

_NAME = "test-cluster-3"
_MANAGEMENT_MAC = "c8:4b:d6:a0:11:20"
_FABRIC1 = ("fe80:0000:0000:0000", 1)  # sminfo of the seed: sm lid 1
_FABRIC2 = ("fe80:0000:0000:0001", 3)


def _rail(number: int, bus: int, guid: str, lid: int, fabric: tuple[str, int]) -> Function:
    prefix, sm_lid = fabric
    port = ipoib(
        f"ibp{bus}s0",
        f"mlx5_{number}",
        guid,
        lid=lid,
        sm_lid=sm_lid,
        prefix=prefix,
        firmware="28.39.3004",
    )
    return hca(f"0000:{bus:02x}:00.0", 0x1021, port, Sriov(16, 1, 1, 0x101E))


def _gpu(bus: int) -> Function:
    return gpu(f"0000:{bus:02x}:00.0", 0x2330, "NVIDIA H100 80GB HBM3")


_RAIL = {
    0x3C: _rail(0, 0x3C, "7c:8c:09:03:00:ae:4c:1c", 81, _FABRIC1),
    0x4D: _rail(1, 0x4D, "7c:8c:09:03:00:ad:0b:5e", 82, _FABRIC1),
    0x5E: _rail(2, 0x5E, "7c:8c:09:03:00:ae:4d:04", 17, _FABRIC2),
    0x9C: _rail(3, 0x9C, "7c:8c:09:03:00:ad:0a:d6", 18, _FABRIC2),
    0xBC: _rail(4, 0xBC, "7c:8c:09:03:00:ae:51:88", 83, _FABRIC1),
    0xDC: _rail(5, 0xDC, "7c:8c:09:03:00:ad:0c:32", 84, _FABRIC1),
}

MACHINE = Machine(
    name=_NAME,
    kernel=openshift.KERNEL,
    cmdline=openshift.CMDLINE,
    os_release=openshift.OS_RELEASE,
    bootloader=openshift.BOOTLOADER,
    roots=(
        Root(
            "0000:00",
            0,
            (
                root_port("0000:00:1c.0", matrox("0000:03:00.0"), device=0x1BB8),
                root_port(
                    "0000:00:1d.0",
                    management("0000:04:00.0", "eno1", _MANAGEMENT_MAC, master="ovs-system"),
                    management("0000:04:00.1", "eno2", "c8:4b:d6:a0:11:21", speed=0),
                    device=0x1BB0,
                ),
            ),
        ),
        switched_root(0x15, 0, _gpu(0x19)),
        switched_root(0x37, 0, _gpu(0x3B), _RAIL[0x3C]),
        switched_root(0x48, 0, _gpu(0x4C), _RAIL[0x4D]),
        switched_root(0x59, 0, _gpu(0x5D), _RAIL[0x5E]),
        switched_root(0x97, 1, _gpu(0x9B), _RAIL[0x9C]),
        switched_root(0xB7, 1, _gpu(0xBB), _RAIL[0xBC]),
        switched_root(0xC7, 1, _gpu(0xCB)),
        switched_root(0xD7, 1, _gpu(0xDB), _RAIL[0xDC]),
    ),
    numa=(
        NumaNode("0-55,112-167", (10, 21), hugepages_1g=16),
        NumaNode("56-111,168-223", (21, 10), hugepages_1g=16),
    ),
    iommu_units=10,
    modules={
        **MLX5_MODULES,
        **IPOIB_MODULES,
        **NVIDIA_MODULES,
        **VFIO_MODULES,
        **openshift.MODULES,
        "nvidia_peermem": ("nvidia", "ib_uverbs"),
    },
    module_versions={
        "nvidia": "580.65.06",
        "nvidia_uvm": "580.65.06",
        "nvidia_peermem": "580.65.06",
    },
    drivers=("mlx5_core", "i40e", "nvidia", "vfio-pci"),
    virtual=openshift.virtual(_MANAGEMENT_MAC, "10.20.0.13/24"),
    bridges=openshift.bridges("eno1", _NAME),
    routes=openshift.routes("10.20.0.1"),
    processes=KUBERNETES_PROCESSES,
    files=openshift.files("https://10.20.0.2:6443"),
    gpu_driver=GpuDriver("580.65.06", peermem=True),
    labels={
        "kubernetes.io/hostname": _NAME,
        "node-role.kubernetes.io/worker": "",
    },
)
