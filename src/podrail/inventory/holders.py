"""Who holds a VF: a held VF is never reset, recreated or re-bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from podrail.inventory.pci import ADDRESS, DEVICES, Tree
from podrail.inventory.reader import Reader, as_dict, as_dicts, as_int, as_str

VFIO = "vfio-pci"

_CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
_CNI = "/var/lib/cni/sriov/pci"
_NO_NETDEV = (None, VFIO, "uio_pci_generic", "igb_uio", "pci-stub")


@dataclass(frozen=True, slots=True)
class Holders:
    """What is known of holders on the whole host, gathered once."""

    pods: Mapping[str, str]
    namespaces: Mapping[str, str]
    vfio: Mapping[str, int]
    """Name under /dev/vfio (`13`, `devices/vfio0`) → a process that has it open."""
    resources: Mapping[str, dict[str, Any]]

    def pod(self, pci: str) -> str | None:
        """The kubelet has given it to a container."""
        return self.pods.get(pci)

    def namespace(self, pci: str, driver: str | None, moved: bool) -> str | None:
        """Its net device is in another network namespace."""
        if pci in self.namespaces:
            return f"netns {self.namespaces[pci]}"
        return "netns (net device moved away)" if moved and driver not in _NO_NETDEV else None

    def userspace(self, group: int | None, device: str | None) -> str | None:
        """A process has its vfio group or vfio device open."""
        if str(group) in self.vfio:
            return f"vfio group {group} open by pid {self.vfio[str(group)]}"
        name = f"devices/{device}"
        return f"vfio device {device} open by pid {self.vfio[name]}" if name in self.vfio else None

    def verbs(self, rdma: str | None) -> str | None:
        """A process has verbs open on it, or the kernel has connections (NFS over RDMA)."""
        counts = self.resources.get(rdma or "", {})
        users, connections = as_int(counts.get("ctx")) or 0, as_int(counts.get("cm_id")) or 0
        if users > 0:
            return f"rdma: {users} user{'s' * (users > 1)} on {rdma}"
        if connections > 0:
            return f"rdma: {connections} kernel connection{'s' * (connections > 1)} on {rdma}"
        return None


def gather(reader: Reader, tree: Tree, resources: Mapping[str, dict[str, Any]]) -> Holders:
    """One look at the kubelet, the CNI's state and, where a VF is on vfio-pci, open files."""
    return Holders(
        pods=pods_in(reader),
        namespaces=_namespaces(reader),
        vfio=_open_vfio(reader) if _any_on_vfio(reader, tree) else {},
        resources=resources,
    )


def pods_in(reader: Reader) -> dict[str, str]:
    """PCI address → pod, from the kubelet's device manager checkpoint."""
    text = reader.text(_CHECKPOINT)
    data = as_dict(as_dict(reader.parse(text, _CHECKPOINT) if text else None).get("Data"))
    return {
        device: f"pod {entry.get('PodUID')} (container {entry.get('ContainerName')})"
        for entry in as_dicts(data.get("PodDeviceEntries"))
        for device in _device_ids(entry.get("DeviceIDs"))
        if ADDRESS.fullmatch(device)
    }


def _device_ids(ids: Any) -> list[str]:
    """A list, or since Kubernetes 1.20 an object of NUMA node → list."""
    lists = list(ids.values()) if isinstance(ids, dict) else [ids]
    flat = (item for one in lists if isinstance(one, list) for item in one)
    return [device for device in map(as_str, flat) if device]


def _namespaces(reader: Reader) -> dict[str, str]:
    """What sriov-cni wrote; a namespace that is gone holds nothing."""
    found = {}
    for pci in reader.names(_CNI):
        netns = reader.text(f"{_CNI}/{pci}", quiet=True) if ADDRESS.fullmatch(pci) else None
        if netns and netns.startswith("/") and reader.resolve(netns, quiet=True):
            found[pci] = netns
    return found


def _any_on_vfio(reader: Reader, tree: Tree) -> bool:
    vfs = (address for address, names in tree.names.items() if {"physfn", "driver"} <= names)
    return any(reader.link(f"{DEVICES}/{address}/driver", quiet=True) == VFIO for address in vfs)


def _open_vfio(reader: Reader) -> dict[str, int]:
    found: dict[str, int] = {}
    for pid in sorted(filter(str.isdecimal, reader.names("/proc")), key=int):
        for fd in reader.names(f"/proc/{pid}/fd", quiet=True):
            target = reader.target(f"/proc/{pid}/fd/{fd}") or ""
            name = target.removeprefix("/dev/vfio/")
            if name != target:
                found.setdefault(name, int(pid))
    return found
