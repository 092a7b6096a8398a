"""A SriovNetworkNodePolicy as the planner needs it: slotted, defaults filled in, ranges parsed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from podrail.model.bundle import Bundle, Resource
from podrail.model.finding import Where
from podrail.model.kinds.sriov import PolicySpec, SriovNetworkNodePolicy

WEAKEST = 99
"""The priority the upstream webhook writes where none is given; 0 is the strongest."""

_RANGE = re.compile(r"^(\d{1,5})-(\d{1,5})$")


@dataclass(frozen=True, slots=True, order=True)
class VfRange:
    """VF indexes, both ends included."""

    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last + 1))

    def overlaps(self, other: VfRange) -> bool:
        return self.first <= other.last and other.first <= self.last

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


@dataclass(frozen=True, slots=True)
class PfName:
    """An entry of `pfNames`: `ens8f0`, or `ens8f0#0-3` for a part of its VFs."""

    name: str
    range: VfRange | None = None


def pf_name(text: str) -> PfName | None:
    """`ens8f0#0-3` taken apart; None where upstream's webhook refuses it."""
    name, hash_, rest = text.partition("#")
    if not hash_:
        return PfName(name)
    match = _RANGE.match(rest)
    if not match or int(match[1]) > int(match[2]):
        return None
    return PfName(name, VfRange(int(match[1]), int(match[2])))


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy, with the defaults of upstream's webhook."""

    name: str
    resource: str
    num_vfs: int
    node_selector: tuple[tuple[str, str], ...] = ()
    vendor: str | None = None
    device: str | None = None
    root_devices: tuple[str, ...] = ()
    pf_names: tuple[PfName, ...] = ()
    net_filter: str | None = None
    priority: int = WEAKEST
    mtu: int | None = None
    device_type: str = "netdevice"
    is_rdma: bool = False
    link_type: str | None = None
    eswitch: str | None = None
    vdpa: str | None = None
    external: bool = False
    where: Where | None = None
    unusable: str | None = None
    """Why upstream would not act on it at all: refused by the API server, or ignored."""

    @property
    def selects_no_nic(self) -> bool:
        """An empty nicSelector matches nothing upstream."""
        return not (
            self.vendor or self.device or self.root_devices or self.pf_names or self.net_filter
        )


def policies(bundle: Bundle) -> tuple[Policy, ...]:
    """The policies of a bundle, weakest first: the order in which upstream applies them.

    By priority, highest number first, then by name; what is applied later wins.
    """
    found = [
        replace(
            _policy(t.resource.name, t.model.spec, t.resource.where()),
            unusable=_unusable(t.resource, t.model.spec),
        )
        for t in bundle.of(SriovNetworkNodePolicy)
    ]
    return in_order(found)


def _unusable(resource: Resource, spec: PolicySpec) -> str | None:
    """A wish that is half read would reach further than it says: it is not acted on."""
    if resource.name == "default":
        return "the operator ignores a policy called default"
    if resource.refused:
        return f"the API server refuses it: {resource.refused}"
    wrong = next((n for n in spec.nic_selector.pf_names or () if pf_name(n) is None), None)
    if wrong is not None:
        return f"pfNames entry {wrong!r} is no NAME or NAME#FIRST-LAST"
    return None


def in_order(found: list[Policy] | tuple[Policy, ...]) -> tuple[Policy, ...]:
    """Weakest first, whatever the order of files; of two policies with one name, one stands."""
    unique = {policy.name: policy for policy in sorted(found, key=repr)}
    return tuple(sorted(unique.values(), key=lambda p: (-p.priority, p.name)))


def _policy(name: str, spec: PolicySpec, where: Where) -> Policy:
    nic = spec.nic_selector
    device_type = spec.device_type or "netdevice"
    link_type = spec.link_type.lower() if spec.link_type else None
    return Policy(
        name=name,
        resource=spec.resource_name,
        num_vfs=spec.num_vfs,
        node_selector=tuple(sorted(spec.node_selector.items())),
        vendor=nic.vendor,
        device=nic.device_id,
        root_devices=tuple(nic.root_devices or ()),
        pf_names=tuple(p for p in map(pf_name, nic.pf_names or ()) if p),
        net_filter=nic.net_filter,
        priority=WEAKEST if spec.priority is None else spec.priority,
        mtu=spec.mtu,
        device_type=device_type,
        is_rdma=bool(spec.is_rdma) or (link_type == "ib" and device_type != "vfio-pci"),
        link_type=link_type,
        eswitch=spec.e_switch_mode,
        vdpa=spec.vdpa_type,
        external=bool(spec.externally_managed),
        where=where,
    )
