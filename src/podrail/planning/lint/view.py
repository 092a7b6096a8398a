"""A bundle seen through its joins: which policy feeds which network, and what a pod would ask for.

Everything here answers "unknown" as None, so that a rule can be silent where it cannot prove.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from podrail.model import pciids
from podrail.model.bundle import Bundle, Resource, Typed
from podrail.model.document import Path
from podrail.model.kinds.sriov import SriovIBNetwork, SriovNetwork, SriovNetworkNodePolicy
from podrail.planning.lint.memo import once

Policy = Typed[SriovNetworkNodePolicy]
Network = Typed[SriovNetwork] | Typed[SriovIBNetwork]

OPERATOR_PREFIX = {
    "openshift-sriov-network-operator": "openshift.io",
    "sriov-network-operator": "openshift.io",
    "nvidia-network-operator": "nvidia.com",
    "network-operator": "nvidia.com",
}
"""Namespaces the SR-IOV operator is installed in, and the resource prefix it then uses."""

NAD = "NetworkAttachmentDefinition"
NAD_RESOURCE = "k8s.v1.cni.cncf.io/resourceName"
PREFIXES = tuple(dict.fromkeys(OPERATOR_PREFIX.values()))

_RANGE = re.compile(r"^(?P<first>\d+)-(?P<last>\d+)$")
_HOSTNAME = "kubernetes.io/hostname"


# --- policies ---------------------------------------------------------------------------------


@once
def policies(bundle: Bundle) -> list[Policy]:
    """Every SriovNetworkNodePolicy, in the order given."""
    return list(bundle.of(SriovNetworkNodePolicy))


def policies_for(bundle: Bundle, resource_name: str) -> list[Policy]:
    """The policies that fill one resource."""
    return [p for p in policies(bundle) if p.model.spec.resource_name == resource_name]


def is_ib(policy: Policy) -> bool:
    """Whether the policy says InfiniBand."""
    return (policy.model.spec.link_type or "").lower() == "ib"


def is_mellanox(policy: Policy) -> bool:
    """Whether the policy can only select ConnectX or BlueField."""
    nic = policy.model.spec.nic_selector
    if nic.vendor is not None:
        return nic.vendor.lower() == pciids.MELLANOX
    known = {device for vendor, device in pciids.VF_OF_PF if vendor == pciids.MELLANOX}
    return nic.device_id is not None and nic.device_id.lower() in known


def pins_one_node(policy: Policy) -> bool:
    """Whether the selector names a single node."""
    return _HOSTNAME in policy.model.spec.node_selector


def can_meet(a: Policy, b: Policy) -> bool:
    """Whether some node could match both selectors: no label is asked with two values."""
    ours, theirs = a.model.spec.node_selector, b.model.spec.node_selector
    return all(theirs[key] == value for key, value in ours.items() if key in theirs)


def surely_meet(a: Policy, b: Policy) -> bool:
    """Whether every node that matches one selector matches the other too."""
    ours, theirs = a.model.spec.node_selector.items(), b.model.spec.node_selector.items()
    return ours <= theirs or theirs <= ours


@dataclass(frozen=True, slots=True)
class PfPart:
    """One entry of `pfNames`: a PF and the VFs of it that are meant."""

    at: int
    text: str
    name: str
    first: int
    last: int
    whole: bool

    @property
    def size(self) -> int:
        return max(0, self.last - self.first + 1)


def pf_parts(policy: Policy) -> list[PfPart]:
    """The readable entries of `pfNames`; one with a bad range is left out."""
    spec = policy.model.spec
    parts = (_pf_part(n, text, spec.num_vfs) for n, text in _entries(spec.nic_selector.pf_names))
    return [part for part in parts if part is not None]


def _entries(names: list[str] | None) -> Iterable[tuple[int, str]]:
    return enumerate(names or ())


def _pf_part(at: int, text: str, num_vfs: int) -> PfPart | None:
    name, mark, vfs = text.partition("#")
    if not mark:
        return PfPart(at, text, name, 0, num_vfs - 1, whole=True)
    found = _RANGE.match(vfs)
    if found is None:
        return None
    return PfPart(at, text, name, int(found["first"]), int(found["last"]), whole=False)


def pf_count(policy: Policy) -> int | None:
    """How many PFs of one node are named; None when the selector names none."""
    nic = policy.model.spec.nic_selector
    named = [
        len(set(names))
        for names in (nic.root_devices, [p.partition("#")[0] for p in nic.pf_names or ()])
        if names
    ]
    return min(named) if named else None


def pf_identities(policy: Policy) -> set[str]:
    """The names and addresses that a policy calls its PFs by."""
    roots = policy.model.spec.nic_selector.root_devices or ()
    return {part.name for part in pf_parts(policy)} | set(roots)


def vfs_per_node(policy: Policy) -> int | None:
    """VFs one matching node would advertise for this policy; None when PFs are not named."""
    nic, parts = policy.model.spec.nic_selector, pf_parts(policy)
    if nic.pf_names and not nic.root_devices and len(parts) == len(nic.pf_names):
        return sum(part.size for part in parts)
    count = pf_count(policy)
    return None if count is None else count * policy.model.spec.num_vfs


def resource_vfs_per_node(bundle: Bundle, resource_name: str) -> int | None:
    """The most VFs of a resource that one node can have; None when some PFs are not named."""
    feeding = policies_for(bundle, resource_name)
    if not feeding or any(vfs_per_node(policy) is None for policy in feeding):
        return None
    return max(sum(vfs_per_node(b) or 0 for b in feeding if can_meet(a, b)) for a in feeding)


def least_vfs_per_node(bundle: Bundle, resource_name: str) -> int | None:
    """VFs of a resource that some one node surely has; None when no policy names its PFs."""
    feeding = policies_for(bundle, resource_name)
    if all(vfs_per_node(policy) is None for policy in feeding):
        return None
    return max(_vfs_where(policy, feeding) for policy in feeding)


def _vfs_where(policy: Policy, others: list[Policy]) -> int:
    """VFs of all policies that a node matching this one matches too."""
    labels = policy.model.spec.node_selector.items()
    also = (other for other in others if other.model.spec.node_selector.items() <= labels)
    return sum(vfs_per_node(other) or 0 for other in also)


# --- networks ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Attachment:
    """Something a pod can name in its networks annotation: a NAD, or what will become one."""

    resource: Resource
    namespace: str | None
    name: str
    resource_name: str | None
    """Without prefix."""
    prefix: str | None
    """None when nothing in the bundle tells it."""
    ipam_path: Path | None
    """Where the JSON with the addresses stands."""

    @property
    def full_resource(self) -> str | None:
        """`openshift.io/mlx_test`, when both halves are known."""
        known = self.prefix is not None and self.resource_name is not None
        return f"{self.prefix}/{self.resource_name}" if known else None


_BECOME_NADS = {
    "SriovNetwork", "SriovIBNetwork", "OVSNetwork", "HostDeviceNetwork", "MacvlanNetwork",
    "IPoIBNetwork",
}  # fmt: skip


@once
def networks(bundle: Bundle) -> list[Network]:
    """Every SriovNetwork and SriovIBNetwork."""
    return [*bundle.of(SriovNetwork), *bundle.of(SriovIBNetwork)]


def networks_for(bundle: Bundle, resource_name: str) -> list[Network]:
    """The networks that hand out VFs of one resource."""
    return [n for n in networks(bundle) if n.model.spec.resource_name == resource_name]


@once
def attachments(bundle: Bundle) -> list[Attachment]:
    """Every network a pod of this bundle could name, whatever kind makes it."""
    found = (_attachment(bundle, resource) for resource in bundle.resources)
    return [attachment for attachment in found if attachment is not None]


def find_attachment(bundle: Bundle, namespace: str | None, name: str) -> Attachment | None:
    """The network of that name; a namespace left open on either side matches."""
    for attachment in attachments(bundle):
        same = None in (namespace, attachment.namespace) or namespace == attachment.namespace
        if attachment.name == name and same:
            return attachment
    return None


def _attachment(bundle: Bundle, resource: Resource) -> Attachment | None:
    if resource.kind == NAD:
        return _from_nad(resource)
    if resource.kind not in _BECOME_NADS:
        return None
    name = field(resource, "spec", "resourceName")
    target = field(resource, "spec", "networkNamespace")
    target = target if isinstance(target, str) and target else resource.namespace
    # MacvlanNetwork and HostDeviceNetwork are cluster objects: they land in `default`
    scoped = resource.kind in ("SriovNetwork", "SriovIBNetwork", "OVSNetwork")
    ipam = field(resource, "spec", "ipam")
    return Attachment(
        resource,
        target if target or scoped else "default",
        resource.name,
        name.rpartition("/")[2] if isinstance(name, str) else None,
        prefix_of(bundle, resource) if scoped else "nvidia.com" if name else None,
        None if ipam is None or not str(ipam).strip() else ("spec", "ipam"),
    )


def _from_nad(resource: Resource) -> Attachment:
    full = field(resource, "metadata", "annotations", NAD_RESOURCE)
    prefix, slash, name = full.rpartition("/") if isinstance(full, str) else ("", "", "")
    return Attachment(
        resource, resource.namespace or "default", resource.name, name or None,
        prefix if slash else None, None,
    )  # fmt: skip


# --- the operators ----------------------------------------------------------------------------


@once
def operator_namespaces(bundle: Bundle) -> list[str]:
    """The operator namespaces this bundle puts SR-IOV objects in."""
    used = (r.namespace for r in bundle.resources if sriov_group(r))
    return list(dict.fromkeys(n for n in used if n in OPERATOR_PREFIX))


def sriov_group(resource: Resource) -> bool:
    """Whether an object is of the SR-IOV operator's API."""
    return str(field(resource, "apiVersion")).startswith("sriovnetwork.openshift.io/")


def prefix_of(bundle: Bundle, resource: Resource) -> str | None:
    """The resource prefix of the operator that will read this object."""
    own = OPERATOR_PREFIX.get(resource.namespace or "")
    if own is not None:
        return own
    prefixes = {OPERATOR_PREFIX[n] for n in operator_namespaces(bundle)}
    return prefixes.pop() if len(prefixes) == 1 else None


def is_openshift(bundle: Bundle) -> bool:
    """Whether something in the bundle exists on OpenShift only."""
    return any(_only_on_openshift(resource) for resource in bundle.resources)


def _only_on_openshift(resource: Resource) -> bool:
    """The SR-IOV API carries OpenShift's name everywhere, so by itself it proves nothing."""
    group = str(field(resource, "apiVersion")).partition("/")[0]
    foreign = group.endswith(".openshift.io") and not sriov_group(resource)
    return foreign or (resource.namespace or "").startswith("openshift-")


# --- raw data ---------------------------------------------------------------------------------


def field(resource: Resource, *path: str | int) -> Any:
    """A value of the object as written, or None."""
    here = resource.data
    for part in path:
        if isinstance(here, dict):
            here = here.get(part)
        elif isinstance(here, list) and isinstance(part, int) and part < len(here):
            here = here[part]
        else:
            return None
    return here


def of_kind(bundle: Bundle, *kinds: str) -> Iterator[Resource]:
    """Objects by kind alone, also those whose model could not be read."""
    return (r for r in bundle.resources if r.kind in kinds)
