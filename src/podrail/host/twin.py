"""TwinHost: a living model of a machine, true to what the kernel does.

Its state is the file tree. A write to a sysfs attribute runs the behaviour the kernel has there; a
program answers from the tree as it stands. What has no file (addresses, routes, what the
administrator set on a VF) is kept beside the tree. Each behaviour is declared, with the recording
or the kernel function it copies, in `podrail.host.twins.behaviours`.
"""

from __future__ import annotations

import errno
import heapq
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from podrail.host.memory import MemoryHost
from podrail.host.seam import Event
from podrail.host.twins import spec

Writer = Callable[["TwinHost", str, str], None]
"""What a write to a file of this name does: (host, real path, text)."""


def fail(code: int, path: str) -> OSError:
    """The kernel's refusal."""
    return OSError(code, os.strerror(code), path)


@dataclass(slots=True)
class VfSettings:
    """What the administrator set on a VF through its PF; it lives as long as the VF."""

    mac: str = "00:00:00:00:00:00"
    admin_mac: bool = False
    """Whether `mac` is the administrator's, or what the VF told its PF."""
    vlan: int = 0
    qos: int = 0
    proto: str = "802.1Q"
    max_tx: int = 0
    min_tx: int = 0
    spoofchk: bool = True
    trust: bool = False
    state: str = "auto"
    node_guid: str = "00:00:00:00:00:00:00:00"
    port_guid: str = "00:00:00:00:00:00:00:00"


@dataclass(slots=True)
class PciFunction:
    """One PCI function as it stands."""

    spec: spec.Function
    path: str
    numa: int
    group: int | None = None
    parent: PciFunction | None = None
    physfn: PciFunction | None = None
    index: int = -1
    vfs: list[PciFunction] = field(default_factory=list)
    settings: list[VfSettings] = field(default_factory=list)
    netdev: str | None = None
    rdma: str | None = None

    @property
    def address(self) -> str:
        return self.spec.address


@dataclass(slots=True)
class Netdev:
    """What `ip` knows of a netdev and sysfs does not show."""

    name: str
    ifindex: int
    path: str
    pci: str | None = None
    bus: tuple[str, str] | None = None
    kind: str | None = None
    master: str | None = None
    lower: str | None = None
    vlan: int | None = None
    min_mtu: int = 68
    max_mtu: int = 65535
    queues: int = 1
    altnames: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    speed: int = 0
    permanent: str | None = None
    """The address it was born with, where somebody gave it another."""
    qdisc: bool = False
    """Whether a queueing discipline is attached, which happens when it is first up."""

    def attribute(self, name: str) -> str:
        return f"{self.path}/{name}"


class TwinHost(MemoryHost):
    """A machine that answers and changes as a real one would."""

    def __init__(self, label: str, labels: Mapping[str, str] | None = None) -> None:
        super().__init__(label)
        self.labels: dict[str, str] = dict(labels or {})
        self.objects: dict[str, Any] = {}
        self.machine: spec.Machine | None = None
        self.functions: dict[str, PciFunction] = {}
        self.netdevs: dict[str, Netdev] = {}
        self.rdma_index: dict[str, int] = {}
        self.routes: list[spec.Route] = []
        self.modules: dict[str, tuple[str, ...]] = {}
        self.writers: dict[str, Writer] = {}
        self.refusals: dict[str, int] = {}
        """Path → the errno a write there, or below it, meets."""
        self._counters: dict[str, int] = {}
        self._freed: dict[str, list[int]] = {}

    def write(self, path: str, text: str) -> None:
        real = self.resolve(path)
        self._may_write(path, real)
        if not real.startswith("/sys/"):
            super().write(real, text)
            return
        writer = self.writers.get(real.rpartition("/")[2])
        if writer is None:
            # fs/kernfs/file.c:kernfs_fop_open: not even root may write a read-only attribute
            raise fail(errno.EACCES, path)
        if text:  # fs/sysfs/file.c:sysfs_kf_write: an empty write reaches nobody
            writer(self, real, text)

    def place(self, path: str, text: str, *, mode: int = 0o644) -> None:
        real = self._made(path)
        self._may_write(path, real)
        if real.startswith("/proc/"):  # its own lookup says no first
            raise fail(errno.ENOENT, path)
        if real.startswith("/sys/"):  # fs/namei.c: no i_op->create, or no i_op->mkdir
            known = real.rpartition("/")[0] in self._children
            raise fail(errno.EACCES if known else errno.EPERM, path)
        super().place(path, text, mode=mode)

    def unlink(self, path: str) -> None:
        self._may_write(path)
        above = path.rstrip("/").rpartition("/")[0]
        if f"{self.resolve(above or '/')}/".startswith(("/sys/", "/proc/")):
            self.resolve(path)
            raise fail(errno.EPERM, path)  # fs/namei.c:vfs_unlink without i_op->unlink
        super().unlink(path)

    def _may_write(self, *paths: str) -> None:
        """The refusal nearest to a path holds."""
        for place in sorted(self.refusals, key=len, reverse=True):
            if any(f"{path}/".startswith(f"{place.rstrip('/')}/") for path in paths):
                raise fail(self.refusals[place], paths[0])

    @property
    def watched(self) -> bool:
        """Whether anybody hears what is told."""
        return bool(self._watches)

    def uevent(self, action: str, path: str, subsystem: str, name: str = "") -> None:
        """What lib/kobject_uevent.c:kobject_uevent tells."""
        if self.watched:
            self.emit(Event("uevent", action, path, name, subsystem))

    def link_event(self, action: str, name: str) -> None:
        """What net/core/rtnetlink.c:rtmsg_ifinfo tells."""
        if self.watched:
            self.emit(Event("link", action, name=name, subsystem="net"))

    def serial(self, kind: str, first: int = 0) -> int:
        """A number that is never given twice: ifindex, rdma ifindex."""
        value = self._counters.get(kind, first)
        self._counters[kind] = value + 1
        return value

    def lowest(self, kind: str) -> int:
        """The lowest number not in use, as ida_alloc gives it: IOMMU groups, mlx5_N."""
        freed = self._freed.get(kind)
        return heapq.heappop(freed) if freed else self.serial(kind)

    def free(self, kind: str, number: int) -> None:
        """Give a number back."""
        heapq.heappush(self._freed.setdefault(kind, []), number)

    @property
    def kernel(self) -> tuple[int, int]:
        """Major and minor number of the kernel that runs."""
        major, minor = self.text("/proc/sys/kernel/osrelease", "0.0").split(".")[:2]
        return int(major), int(minor)

    def text(self, path: str, default: str = "") -> str:
        """A file's text without its newline, or `default` where reading it fails."""
        try:
            return self.read(path).rstrip("\n")
        except OSError:
            return default

    def names(self, path: str) -> set[str]:
        """What a directory holds, empty where it is not there."""
        return self._children.get(path, set())

    def at(self, real: str) -> PciFunction:
        """The PCI function that owns an attribute."""
        address = real.rsplit("/", 2)[1]
        if address not in self.functions:
            raise fail(errno.ENODEV, real)
        return self.functions[address]

    def driver(self, function: PciFunction) -> str | None:
        """The name of the driver bound to a function."""
        try:
            return self.readlink(f"{function.path}/driver").rpartition("/")[2]
        except OSError:
            return None

    def loaded(self, module: str) -> bool:
        """Whether /proc/modules lists a module."""
        return f"\n{module} " in "\n" + self.text("/proc/modules")
