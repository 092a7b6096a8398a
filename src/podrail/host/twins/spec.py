"""What a machine is made of, declared. The builders turn it into a TwinHost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PcieLink:
    """Speed in GT/s as sysfs prints it (`16.0`), and lanes; a maximum not given is what is now."""

    speed: str = "16.0"
    width: int = 16
    max_speed: str = ""
    """`Unknown` where the port does not say, and then no lanes either."""
    max_width: int = 0


@dataclass(frozen=True, slots=True)
class Sriov:
    """What the SR-IOV capability of a PF says, and how many VFs its driver allows."""

    total: int
    offset: int
    stride: int
    vf_device: int
    hardware: int | None = None
    """TotalVFs of the capability where the driver keeps some back (igb allows 7 of 8)."""

    @property
    def capability(self) -> int:
        return self.hardware or self.total


@dataclass(frozen=True, slots=True)
class Rdma:
    """The verbs device of a port. `lid` and what follows mean something on InfiniBand only."""

    name: str
    guid: str
    """`7c8c:0903:00ae:4c1c`, as sysfs prints it."""
    board: str = "MT_0000000838"
    lid: int = 0
    sm_lid: int = 0
    prefix: str = "fe80:0000:0000:0000"


@dataclass(frozen=True, slots=True)
class Port:
    """The network side of a NIC function."""

    name: str
    mac: str
    """Six octets, or the 20 of an IPoIB port."""
    speed: int
    """Mb/s with a cable in, 0 without."""
    mtu: int = 1500
    max_mtu: int = 9978
    up: bool = True
    firmware: str = ""
    altnames: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    master: str | None = None
    queues: int = 64
    rdma: Rdma | None = None

    @property
    def infiniband(self) -> bool:
        return len(self.mac) > 17


@dataclass(frozen=True, slots=True)
class Gpu:
    """What the NVIDIA driver says of a GPU."""

    model: str
    uuid: str
    vbios: str = "96.00.74.00.01"
    bar1: int = 128 << 30


@dataclass(frozen=True, slots=True)
class Function:
    """One PCI function and, where it is a bridge, what hangs below it."""

    address: str
    vendor: int
    device: int
    class_: int
    kind: str = "endpoint"
    driver: str | None = None
    subsystem: tuple[int, int] = (0, 0)
    revision: int = 0
    link: PcieLink | None = PcieLink()
    acs: int | None = None
    ats: bool | None = None
    payload: int = 256
    read_request: int = 512
    relaxed_ordering: bool = True
    sriov: Sriov | None = None
    port: Port | None = None
    gpu: Gpu | None = None
    below: tuple[Function, ...] = ()


@dataclass(frozen=True, slots=True)
class Root:
    """A host bridge: the bus it owns and the NUMA node it belongs to."""

    bus: str
    numa: int
    functions: tuple[Function, ...]


@dataclass(frozen=True, slots=True)
class Virtual:
    """A netdev without hardware: bond, VLAN, Open vSwitch port, loopback."""

    name: str
    kind: str | None
    mac: str = "00:00:00:00:00:00"
    mtu: int = 1500
    max_mtu: int = 65535
    up: bool = True
    lower: str | None = None
    vlan: int | None = None
    master: str | None = None
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Route:
    """A route somebody added; connected and local ones follow from the addresses."""

    dst: str
    dev: str
    gateway: str | None = None
    protocol: str = "static"
    metric: int | None = None


@dataclass(frozen=True, slots=True)
class NumaNode:
    cpus: str
    distances: tuple[int, ...]
    hugepages_1g: int = 0
    hugepages_2m: int = 0


@dataclass(frozen=True, slots=True)
class Process:
    """A process that matters: its name and its locked-memory limit."""

    pid: int
    comm: str
    memlock: str = "unlimited"


@dataclass(frozen=True, slots=True)
class NfsMount:
    """An NFS mount; `transport` is what /proc/mounts says in proto=."""

    source: str
    target: str
    transport: str
    server: str
    client: str
    connections: int = 1


@dataclass(frozen=True, slots=True)
class GpuDriver:
    """The NVIDIA kernel modules of the machine."""

    version: str
    open: bool = True
    peermem: bool = False
    gdrdrv: bool = False
    fs: bool = False


@dataclass(frozen=True, slots=True)
class Machine:
    """A whole machine."""

    name: str
    kernel: str
    cmdline: str
    os_release: str
    roots: tuple[Root, ...]
    vendor: str = "Dell Inc."
    product: str = "PowerEdge XE9680"
    bios: tuple[str, str, str] = ("Dell Inc.", "2.4.4", "11/14/2024")
    cpu: str = "GenuineIntel"
    cpu_model: str = "Intel(R) Xeon(R) Platinum 8480+"
    hypervisor: bool = False
    secure_boot: bool | None = False
    lockdown: str | None = "[none] integrity confidentiality"
    clocksource: str = "tsc"
    governor: str | None = "performance"
    numa: tuple[NumaNode, ...] = ()
    iommu: str = "dmar"
    """Prefix of the units: `dmar` (Intel) or `ivhd` (AMD)."""
    iommu_units: int = 1
    iommu_type: str = "identity"
    modules: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Module loaded at boot → the modules it needs."""
    loadable: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Module on the disk, for modprobe and udev → the modules it needs."""
    module_versions: Mapping[str, str] = field(default_factory=dict)
    drivers: tuple[str, ...] = ()
    """PCI drivers that are registered whether or not they hold a device."""
    virtual: tuple[Virtual, ...] = ()
    routes: tuple[Route, ...] = ()
    bridges: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Open vSwitch bridge → its ports."""
    mounts: tuple[NfsMount, ...] = ()
    processes: tuple[Process, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    gpu_driver: GpuDriver | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    predictable_names: bool = True
    """Whether udev names netdevs, gives VFs a MAC that lasts, and loads drivers for what comes."""
    mac_altnames: bool = False
    """Whether its AlternativeNamesPolicy has `mac` too, as in Debian 13's 99-default.link."""
    bootloader: str | None = None
    """What keeps the kernel arguments: `rpm-ostree`, `grubby` or `update-grub`; None: nothing."""
    rdma_json: bool = True
    """Whether `rdma -j system` prints JSON; the lab's iproute2 printed text."""
