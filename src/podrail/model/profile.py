"""A HostProfile as the steps need it: slotted, defaults filled in, only what was given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from podrail.model.bundle import Bundle, Resource
from podrail.model.finding import Where
from podrail.model.kinds.podrail import HostProfile, HostProfileSpec, ProfileNicSelector
from podrail.model.kinds.podrail import Roce as RoceSpec
from podrail.model.policy import Policy, pf_name
from podrail.model.wire import Wire

ECT = 0b10
"""ECT(0) of RFC 3168: without it a switch drops what it could have marked."""

Settings = Mapping[str, bool | int]


@dataclass(frozen=True, slots=True)
class Roce:
    """How a port treats RoCE; `tos` is what rdma_cm puts into the packets it sends."""

    trust: str | None = None
    priority: int | None = None
    dscp: int | None = None
    ecn: bool | None = None
    tos: int | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """One profile. What is not given is left alone."""

    name: str
    selector: Policy
    """Which nodes and PFs, under the rules of a SriovNetworkNodePolicy."""
    roce: Roce = Roce()
    rings: Settings = field(default_factory=dict)
    coalescing: Settings = field(default_factory=dict)
    pcie: Settings = field(default_factory=dict)
    governor: str | None = None
    memlock: bool = False
    where: Where | None = None

    @property
    def tunes_nics(self) -> bool:
        return self.roce != Roce() or bool(self.rings or self.coalescing or self.pcie)


def profiles(bundle: Bundle) -> tuple[Profile, ...]:
    """The profiles of a bundle by name: where two set one thing, the later name wins."""
    found = {t.resource.name: _profile(t.resource, t.model) for t in bundle.of(HostProfile)}
    return tuple(found[name] for name in sorted(found))


def tos_of(dscp: int) -> int:
    """The traffic class of a DSCP for traffic that takes part in ECN: 26 → 106."""
    return dscp << 2 | ECT


def _profile(resource: Resource, model: HostProfile) -> Profile:
    spec = model.spec or HostProfileSpec.model_validate({})
    unusable = f"the manifest is invalid: {resource.refused}" if resource.refused else None
    return Profile(
        name=resource.name,
        selector=replace(_selector(resource.name, spec), unusable=unusable),
        roce=_roce(spec.roce) if spec.roce else Roce(),
        rings=_given(spec.rings),
        coalescing=_given(spec.coalescing),
        pcie=_given(spec.pcie),
        governor=spec.cpu.governor if spec.cpu else None,
        memlock=spec.memlock is not None,
        where=resource.where(),
    )


def _selector(name: str, spec: HostProfileSpec) -> Policy:
    nic = spec.nic_selector or ProfileNicSelector.model_validate({})
    return Policy(
        name=name,
        resource="",
        num_vfs=0,
        node_selector=tuple(sorted((spec.node_selector or {}).items())),
        vendor=nic.vendor,
        device=nic.device_id,
        root_devices=tuple(nic.root_devices or ()),
        pf_names=tuple(p for p in map(pf_name, nic.pf_names or ()) if p),
    )


def _roce(roce: RoceSpec) -> Roce:
    derived = None if roce.dscp is None else tos_of(roce.dscp)
    return Roce(
        trust=roce.trust,
        priority=roce.priority,
        dscp=roce.dscp,
        ecn=roce.ecn,
        tos=derived if roce.tos is None else roce.tos,
    )


def _given(part: Wire | None) -> Settings:
    return part.model_dump(by_alias=True, exclude_none=True) if part else {}
