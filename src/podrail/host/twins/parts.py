"""The parts machines are made of: ports, switches, NICs, GPUs, module sets."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from podrail.host.twins.spec import (
    Function,
    Gpu,
    PcieLink,
    Port,
    Process,
    Rdma,
    Root,
    Sriov,
)

MELLANOX, INTEL, NVIDIA, BROADCOM = 0x15B3, 0x8086, 0x10DE, 0x1000

GEN3_X8 = PcieLink("8.0", 8)
GEN4_X16 = PcieLink("16.0", 16)
GEN5_X16 = PcieLink("32.0", 16)

ETHERNET, INFINIBAND, BRIDGE = 0x020000, 0x020700, 0x060400


def root_port(address: str, *below: Function, device: int = 0x352A) -> Function:
    """An Intel root port; the kernel enabled ACS on it at boot."""
    return Function(
        address,
        INTEL,
        device,
        BRIDGE,
        kind="root-port",
        link=GEN5_X16,
        acs=0x1D,
        below=below,
    )


def switch(bus: int, *below: Function, acs: int = 0, device: int = 0xC030) -> Function:
    """A Broadcom switch on `bus`: an upstream port and a downstream port for each function.

    ACS is offered and, as NVIDIA asks for GPUDirect, switched off after boot; the IOMMU groups
    are those of the boot, when it was on. Functions of one slot share a downstream port.
    """
    slots: dict[str, list[Function]] = {}
    for function in below:
        slots.setdefault(function.address[:-2], []).append(function)
    ports = tuple(
        Function(
            f"0000:{bus + 1:02x}:{number:02x}.0",
            BROADCOM,
            device,
            BRIDGE,
            kind="downstream",
            link=functions[0].link,
            acs=acs,
            below=tuple(functions),
        )
        for number, functions in enumerate(slots.values())
    )
    return Function(
        f"0000:{bus:02x}:00.0",
        BROADCOM,
        device,
        BRIDGE,
        kind="upstream",
        link=GEN5_X16,
        below=ports,
    )


def switched_root(bus: int, numa: int, *below: Function) -> Root:
    """A host bridge with one root port and a switch below it."""
    port = root_port(f"0000:{bus:02x}:01.0", switch(bus + 1, *below))
    return Root(f"0000:{bus:02x}", numa, (port,))


def _uuid(seed: str) -> str:
    """A GPU's UUID, the same every run."""
    one, two = zlib.crc32(seed.encode()), zlib.crc32(seed[::-1].encode())
    digits = f"{one:08x}{two:08x}{one ^ two:08x}{one + two & 0xFFFFFFFF:08x}"
    return f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def gpu(address: str, device: int, model: str, link: PcieLink = GEN5_X16) -> Function:
    """A data centre GPU (3D controller, no display)."""
    return Function(
        address,
        NVIDIA,
        device,
        0x030200,
        driver="nvidia",
        subsystem=(NVIDIA, 0x16C1),
        revision=0xA1,
        link=link,
        payload=256,
        read_request=4096,
        gpu=Gpu(model, _uuid(f"{model} {address}")),
    )


def guid(octets: str) -> str:
    """`7c:8c:09:03:00:ae:4c:1c` as sysfs prints a GUID."""
    return bytes.fromhex(octets.replace(":", "")).hex(":", -2)


def hca(
    address: str,
    device: int,
    port: Port,
    sriov: Sriov,
    *,
    link: PcieLink = GEN5_X16,
    subsystem: int = 0x0041,
) -> Function:
    """A ConnectX function, Ethernet or InfiniBand as its port says."""
    return Function(
        address,
        MELLANOX,
        device,
        INFINIBAND if port.infiniband else ETHERNET,
        driver="mlx5_core",
        subsystem=(MELLANOX, subsystem),
        link=link,
        acs=0,
        payload=512,
        read_request=4096,
        sriov=sriov,
        port=port,
    )


def ipoib(
    name: str,
    rdma_name: str,
    port_guid: str,
    *,
    lid: int,
    sm_lid: int,
    firmware: str,
    prefix: str = "fe80:0000:0000:0000",
    speed: int = 400000,
    queue_pair: str = "00:00:00:6c",
    board: str = "MT_0000000838",
) -> Port:
    """An InfiniBand port with IPoIB on it."""
    octets = bytes.fromhex(prefix.replace(":", "")).hex(":")
    return Port(
        name=name,
        mac=f"{queue_pair}:{octets}:{port_guid}",
        speed=speed,
        mtu=4092,
        max_mtu=4092,
        firmware=f"{firmware} ({board})",
        rdma=Rdma(rdma_name, guid(port_guid), board, lid, sm_lid, prefix),
    )


def management(
    address: str, name: str, mac: str, *, speed: int = 10000, master: str | None = None
) -> Function:
    """A port of an Intel X710-T2L, which could carry VFs too and must be left alone."""
    return Function(
        address,
        INTEL,
        0x15FF,
        ETHERNET,
        driver="i40e",
        subsystem=(INTEL, 0x0000),
        revision=0x02,
        link=GEN3_X8,
        acs=0,
        sriov=Sriov(
            total=64, offset=16 if address.endswith("0") else 79, stride=1, vf_device=0x154C
        ),
        port=Port(
            name,
            mac,
            speed,
            max_mtu=9702,
            firmware="9.20 0x8000d8bd 22.0.9",
            altnames=(f"enp{int(address[5:7], 16)}s0f{address[-1]}",),
            master=master,
        ),
    )


def x550(address: str, name: str, mac: str, *, own: str, firmware: str) -> Function:
    """A plain Intel X550 port with an address: the default route and the API are behind it."""
    return Function(
        address,
        INTEL,
        0x1563,
        ETHERNET,
        driver="ixgbe",
        revision=1,
        link=PcieLink("8.0", 4),
        acs=0,
        sriov=Sriov(total=63, offset=128, stride=2, vf_device=0x1565, hardware=64),
        port=Port(name, mac, 10000, max_mtu=9710, firmware=firmware, addresses=(own,)),
    )


def matrox(address: str) -> Function:
    """The BMC's display: class 0300, and no GPU."""
    return Function(address, 0x102B, 0x0536, 0x030000, revision=0x04, kind="conventional")


MLX5_MODULES: Mapping[str, tuple[str, ...]] = {
    "tls": (),
    "mlxfw": (),
    "ib_core": (),
    "mlx5_core": ("tls", "mlxfw"),
    "ib_uverbs": ("ib_core",),
    "mlx5_ib": ("ib_uverbs", "ib_core", "mlx5_core"),
    "ib_cm": ("ib_core",),
    "iw_cm": ("ib_core",),
    "rdma_cm": ("ib_cm", "iw_cm", "ib_core"),
    "rdma_ucm": ("rdma_cm", "ib_uverbs", "ib_core"),
    "ib_umad": ("ib_core",),
}
IPOIB_MODULES: Mapping[str, tuple[str, ...]] = {"ib_ipoib": ("ib_cm", "ib_core")}
VFIO_MODULES: Mapping[str, tuple[str, ...]] = {
    "irqbypass": (),
    "vfio": (),
    "vfio_iommu_type1": ("vfio",),
    "vfio_pci_core": ("vfio", "irqbypass"),
    "vfio_pci": ("vfio_pci_core", "vfio"),
}
NVIDIA_MODULES: Mapping[str, tuple[str, ...]] = {
    "nvidia": (),
    "nvidia_uvm": ("nvidia",),
    "nvidia_modeset": ("nvidia",),
}
NFS_RDMA_MODULES: Mapping[str, tuple[str, ...]] = {
    "sunrpc": (),
    "rpcrdma": ("sunrpc", "rdma_cm", "ib_core"),
    "nfsv4": ("sunrpc",),
}

KUBERNETES_PROCESSES = (
    Process(1, "systemd", "8388608"),
    Process(2210, "crio"),
    Process(2391, "kubelet", "8388608"),
)


def kubeconfig(server: str) -> str:
    """The part of a kubelet's kubeconfig that says where the API is."""
    return (
        "apiVersion: v1\nkind: Config\nclusters:\n- cluster:\n"
        f"    server: {server}\n  name: local\n"
    )
