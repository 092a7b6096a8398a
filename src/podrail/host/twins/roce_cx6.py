"""`roce-cx6`: the OpenShift node of seed 002 before any policy was applied.

A ConnectX-6 Dx with two 200 Gb/s Ethernet ports behind the same switch as a GPU, eight H100s with
the open kernel modules, no nvidia-peermem (DMA-BUF carries GPUDirect), storage over NFSoRDMA on the
second port, and the cluster's own traffic on a port of an Intel NIC below br-ex.
"""

from __future__ import annotations

from podrail.host.twins import openshift
from podrail.host.twins.parts import (
    GEN4_X16,
    KUBERNETES_PROCESSES,
    MLX5_MODULES,
    NFS_RDMA_MODULES,
    NVIDIA_MODULES,
    VFIO_MODULES,
    gpu,
    hca,
    management,
    matrox,
    root_port,
    switched_root,
)
from podrail.host.twins.spec import (
    GpuDriver,
    Machine,
    NfsMount,
    NumaNode,
    Port,
    Rdma,
    Root,
    Sriov,
)

_FIRMWARE = "22.41.1000 (MT_0000000436)"
_BOARD = "MT_0000000436"
_NAME = "gpu-worker-1"
_MANAGEMENT_MAC = "b4:45:06:fa:10:20"


_PORT0 = Port(
    "ens8f0",
    "b8:3f:d2:9f:1c:a0",
    200000,
    firmware=_FIRMWARE,
    altnames=("enp156s0f0",),
    rdma=Rdma("mlx5_0", "b83f:d203:009f:1ca0", _BOARD),
)
_PORT1 = Port(
    "ens8f1",
    "b8:3f:d2:9f:1c:a1",
    200000,
    mtu=9000,
    firmware=_FIRMWARE,
    altnames=("enp156s0f1",),
    addresses=("192.168.200.11/24",),
    rdma=Rdma("mlx5_1", "b83f:d203:009f:1ca1", _BOARD),
)

# Two PFs share one card: the VFs of the first follow both PFs, those of the second follow them.
_NIC = (
    hca("0000:9c:00.0", 0x101D, _PORT0, Sriov(16, 2, 1, 0x101E), link=GEN4_X16, subsystem=0x0016),
    hca("0000:9c:00.1", 0x101D, _PORT1, Sriov(16, 17, 1, 0x101E), link=GEN4_X16, subsystem=0x0016),
)


def _gpu_root(bus: int, numa: int, address: str) -> Root:
    return switched_root(bus, numa, gpu(address, 0x2330, "NVIDIA H100 80GB HBM3"))


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
                    management("0000:04:00.1", "eno2", "b4:45:06:fa:10:21", speed=0),
                    device=0x1BB0,
                ),
            ),
        ),
        _gpu_root(0x15, 0, "0000:19:00.0"),
        _gpu_root(0x37, 0, "0000:3b:00.0"),
        _gpu_root(0x48, 0, "0000:4c:00.0"),
        _gpu_root(0x59, 0, "0000:5d:00.0"),
        switched_root(0x97, 1, gpu("0000:9b:00.0", 0x2330, "NVIDIA H100 80GB HBM3"), *_NIC),
        _gpu_root(0xB7, 1, "0000:bb:00.0"),
        _gpu_root(0xC7, 1, "0000:cb:00.0"),
        _gpu_root(0xD7, 1, "0000:db:00.0"),
    ),
    numa=(
        NumaNode("0-55,112-167", (10, 21), hugepages_1g=16),
        NumaNode("56-111,168-223", (21, 10), hugepages_1g=16),
    ),
    iommu_units=10,
    modules={
        **MLX5_MODULES,
        **NFS_RDMA_MODULES,
        **NVIDIA_MODULES,
        **VFIO_MODULES,
        **openshift.MODULES,
        "gdrdrv": ("nvidia",),
    },
    module_versions={"nvidia": "580.65.06", "nvidia_uvm": "580.65.06", "gdrdrv": "2.5"},
    drivers=("mlx5_core", "i40e", "nvidia", "vfio-pci"),
    virtual=openshift.virtual(_MANAGEMENT_MAC, "10.0.0.11/24"),
    bridges=openshift.bridges("eno1", _NAME),
    routes=openshift.routes("10.0.0.1"),
    mounts=(
        NfsMount(
            "nfs-server.internal.example.com:/exports/ai-data",
            "/var/mnt/ai-data",
            "rdma",
            server="192.168.200.50",
            client="192.168.200.11",
            connections=16,
        ),
    ),
    processes=KUBERNETES_PROCESSES,
    files=openshift.files("https://10.0.0.5:6443"),
    gpu_driver=GpuDriver("580.65.06", gdrdrv=True),
    labels={
        "kubernetes.io/hostname": _NAME,
        "node-role.kubernetes.io/worker": "",
        "node-role.kubernetes.io/gpu-worker": "",
    },
)
