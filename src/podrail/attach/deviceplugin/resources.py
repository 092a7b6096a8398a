"""Which functions belong to which resource. Who takes a function first owns it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from podrail.attach.deviceplugin.candidates import NET, Candidate, of_kind
from podrail.attach.deviceplugin.configs import Entry, SharedEntry, Wanted
from podrail.attach.deviceplugin.naming import Resource
from podrail.attach.deviceplugin.selectors import faults, matches, matches_shared
from podrail.model.inventory import Inventory
from podrail.model.kinds.configs import DeviceSelectors, SharedSelectors
from podrail.model.plan import VfGroup

ANY, KERNEL = "", "kernel"
_MOST_SHARED = 4096


@dataclass(frozen=True, slots=True)
class Traits:
    """What a container gets beside the function itself, and what its health is judged by."""

    rdma: bool = False
    vhost: bool = False
    vdpa: str | None = None
    driver: str = ANY
    """`kernel`, or the driver that must be bound; empty: any."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One device as the kubelet counts them: a function, or a share of one or of several."""

    id: str
    members: tuple[Candidate, ...]
    traits: Traits = Traits()
    topology: bool = True
    info: Mapping[str, str] = field(default_factory=dict)
    """`additionalInfo` of the configuration."""

    @property
    def numa(self) -> int | None:
        """The NUMA node the kubelet is told, where there is one and it may know."""
        nodes = {one.numa for one in self.members} if self.topology else set()
        return nodes.pop() if len(nodes) == 1 else None

    @property
    def pf(self) -> str:
        return self.members[0].pf or self.members[0].id


@dataclass(frozen=True, slots=True)
class Pool:
    """A resource with its devices, none at all where none exist yet."""

    resource: Resource
    slots: tuple[Slot, ...] = ()
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Offer:
    """All resources of a machine, and what cannot be offered and why."""

    pools: tuple[Pool, ...]
    said: tuple[str, ...] = ()


def offer(
    wanted: Wanted,
    inventory: Inventory,
    found: Mapping[str, Candidate],
    *,
    per_hca: bool = False,
) -> Offer:
    """Plan first, then configuration entries in their order, then what is shared.

    `per_hca` counts `rdmaHcaMax` for each HCA and hands out one; upstream counts once for the
    resource and hands out all HCAs it selects.
    """
    owned: set[str] = set()
    pools: dict[Resource, Pool] = {}
    said = list(wanted.said)
    for name, slots in (
        *_planned(wanted, inventory, found, owned),
        *_configured(wanted.entries, found, owned, said),
    ):
        before = pools.get(name, Pool(name))
        pools[name] = Pool(name, (*before.slots, *slots))
    for entry in wanted.shared:
        pools[entry.resource] = _shared(entry, inventory, found, owned, said, per_hca)
    wrong = {name: name.wrong for name in pools}
    said += [f"{name} is not offered: {why}" for name, why in wrong.items() if why]
    return Offer(
        tuple(_in_order(pool) for name, pool in pools.items() if not wrong[name]),
        tuple(dict.fromkeys(said)),
    )


def _in_order(pool: Pool) -> Pool:
    unique = {slot.id: slot for slot in pool.slots}
    if pool.shared:
        return Pool(pool.resource, tuple(unique.values()), shared=True)
    return Pool(pool.resource, tuple(unique[id] for id in sorted(unique)))


# --- the plan ---------------------------------------------------------------------------------


def _planned(
    wanted: Wanted, inventory: Inventory, found: Mapping[str, Candidate], owned: set[str]
) -> Iterator[tuple[Resource, list[Slot]]]:
    """The groups of VFs the policies make; a group without VFs is an empty resource."""
    for pf, wish in wanted.planner.wishes(inventory) if wanted.planner else ():
        for group in wish.groups:
            inside = (vf.pci for vf in pf.vfs if vf.index in group.range)
            mine = [found[pci] for pci in inside if pci in found and pci not in owned]
            free = [one for one in mine if one.kept_back is None]
            owned.update(one.id for one in free)
            yield wanted.named(group.resource), [Slot(o.id, (o,), _traits(group)) for o in free]


def _traits(group: VfGroup) -> Traits:
    driver = KERNEL if group.device_type == "netdevice" else group.device_type
    return Traits(group.rdma, vhost=False, vdpa=group.vdpa, driver=driver)


# --- sriov-network-device-plugin --------------------------------------------------------------


def _configured(
    entries: Iterable[Entry], found: Mapping[str, Candidate], owned: set[str], said: list[str]
) -> Iterator[tuple[Resource, list[Slot]]]:
    for entry in entries:
        selectors = entry.wanted.selector_list()
        if not selectors:
            said.append(
                f"{entry.resource} is empty: it has no selectors; `{{}}` means every device"
            )
        said += [f"{entry.resource}: {why}" for s in selectors for why in faults(s)]
        slots: list[Slot] = []
        for selector in selectors:
            if selector.is_rdma and selector.vdpa_type:
                continue
            for one in of_kind(found.values(), entry.wanted.device_type or NET):
                if one.id not in owned and not one.kept_back and matches(selector, one):
                    owned.add(one.id)
                    slots.append(_slot(entry, selector, one))
        yield entry.resource, slots


def _slot(entry: Entry, selector: DeviceSelectors, one: Candidate) -> Slot:
    traits = Traits(
        rdma=bool(selector.is_rdma),
        vhost=bool(selector.need_vhost_net),
        vdpa=selector.vdpa_type,
    )
    info = _info(entry.wanted.additional_info, one.id)
    return Slot(one.id, (one,), traits, not entry.wanted.exclude_topology, info)


def _info(given: Any, id: str) -> dict[str, str]:
    """`additionalInfo`: of all devices under `*`, of one under its address, which counts more."""
    table = given if isinstance(given, dict) else {}
    parts = [part for part in (table.get("*"), table.get(id)) if isinstance(part, dict)]
    return {str(key): str(value) for part in parts for key, value in part.items()}


# --- k8s-rdma-shared-dev-plugin ---------------------------------------------------------------


def _shared(
    entry: SharedEntry, inventory: Inventory, found: Mapping[str, Candidate], owned: set[str],
    said: list[str], per_hca: bool,
) -> Pool:  # fmt: skip
    """An HCA keeps its owner: a VF that is a rail is not shared as well."""
    if inventory.rdma_netns == "exclusive":
        said.append(
            f"{entry.resource} is empty: RDMA namespaces are exclusive, so no HCA can be shared; "
            "set them to shared (rdma system set netns shared), or give pods VFs"
        )
        return Pool(entry.resource, shared=True)
    selector = _shared_selector(entry, said)
    mine = tuple(
        one
        for one in of_kind(found.values(), NET)
        if one.has_rdma and one.id not in owned and selector and matches_shared(selector, one)
    )
    count = min(max(entry.wanted.rdma_hca_max or 0, 0), _MOST_SHARED)
    traits = Traits(rdma=True)
    if per_hca:
        shares = [Slot(f"{o.id}-{n}", (o,), traits) for o in mine for n in range(count)]
    else:
        shares = [Slot(str(n), mine, traits, topology=False) for n in range(count if mine else 0)]
    return Pool(entry.resource, tuple(shares), shared=True)


def _shared_selector(entry: SharedEntry, said: list[str]) -> SharedSelectors | None:
    given, devices = entry.wanted.selectors, entry.wanted.devices
    named = given is not None and any(given.model_dump(exclude_none=True).values())
    if named and devices:
        said.append(f"{entry.resource} is empty: it has both selectors and devices; keep one")
        return None
    if not named and not devices:
        said.append(f"{entry.resource} is empty: it has neither selectors nor devices; add one")
        return None
    return given if named else SharedSelectors.model_validate({"ifNames": devices})
