"""All facts of one node, as slotted dataclasses: what `discover` finds and everything else reads.

A field is None when the fact could not be read; the reason then stands in `Inventory.unknown`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from podrail.model.vf import VfTable

SCHEMA = "podrail/inventory/1"


@dataclass(frozen=True, slots=True)
class Unknown:
    """A fact that could not be read, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class NumaNode:
    id: int
    cpus: str
    distances: tuple[int, ...] = ()
    hugepages: Mapping[str, int] = field(default_factory=dict)
    """Page size (`2048kB`) → pages reserved."""


@dataclass(frozen=True, slots=True)
class Iommu:
    """The units of /sys/class/iommu; `default` is the domain type most groups have."""

    units: tuple[str, ...]
    groups: int
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """The machine and its kernel."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    os: str | None = None
    kernel: str | None = None
    cmdline: str | None = None
    vendor: str | None = None
    product: str | None = None
    bios: str | None = None
    virtualisation: str | None = None
    """`none` on bare metal, else the hypervisor (`kvm`, `vmware`, …)."""
    cpu_vendor: str | None = None
    lockdown: str | None = None
    secure_boot: bool | None = None
    iommu: Iommu | None = None
    numa: tuple[NumaNode, ...] = ()
    clocksource: str | None = None
    governor: str | None = None
    memlock: Mapping[str, str] = field(default_factory=dict)
    """Process (`containerd`, `crio`, `kubelet`, `init`) → its locked-memory limit."""


@dataclass(frozen=True, slots=True)
class PcieLink:
    speed: str | None
    width: int | None
    max_speed: str | None
    max_width: int | None


@dataclass(frozen=True, slots=True)
class PciDevice:
    """One function of the PCI tree; `parent` is the bridge above it, None at a root."""

    address: str
    vendor: str
    device: str
    class_: str
    parent: str | None = None
    driver: str | None = None
    numa: int | None = None
    iommu_group: int | None = None
    kind: str | None = None
    """`root-port`, `upstream`, `downstream`, `bridge`, `endpoint`: from the PCIe capability."""
    link: PcieLink | None = None
    acs: int | None = None
    """The ACS control register; None where the capability is absent or unreadable."""
    ats: bool | None = None
    relaxed_ordering: bool | None = None
    max_read_request: int | None = None
    max_payload: int | None = None


@dataclass(frozen=True, slots=True)
class Ipoib:
    """The 20 bytes of an IPoIB hardware address, taken apart (RFC 4391 §9.1.1)."""

    flags: int
    qpn: int
    prefix: str
    guid: str


@dataclass(frozen=True, slots=True)
class Pf:
    """One physical function that carries, or could carry, virtual functions."""

    pci: str
    name: str
    vendor: str
    device: str
    altnames: tuple[str, ...] = ()
    subsystem: str | None = None
    driver: str | None = None
    firmware: str | None = None
    mac: str | None = None
    link_type: str = "eth"
    fabric: str | None = None
    state: str | None = None
    """Operational state as the kernel words it: UP, DOWN, LOWERLAYERDOWN …"""
    admin_up: bool | None = None
    speed: int | None = None
    """Mb/s, as the kernel reports it; None without carrier."""
    mtu: int | None = None
    max_mtu: int | None = None
    totalvfs: int | None = None
    numvfs: int | None = None
    autoprobe: bool | None = None
    vf_device: str | None = None
    vf_offset: int | None = None
    vf_stride: int | None = None
    """Where VFs appear: routing id of the PF + offset + stride × index."""
    eswitch: str | None = None
    ipoib: Ipoib | None = None
    numa: int | None = None
    link: PcieLink | None = None
    rdma: str | None = None
    addresses: tuple[str, ...] = ()
    uplink_of: tuple[str, ...] = ()
    """What stands on it, walked upwards: bond0, br-ex, bond0.100 …"""
    management: str | None = None
    """Why the machine would be cut off without it (default route, API address), or None."""
    recorded: bool = False
    """Whether the upstream operator's own record claims it (/etc/sriov-operator/pci)."""
    vfs: VfTable = field(default_factory=VfTable)


@dataclass(frozen=True, slots=True)
class Gid:
    index: int
    gid: str
    type: str | None = None
    netdev: str | None = None


@dataclass(frozen=True, slots=True)
class RdmaPort:
    number: int
    link_layer: str
    state: str | None = None
    phys_state: str | None = None
    rate: str | None = None
    active_mtu: int | None = None
    lid: int | None = None
    sm_lid: int | None = None
    prefix: str | None = None
    gids: tuple[Gid, ...] = ()
    pkeys: tuple[str, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RdmaDevice:
    name: str
    parent_pci: str | None
    parent_netdev: str | None = None
    """The netdev a software device (Soft-RoCE) stands on."""
    driver: str | None = None
    protocol: str | None = None
    node_guid: str | None = None
    firmware: str | None = None
    board_id: str | None = None
    fabric: str | None = None
    users: int | None = None
    """User contexts open on it, from `rdma resource`."""
    ports: tuple[RdmaPort, ...] = ()


@dataclass(frozen=True, slots=True)
class Fabric:
    """Ports that can reach each other: one link layer, one subnet prefix, one subnet manager."""

    id: str
    link_layer: str
    prefix: str | None
    sm_lid: int | None
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gpu:
    pci: str
    vendor: str
    device: str
    model: str | None = None
    uuid: str | None = None
    numa: int | None = None
    driver: str | None = None
    link: PcieLink | None = None
    bar1: int | None = None
    """Bytes of the BAR that peers read GPU memory through."""


@dataclass(frozen=True, slots=True)
class GpuStack:
    """What lets a NIC read GPU memory; either DMA-BUF or peermem suffices."""

    driver_version: str | None = None
    open_module: bool | None = None
    dmabuf: bool | None = None
    peermem: bool | None = None
    """Loaded and registered with the RDMA core, not merely loaded."""
    gdrcopy: bool | None = None
    nvidia_fs: bool | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """A GPU with a PF and the distance between them, as `nvidia-smi topo` names it."""

    gpu: str
    pf: str
    distance: str
    nearest: bool = False


@dataclass(frozen=True, slots=True)
class Module:
    name: str
    used_by: tuple[str, ...] = ()
    version: str | None = None


@dataclass(frozen=True, slots=True)
class Mount:
    """A network filesystem and the transport it really uses."""

    target: str
    source: str
    fstype: str
    transport: str | None
    options: str = ""
    connections: int | None = None


@dataclass(frozen=True, slots=True)
class Inventory:
    node: Node
    pfs: tuple[Pf, ...] = ()
    rdma: tuple[RdmaDevice, ...] = ()
    rdma_netns: str | None = None
    """`shared` or `exclusive`."""
    fabrics: tuple[Fabric, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    gpu_stack: GpuStack = GpuStack()
    pairs: tuple[Pair, ...] = ()
    pci: tuple[PciDevice, ...] = ()
    modules: tuple[Module, ...] = ()
    mounts: tuple[Mount, ...] = ()
    unknown: tuple[Unknown, ...] = ()

    def pf(self, pci: str) -> Pf | None:
        return next((pf for pf in self.pfs if pf.pci == pci), None)

    def to_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **_plain(self)}


def _plain(value: Any) -> Any:
    """Dataclasses, tables and tuples as JSON types; `class_` loses the underscore Python needs."""
    if isinstance(value, VfTable):
        return [vf.to_json() for vf in value]
    if is_dataclass(value):
        return {f.name.rstrip("_"): _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return value
