"""What could be handed out on a machine: VFs, PFs without VFs, accelerators, subfunctions.

Keyed on PCI address, PF and index, and remembered: a VF in a pod's namespace shows no netdev, in
exclusive mode no RDMA device, and one whose driver was lost shows neither. It is still that VF.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from podrail.model.inventory import Inventory, PciDevice, Pf, RdmaDevice
from podrail.model.vf import Vf
from podrail.planning.decide import USERSPACE_DRIVERS

NET, ACCELERATOR, AUXILIARY = "netDevice", "accelerator", "auxNetDevice"
_ACCELERATORS = "12"  # include/linux/pci_ids.h:PCI_BASE_CLASS_ACCELERATOR
_WORDS = re.compile(r"[\s()→]+")


@dataclass(frozen=True, slots=True)
class Extra:
    """Facts that only some selectors ask for, and no inventory carries."""

    acpi_index: str | None = None
    vdpa: str | None = None
    """`vhost` or `virtio`: the driver of the vDPA device on it."""


@dataclass(frozen=True, slots=True)
class Subfunction:
    """An auxiliary device that carries a network: `mlx5_core.sf.4`."""

    id: str
    type: str
    pf: str
    index: int | None = None
    netdev: str | None = None
    rdma: str | None = None
    driver: str | None = None


@dataclass(frozen=True, slots=True)
class AcceleratorVf:
    """A VF of an accelerator; the inventory has only those of NICs."""

    id: str
    pf: str
    device: str
    driver: str | None = None
    iommu_group: int | None = None


@dataclass(frozen=True, slots=True)
class Extras:
    """What was read beside the inventory."""

    functions: Mapping[str, Extra] = field(default_factory=dict)
    subfunctions: tuple[Subfunction, ...] = ()
    accelerators: tuple[AcceleratorVf, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """One function, as far as it was ever seen since it is there."""

    id: str
    kind: str
    vendor: str
    device: str
    driver: str | None = None
    pf: str | None = None
    pf_names: tuple[str, ...] = ()
    index: int | None = None
    """Of a VF or a subfunction."""
    link_type: str | None = None
    netdev: str | None = None
    rdma: str | None = None
    pkey: int | None = None
    """The partition at index 0, InfiniBand only."""
    numa: int | None = None
    iommu_group: int | None = None
    acpi_index: str | None = None
    vdpa: str | None = None
    auxiliary: str | None = None
    held: str | None = None
    kept_back: str | None = None
    """Why it is never handed out whole, as upstream decides too."""
    has_rdma: bool = False
    """Whether it has, or when it comes back from its pod will have, an RDMA device."""
    driver_now: str | None = None
    rdma_now: str | None = None

    @property
    def pci(self) -> str:
        """The function it is, or is part of."""
        return (self.pf or self.id) if self.kind == AUXILIARY else self.id


_LASTING = ("driver", "link_type", "netdev", "rdma", "pkey", "vdpa")


def candidates(
    inventory: Inventory,
    extras: Extras | None = None,
    before: Mapping[str, Candidate] | None = None,
) -> dict[str, Candidate]:
    """Everything that could be handed out, by id."""
    known = extras or Extras()
    found = (*_network(inventory, known), *_accelerators(inventory, known))
    earlier = before or {}
    return {one.id: _remembered(one, earlier.get(one.id)) for one in found}


def _remembered(now: Candidate, before: Candidate | None) -> Candidate:
    """What cannot be seen at the moment stands as it was, if it is the same function."""
    if before is None or (before.pf, before.index, before.device) != (
        now.pf,
        now.index,
        now.device,
    ):
        return now
    missing = {name for name in _LASTING if getattr(now, name) is None}
    lost = {name: getattr(before, name) for name in missing}
    return replace(now, **lost, has_rdma=now.has_rdma or (before.has_rdma and "rdma" in missing))


def _network(inventory: Inventory, extras: Extras) -> Iterator[Candidate]:
    verbs = {device.name: device for device in inventory.rdma}
    for pf in inventory.pfs:
        yield _pf(pf, verbs, extras)
        for vf in pf.vfs:
            yield _vf(pf, vf, verbs, extras)
    by_address = {pf.pci: pf for pf in inventory.pfs}
    for part in extras.subfunctions:
        if part.pf in by_address:
            yield _subfunction(by_address[part.pf], part, verbs)


def _names(pf: Pf) -> tuple[str, ...]:
    return tuple(filter(None, (pf.name, *pf.altnames)))


def _pf(pf: Pf, verbs: Mapping[str, RdmaDevice], extras: Extras) -> Candidate:
    extra = extras.functions.get(pf.pci, Extra())
    return Candidate(
        id=pf.pci,
        kind=NET,
        vendor=pf.vendor,
        device=pf.device,
        driver=pf.driver,
        pf=pf.pci,
        pf_names=_names(pf),
        link_type=pf.link_type,
        netdev=pf.name or None,
        rdma=pf.rdma,
        pkey=_pkey(verbs.get(pf.rdma or "")),
        numa=pf.numa,
        acpi_index=extra.acpi_index,
        vdpa=extra.vdpa,
        kept_back=pf.management or ("it has VFs" if pf.vfs else None),
        has_rdma=pf.rdma is not None,
        driver_now=pf.driver,
        rdma_now=pf.rdma,
    )


def _vf(pf: Pf, vf: Vf, verbs: Mapping[str, RdmaDevice], extras: Extras) -> Candidate:
    extra = extras.functions.get(vf.pci, Extra())
    kernel = vf.driver is not None and vf.driver not in USERSPACE_DRIVERS
    return Candidate(
        id=vf.pci,
        kind=NET,
        vendor=pf.vendor,
        device=pf.vf_device or "",
        driver=vf.driver,
        pf=pf.pci,
        pf_names=_names(pf),
        index=vf.index,
        link_type=pf.link_type,
        netdev=vf.netdev,
        rdma=vf.rdma,
        pkey=_pkey(verbs.get(vf.rdma or "")),
        numa=vf.numa,
        iommu_group=vf.iommu_group,
        acpi_index=extra.acpi_index,
        vdpa=extra.vdpa,
        held=vf.holder,
        kept_back=_vital(pf.management, vf.netdev),
        # in exclusive mode the device went with the netdev, and nothing here shows it any more
        has_rdma=vf.rdma is not None or bool(vf.holder and kernel and pf.rdma),
        driver_now=vf.driver,
        rdma_now=vf.rdma,
    )


def _vital(management: str | None, netdev: str | None) -> str | None:
    """The inventory judges a PF with its VFs; the reason names the netdev it is about."""
    return management if management and netdev in _WORDS.split(management) else None


def _subfunction(pf: Pf, part: Subfunction, verbs: Mapping[str, RdmaDevice]) -> Candidate:
    return Candidate(
        id=part.id,
        kind=AUXILIARY,
        vendor=pf.vendor,
        device=pf.device,
        driver=part.driver,
        pf=pf.pci,
        pf_names=_names(pf),
        index=part.index,
        link_type=pf.link_type,
        netdev=part.netdev,
        rdma=part.rdma,
        pkey=_pkey(verbs.get(part.rdma or "")),
        numa=pf.numa,
        auxiliary=part.type,
        has_rdma=part.rdma is not None,
        driver_now=part.driver,
        rdma_now=part.rdma,
    )


def _pkey(device: RdmaDevice | None) -> int | None:
    keys = [key for port in device.ports for key in port.pkeys[:1]] if device else []
    return int(keys[0], 16) if keys else None


def _accelerators(inventory: Inventory, extras: Extras) -> Iterator[Candidate]:
    """Class 12; a PF that has VFs is not handed out, its VFs are."""
    cards = {one.address: one for one in inventory.pci if one.class_.startswith(_ACCELERATORS)}
    split = {vf.pf for vf in extras.accelerators}
    for address, card in cards.items():
        yield _accelerator(card, "it has VFs" if address in split else None)
    for vf in extras.accelerators:
        if vf.pf in cards:
            yield _accelerator_vf(cards[vf.pf], vf)


def _accelerator(card: PciDevice, kept_back: str | None) -> Candidate:
    return Candidate(
        id=card.address,
        kind=ACCELERATOR,
        vendor=card.vendor,
        device=card.device,
        driver=card.driver,
        pf=card.address,
        numa=card.numa,
        iommu_group=card.iommu_group,
        kept_back=kept_back,
        driver_now=card.driver,
    )


def _accelerator_vf(card: PciDevice, vf: AcceleratorVf) -> Candidate:
    return replace(
        _accelerator(card, None),
        id=vf.id,
        device=vf.device,
        driver=vf.driver,
        iommu_group=vf.iommu_group,
        driver_now=vf.driver,
    )


def of_kind(found: Iterable[Candidate], kind: str) -> list[Candidate]:
    return [one for one in found if one.kind == kind]
