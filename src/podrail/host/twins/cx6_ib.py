"""`cx6-ib`: the vanilla Kubernetes node of seed 001: one ConnectX-6 with an HDR InfiniBand port.

The port is named `ens3f0` as in the seed. udev would call an InfiniBand netdev `ibs3f0`; somebody
renamed it, which is allowed: nothing may tell InfiniBand from Ethernet by a name.
"""

from __future__ import annotations

from podrail.host.twins import ubuntu
from podrail.host.twins.parts import (
    GEN4_X16,
    IPOIB_MODULES,
    MLX5_MODULES,
    NVIDIA_MODULES,
    VFIO_MODULES,
    gpu,
    hca,
    ipoib,
    matrox,
    root_port,
    switched_root,
    x550,
)
from podrail.host.twins.spec import (
    Function,
    GpuDriver,
    Machine,
    NumaNode,
    Root,
    Route,
    Sriov,
)

_NAME = "gpu-node-1"


def _a100(bus: int) -> Function:
    return gpu(f"0000:{bus:02x}:00.0", 0x20B2, "NVIDIA A100-SXM4-80GB", GEN4_X16)


_NIC = hca(
    "0000:4b:00.0",
    0x101B,
    ipoib(
        "ens3f0",
        "mlx5_0",
        "0c:42:a1:03:00:1d:7e:9a",
        lid=12,
        sm_lid=1,
        firmware="20.41.1000",
        speed=200000,
        board="MT_0000000223",
        queue_pair="00:00:10:29",
    ),
    Sriov(16, 1, 1, 0x101C),
    link=GEN4_X16,
    subsystem=0x0006,
)

_MANAGEMENT = x550(
    "0000:61:00.0",
    "enp97s0f0",
    "3c:ec:ef:71:0a:10",
    own="10.10.0.21/24",
    firmware="0x80000aee, 1.1876.0",
)

MACHINE = Machine(
    name=_NAME,
    kernel=ubuntu.KERNEL,
    cmdline=ubuntu.cmdline("amd_iommu=on iommu=pt"),
    os_release=ubuntu.OS_RELEASE,
    bootloader=ubuntu.BOOTLOADER,
    roots=(
        switched_root(0x01, 0, _a100(0x07), _a100(0x0F)),
        switched_root(0x41, 0, _a100(0x47), _NIC, _a100(0x4E)),
        Root(
            "0000:60",
            0,
            (
                root_port("0000:60:03.1", _MANAGEMENT, device=0x1483),
                root_port("0000:60:03.2", matrox("0000:62:00.0"), device=0x1483),
            ),
        ),
        switched_root(0x81, 1, _a100(0x87), _a100(0x90)),
        switched_root(0xB1, 1, _a100(0xB7), _a100(0xBD)),
    ),
    vendor="Supermicro",
    product="AS -4124GO-NART",
    bios=("American Megatrends Inc.", "2.8", "01/17/2024"),
    cpu="AuthenticAMD",
    cpu_model="AMD EPYC 7763 64-Core Processor",
    numa=(
        NumaNode("0-63,128-191", (10, 32)),
        NumaNode("64-127,192-255", (32, 10)),
    ),
    iommu="ivhd",
    iommu_units=8,
    modules={
        **MLX5_MODULES,
        **IPOIB_MODULES,
        **NVIDIA_MODULES,
        **VFIO_MODULES,
        "ixgbe": (),
    },
    module_versions={"nvidia": "550.144.03", "nvidia_uvm": "550.144.03"},
    drivers=("mlx5_core", "ixgbe", "nvidia", "vfio-pci"),
    routes=(Route("default", "enp97s0f0", "10.10.0.1", "dhcp", 100),),
    processes=ubuntu.PROCESSES,
    files=ubuntu.files("https://10.10.0.5:6443"),
    gpu_driver=GpuDriver("550.144.03"),
    labels={
        "kubernetes.io/hostname": _NAME,
        "feature.node.kubernetes.io/pci-15b3.present": "true",
    },
)
