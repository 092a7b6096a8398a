"""`hgx-h100`: eight H100 SXM GPUs, each on a switch with its own NDR rail (the DGX H100 layout).

Two ConnectX-7 Ethernet ports of different cards make bond0, VLAN 100 on it reaches the storage; so
the ports are no RDMA bond and keep their own verbs devices. nvidia-peermem is registered.
"""

from __future__ import annotations

from podrail.host.twins import ubuntu
from podrail.host.twins.parts import (
    IPOIB_MODULES,
    MLX5_MODULES,
    NFS_RDMA_MODULES,
    NVIDIA,
    NVIDIA_MODULES,
    VFIO_MODULES,
    gpu,
    hca,
    ipoib,
    root_port,
    switched_root,
    x550,
)
from podrail.host.twins.spec import (
    Function,
    GpuDriver,
    Machine,
    NfsMount,
    NumaNode,
    PcieLink,
    Port,
    Rdma,
    Root,
    Route,
    Sriov,
    Virtual,
)

_NAME = "hgx-1"
_BOND_MAC = "a0:88:c2:11:29:00"
_SRIOV = Sriov(16, 1, 1, 0x101E)


def _gpu(bus: int) -> Function:
    return gpu(f"0000:{bus:02x}:00.0", 0x2330, "NVIDIA H100 80GB HBM3")


def _rail(number: int, bus: int, lid: int) -> Function:
    port = ipoib(
        f"ibp{bus}s0",
        f"mlx5_{number}",
        f"a0:88:c2:03:00:5f:{bus:02x}:00",
        lid=lid,
        sm_lid=1,
        firmware="28.43.2566",
        queue_pair="00:00:01:49",
    )
    return hca(f"0000:{bus:02x}:00.0", 0x1021, port, _SRIOV)


def _storage(number: int, bus: int) -> Function:
    port = Port(
        f"enp{bus}s0f0np0",
        _BOND_MAC,  # a bond gives its members one address
        400000,
        mtu=9000,
        firmware="28.43.2566 (MT_0000001244)",
        master="bond0",
        rdma=Rdma(f"mlx5_{number}", f"a088:c203:0011:{bus:02x}00", "MT_0000001244"),
    )
    return hca(f"0000:{bus:02x}:00.0", 0x1021, port, _SRIOV)


def _nvswitch(bus: int) -> Function:
    """Class 0680 of the GPU vendor, and no GPU."""
    return Function(
        f"0000:{bus:02x}:00.0",
        NVIDIA,
        0x22A3,
        0x068000,
        subsystem=(NVIDIA, 0x1796),
        revision=0xA1,
        link=PcieLink("16.0", 2),
    )


_MANAGEMENT = x550(
    "0000:0b:00.0",
    "eno3",
    "5c:25:73:40:1b:07",
    own="10.30.0.31/24",
    firmware="0x800011f6, 1.3479.0",
)

MACHINE = Machine(
    name=_NAME,
    kernel=ubuntu.KERNEL,
    cmdline=ubuntu.cmdline("intel_iommu=on iommu=pt"),
    os_release=ubuntu.OS_RELEASE,
    bootloader=ubuntu.BOOTLOADER,
    roots=(
        Root(
            "0000:00",
            0,
            (
                *(
                    root_port(f"0000:00:1b.{n}", _nvswitch(5 + n), device=0x1BC0 + n)
                    for n in range(4)
                ),
                root_port("0000:00:1d.0", _MANAGEMENT, device=0x1BB0),
            ),
        ),
        switched_root(0x15, 0, _rail(0, 0x18, 21), _gpu(0x1B)),
        Root("0000:26", 0, (root_port("0000:26:01.0", _storage(1, 0x29)),)),
        switched_root(0x37, 0, _rail(2, 0x40, 22), _gpu(0x43)),
        switched_root(0x48, 0, _rail(3, 0x4F, 23), _gpu(0x52)),
        switched_root(0x59, 0, _rail(4, 0x5E, 24), _gpu(0x61)),
        switched_root(0x97, 1, _rail(5, 0x9A, 25), _gpu(0x9D)),
        Root("0000:a7", 1, (root_port("0000:a7:01.0", _storage(6, 0xAA)),)),
        switched_root(0xB7, 1, _rail(7, 0xC0, 26), _gpu(0xC3)),
        switched_root(0xC7, 1, _rail(8, 0xCE, 27), _gpu(0xD1)),
        switched_root(0xD7, 1, _rail(9, 0xDC, 28), _gpu(0xDF)),
    ),
    vendor="NVIDIA",
    product="DGXH100",
    bios=("NVIDIA", "1.5.1", "06/12/2024"),
    cpu_model="Intel(R) Xeon(R) Platinum 8480C",
    numa=(
        NumaNode("0-55,112-167", (10, 21)),
        NumaNode("56-111,168-223", (21, 10)),
    ),
    iommu_units=12,
    modules={
        **MLX5_MODULES,
        **IPOIB_MODULES,
        **NFS_RDMA_MODULES,
        **NVIDIA_MODULES,
        **VFIO_MODULES,
        "nvidia_peermem": ("nvidia", "ib_uverbs"),
        "gdrdrv": ("nvidia",),
        "nvidia_fs": ("nvidia",),
        "ixgbe": (),
        "bonding": ("tls",),
        "8021q": (),
    },
    module_versions={
        "nvidia": "580.65.06",
        "nvidia_uvm": "580.65.06",
        "nvidia_peermem": "580.65.06",
        "gdrdrv": "2.5",
        "nvidia_fs": "2.26.6",
    },
    drivers=("mlx5_core", "ixgbe", "nvidia", "vfio-pci"),
    virtual=(
        Virtual("bond0", "bond", _BOND_MAC, 9000),
        Virtual(
            "bond0.100",
            "vlan",
            _BOND_MAC,
            9000,
            lower="bond0",
            vlan=100,
            addresses=("192.168.240.31/24",),
        ),
    ),
    routes=(Route("default", "eno3", "10.30.0.1", "dhcp", 100),),
    mounts=(
        NfsMount(
            "192.168.240.5:/data",
            "/mnt/data",
            "rdma",
            server="192.168.240.5",
            client="192.168.240.31",
            connections=8,
        ),
    ),
    processes=ubuntu.PROCESSES,
    files=ubuntu.files("https://10.30.0.5:6443"),
    gpu_driver=GpuDriver("580.65.06", peermem=True, gdrdrv=True, fs=True),
    labels={"kubernetes.io/hostname": _NAME, "node-role.kubernetes.io/worker": ""},
)
