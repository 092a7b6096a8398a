"""What a container is given for its devices, and the files that tell others about them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podrail.attach.deviceplugin.api import CDIDevice, ContainerAllocateResponse, DeviceSpec
from podrail.attach.deviceplugin.candidates import AUXILIARY, Candidate
from podrail.attach.deviceplugin.naming import Resource
from podrail.attach.deviceplugin.nodes import TUN, VFIO_CONTAINER, VHOST, Nodes
from podrail.attach.deviceplugin.resources import Pool, Slot

DEVICE_INFO = "/var/run/k8s.cni.cncf.io/devinfo/dp"
DEVICE_INFO_VERSION = "1.1.0"
CDI = "/var/run/cdi"
CDI_VERSION = "0.5.0"  # the first with hostPath, and with device names that start with a digit
_ANNOTATION = "cdi.k8s.io/"
_LONGEST_KEY = 63


@dataclass(frozen=True, slots=True)
class Given:
    """One function of a device, with its files."""

    slot: Slot
    one: Candidate
    nodes: Nodes


def answer(pool: Pool, given: Sequence[Given], *, cdi: bool = False) -> ContainerAllocateResponse:
    """The answer for one container: variables, and device files or their CDI names."""
    ids = list(dict.fromkeys(one.slot.id for one in given))
    response = ContainerAllocateResponse(envs={} if pool.shared else variables(pool, ids, given))
    if cdi:
        _name_devices(response, pool.resource, [id for id in ids if _has_files(id, given)])
    else:
        access = permissions(pool)
        response.devices.extend(
            DeviceSpec(container_path=path, host_path=path, permissions=access)
            for path in paths(given)
        )
    return response


def _has_files(id: str, given: Sequence[Given]) -> bool:
    """A device without files is in no CDI file, and a name that is in none is an error."""
    return bool(paths([one for one in given if one.slot.id == id]))


def _name_devices(to: ContainerAllocateResponse, resource: Resource, ids: Sequence[str]) -> None:
    """In the field and, for runtimes that do not know it yet, in an annotation; both is allowed."""
    names = [cdi_name(resource, id) for id in ids]
    to.cdi_devices.extend(CDIDevice(name=name) for name in names)
    if names:
        to.annotations[annotation_key(resource, ids)] = ",".join(names)


def permissions(pool: Pool) -> str:
    """As upstream's two plugins give them."""
    return "rwm" if pool.shared else "rw"


def paths(given: Sequence[Given]) -> list[str]:
    """Every device file once."""
    return list(dict.fromkeys(path for one in given for path in one.nodes.all))


def variables(pool: Pool, ids: Sequence[str], given: Sequence[Given]) -> dict[str, str]:
    """`PCIDEVICE_…`, the ids, and `PCIDEVICE_…_INFO`, what belongs to each."""
    told = json.dumps({one.one.id: info(one) for one in given}, separators=(",", ":"))
    found: dict[str, str] = {}
    for name in pool.resource.variables:
        found[name] = ",".join(ids)
        found[f"{name}_INFO"] = told
    return found


def info(given: Given) -> dict[str, Any]:
    """One device of `…_INFO`, in upstream's keys."""
    nodes = given.nodes
    parts: dict[str, Mapping[str, str]] = {
        "generic": {"deviceID": given.one.id},
        "rdma": _rdma_info(given),
        "vfio": _vfio_info(nodes),
        "uio": {"mount": nodes.uio[0]} if nodes.uio else {},
        "vdpa": {"mount": nodes.vdpa[0]} if nodes.vdpa else {},
        "vhost": _vhost_info(nodes),
        "extraInfo": given.slot.info,
    }
    return {name: dict(part) for name, part in parts.items() if part}


def _rdma_info(given: Given) -> dict[str, str]:
    found = {path.rpartition("/")[2].rstrip("0123456789"): path for path in given.nodes.rdma}
    if found and given.one.rdma:
        found["rdma_dev"] = given.one.rdma
    return found


def _vfio_info(nodes: Nodes) -> dict[str, str]:
    groups = [path for path in nodes.vfio if path != VFIO_CONTAINER]
    if not nodes.vfio:
        return {}
    return {"mount": VFIO_CONTAINER, **({"dev-mount": groups[0]} if groups else {})}


def _vhost_info(nodes: Nodes) -> dict[str, str]:
    named = {"net-mount": VHOST, "tun-mount": TUN}
    return {key: path for key, path in named.items() if path in nodes.vhost}


# --- device-info files (k8snetworkplumbingwg device-info specification 1.1.0) -----------------


def device_info_file(resource: Resource, id: str) -> str:
    return f"{DEVICE_INFO}/{resource.dashed}-{id}-device.json"


def device_info(slot: Slot, vdpa_path: str | None = None) -> str:
    """What Multus and virtualisation read of a device that was given to a pod."""
    one = slot.members[0]
    pci = {"pci-address": one.pci}
    if one.rdma and slot.traits.rdma:
        pci["rdma-device"] = one.rdma
    if one.index is not None and one.pf:
        pci["pf-pci-address"] = one.pf
    told: dict[str, Any] = {"type": "pci", "version": DEVICE_INFO_VERSION, "pci": pci}
    if slot.traits.vdpa:
        path = {"path": vdpa_path} if vdpa_path else {}
        vdpa = {"driver": slot.traits.vdpa, "pci-address": one.pci, **path}
        told = {"type": "vdpa", "version": DEVICE_INFO_VERSION, "vdpa": vdpa}
    return json.dumps(told, separators=(",", ":")) + "\n"


# --- CDI --------------------------------------------------------------------------------------


def cdi_kind(resource: Resource) -> str:
    return f"{resource.prefix}/{resource.cdi_class}"


def cdi_name(resource: Resource, id: str) -> str:
    return f"{cdi_kind(resource)}={id}"


def cdi_file(resource: Resource) -> str:
    return f"{CDI}/podrail-{resource.prefix}-{resource.cdi_class}.json"


def annotation_key(resource: Resource, ids: Sequence[str]) -> str:
    """Unique in a container: the name of the resource, and of a long one its end."""
    name = f"{resource.dashed}_{ids[0] if ids else ''}".replace(":", "-")
    return _ANNOTATION + name[-_LONGEST_KEY:].lstrip("-_.")


def cdi_spec(pool: Pool, given: Mapping[str, Sequence[Given]]) -> str:
    """The file a container runtime looks names up in; empty where no device has a file."""
    devices = [
        {"name": slot.id, "containerEdits": {"deviceNodes": list(_cdi_nodes(pool, given[slot.id]))}}
        for slot in pool.slots
        if paths(given[slot.id])
    ]
    if not devices:
        return ""
    spec = {"cdiVersion": CDI_VERSION, "kind": cdi_kind(pool.resource), "devices": devices}
    return json.dumps(spec, indent=1) + "\n"


def _cdi_nodes(pool: Pool, given: Sequence[Given]) -> Iterator[dict[str, str]]:
    for path in paths(given):
        yield {"path": path, "hostPath": path, "permissions": permissions(pool)}


def is_function(slot: Slot) -> bool:
    """Whether a device is one function, of which a device-info file can tell."""
    one = slot.members[0] if len(slot.members) == 1 else None
    return one is not None and slot.id == one.id and one.kind != AUXILIARY
