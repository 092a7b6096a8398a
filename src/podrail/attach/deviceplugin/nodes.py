"""The host's side of a device: its files under /dev, and facts that no inventory carries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from podrail.attach.deviceplugin.candidates import (
    ACCELERATOR,
    AUXILIARY,
    AcceleratorVf,
    Candidate,
    Extra,
    Extras,
    Subfunction,
)
from podrail.attach.deviceplugin.resources import Traits
from podrail.host.seam import Host, exists
from podrail.inventory.held import virtual_functions
from podrail.inventory.holders import VFIO
from podrail.inventory.pci import ADDRESS, DEVICES, group_of, hex_id
from podrail.inventory.reader import Reader, number
from podrail.model.inventory import Inventory

# drivers/infiniband/core/uverbs_main.c and user_mad.c: neither class belongs to a network
# namespace, so these stay in sight when the RDMA device itself is in a pod
_VERBS, _MADS = "infiniband_verbs", "infiniband_mad"
_NODE = re.compile(r"(uverbs|umad|issm)\d{1,5}", re.ASCII)
_UIO = ("uio_pci_generic", "igb_uio")
_AUX, _VDPA = "/sys/bus/auxiliary/devices", "/sys/bus/vdpa/devices"
_VDPA_DRIVERS = {"vhost_vdpa": "vhost", "virtio_vdpa": "virtio"}
RDMA_CM = "/dev/infiniband/rdma_cm"
VFIO_CONTAINER = "/dev/vfio/vfio"
VHOST, TUN = "/dev/vhost-net", "/dev/net/tun"


@dataclass(frozen=True, slots=True)
class Nodes:
    """Device files of one function; those that do not exist are left out."""

    rdma: tuple[str, ...] = ()
    """uverbsN, umadN, issmN of this function alone, and rdma_cm, which all share."""
    vfio: tuple[str, ...] = ()
    uio: tuple[str, ...] = ()
    vdpa: tuple[str, ...] = ()
    vhost: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.rdma, *self.vfio, *self.uio, *self.vdpa, *self.vhost)


def nodes(host: Host, one: Candidate, traits: Traits) -> Nodes:
    """The files a container needs for one function, as they are at this moment."""
    reader = Reader(host)
    driver = reader.link(f"{DEVICES}/{one.pci}/driver", quiet=True)
    return Nodes(
        rdma=_there(host, _rdma(reader, one)) if traits.rdma else (),
        vfio=_there(host, _vfio(host, reader, one)) if driver == VFIO else (),
        uio=_there(host, _uio(reader, one)) if driver in _UIO else (),
        vdpa=_there(host, _vdpa(reader, one)) if traits.vdpa == "vhost" else (),
        vhost=_there(host, (VHOST, TUN)) if traits.vhost else (),
    )


def _there(host: Host, paths: Iterator[str] | tuple[str, ...]) -> tuple[str, ...]:
    return tuple(path for path in paths if exists(host, path))


def _rdma(reader: Reader, one: Candidate) -> Iterator[str]:
    own = [name for name in _character_devices(reader, one) if _NODE.fullmatch(name)]
    for name in own:
        yield f"/dev/infiniband/{name}"
    if own:
        yield RDMA_CM


def _character_devices(reader: Reader, one: Candidate) -> Iterator[str]:
    """Below the function; those of software devices and subfunctions say whose they are."""
    place = f"{_AUX}/{one.id}" if one.kind == AUXILIARY else f"{DEVICES}/{one.id}"
    for kind in (_VERBS, _MADS):
        below = reader.names(f"{place}/{kind}", quiet=True)
        yield from below or _by_name(reader, kind, one.rdma)


def _by_name(reader: Reader, kind: str, rdma: str | None) -> list[str]:
    at = f"/sys/class/{kind}"
    names = [name for name in reader.names(at, quiet=True) if rdma and _NODE.fullmatch(name)]
    return [name for name in names if reader.text(f"{at}/{name}/ibdev", quiet=True) == rdma]


def _vfio(host: Host, reader: Reader, one: Candidate) -> Iterator[str]:
    yield VFIO_CONTAINER
    group = reader.link(f"{DEVICES}/{one.id}/iommu_group", quiet=True)
    if group:
        # drivers/vfio/group.c:vfio_group_alloc puts this before the number of a group without one
        unsafe = f"/dev/vfio/noiommu-{group}"
        yield unsafe if exists(host, unsafe) else f"/dev/vfio/{group}"


def _uio(reader: Reader, one: Candidate) -> Iterator[str]:
    return (f"/dev/{name}" for name in reader.names(f"{DEVICES}/{one.id}/uio", quiet=True))


def _vdpa(reader: Reader, one: Candidate) -> Iterator[str]:
    for name, place in _vdpa_devices(reader):
        if f"/{one.id}/" in f"{place}/":
            for node in reader.names(f"{_VDPA}/{name}", quiet=True):
                if node.startswith("vhost-vdpa-"):
                    yield f"/dev/{node}"


# --- facts for selectors ----------------------------------------------------------------------


def extras(host: Host, inventory: Inventory, asks: frozenset[str]) -> Extras:
    """What selectors ask for beside the inventory; nothing is read that none asks for."""
    reader = Reader(host)
    vdpa = _vdpa_types(reader) if "vdpa" in asks else {}
    functions = [address for pf in inventory.pfs for address in (pf.pci, *pf.vfs.column("pci"))]
    acpi = {f: _acpi(reader, f) for f in functions} if "acpi" in asks else {}
    return Extras(
        {f: Extra(acpi.get(f), vdpa.get(f)) for f in functions if acpi.get(f) or vdpa.get(f)},
        tuple(_subfunctions(reader)) if AUXILIARY in asks else (),
        tuple(_accelerator_vfs(reader, inventory)) if ACCELERATOR in asks else (),
    )


def _acpi(reader: Reader, function: str) -> str | None:
    return reader.text(f"{DEVICES}/{function}/acpi_index", quiet=True)


def _vdpa_devices(reader: Reader) -> Iterator[tuple[str, str]]:
    for name in reader.names(_VDPA, quiet=True):
        place = reader.resolve(f"{_VDPA}/{name}", quiet=True)
        if place:
            yield name, place


def _vdpa_types(reader: Reader) -> Mapping[str, str]:
    found = {}
    for name, place in _vdpa_devices(reader):
        function = _function_in(place)
        driver = reader.link(f"{_VDPA}/{name}/driver", quiet=True)
        if function and driver in _VDPA_DRIVERS:
            found[function] = _VDPA_DRIVERS[driver]
    return found


def _function_in(place: str) -> str | None:
    """The innermost PCI function of a path."""
    return next((part for part in reversed(place.split("/")) if ADDRESS.fullmatch(part)), None)


def _subfunctions(reader: Reader) -> Iterator[Subfunction]:
    """`DRIVER.TYPE.NUMBER`, Documentation/driver-api/auxiliary_bus.rst."""
    for name in reader.names(_AUX, quiet=True):
        parts, at = name.split("."), f"{_AUX}/{name}"
        pf = _function_in(reader.resolve(at, quiet=True) or "")
        if len(parts) == 3 and pf:
            yield Subfunction(
                id=name,
                type=parts[1],
                pf=pf,
                index=number(reader.text(f"{at}/sfnum", quiet=True)),
                netdev=next(iter(reader.names(f"{at}/net", quiet=True)), None),
                rdma=next(iter(reader.names(f"{at}/infiniband", quiet=True)), None),
                driver=reader.link(f"{at}/driver", quiet=True),
            )


def _accelerator_vfs(reader: Reader, inventory: Inventory) -> Iterator[AcceleratorVf]:
    for card in inventory.pci:
        if card.class_.startswith("12"):
            for vf in virtual_functions(reader, card.address).values():
                at = f"{DEVICES}/{vf}"
                yield AcceleratorVf(
                    id=vf,
                    pf=card.address,
                    device=hex_id(reader, f"{at}/device", 4),
                    driver=reader.link(f"{at}/driver", quiet=True),
                    iommu_group=group_of(reader, at),
                )
