"""A bundle seen through its joins: which policy feeds which network, and what a pod would ask for.

Everything here answers "unknown" as None, so that a rule can be silent where it cannot prove.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from podrail.model import pciids
from podrail.model.bundle import Bundle, Resource, Typed
from podrail.model.document import Path
from podrail.model.kinds.sriov import SriovIBNetwork, SriovNetwork, SriovNetworkNodePolicy
from podrail.model.policy import VfRange, pf_name
from podrail.model.reach import at
from podrail.planning.lint.homes import prefix_of
from podrail.planning.lint.memo import grouped, once, once_for

Policy = Typed[SriovNetworkNodePolicy]
Network = Typed[SriovNetwork] | Typed[SriovIBNetwork]

NAD = "NetworkAttachmentDefinition"
NAD_RESOURCE = "k8s.v1.cni.cncf.io/resourceName"
IGNORED = "default"
"""The operator makes a policy of this name itself and passes over it, whatever it says."""

_HOSTNAME = "kubernetes.io/hostname"


# --- policies ---------------------------------------------------------------------------------


@once
def policies(bundle: Bundle) -> list[Policy]:
    """Every SriovNetworkNodePolicy that the operator reads, in the order given."""
    return [p for p in bundle.of(SriovNetworkNodePolicy) if p.resource.name != IGNORED]


@grouped
def by_resource(bundle: Bundle) -> Iterator[tuple[str, Policy]]:
    """Resource → the policies that fill it; of one policy given twice the later stands."""
    standing = {policy.resource.subject: policy for policy in policies(bundle)}
    return ((policy.model.spec.resource_name, policy) for policy in standing.values())


def policies_for(bundle: Bundle, resource_name: str) -> tuple[Policy, ...]:
    """The policies that fill one resource."""
    return by_resource(bundle).get(resource_name, ())


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
    return _covers(a, b) or _covers(b, a)


@dataclass(frozen=True, slots=True)
class Crowd:
    """Policies by the label that tells most of them apart: few pairs of many can meet."""

    label: str
    by_value: dict[str | None, list[Policy]]

    def beside(self, selector: Mapping[str, str]) -> Iterable[Policy]:
        """All that could match a node together with this selector, and maybe some others."""
        value = selector.get(self.label)
        if value is None:
            return chain.from_iterable(self.by_value.values())
        return chain(self.by_value.get(value, ()), self.by_value.get(None, ()))


def crowd(group: Sequence[Policy]) -> Crowd:
    """Policies made ready to be asked which of them can meet."""
    values: dict[str, set[str]] = {}
    for policy in group:
        for key, value in policy.model.spec.node_selector.items():
            values.setdefault(key, set()).add(value)
    label = max(values, key=lambda key: len(values[key]), default="")
    by_value: dict[str | None, list[Policy]] = {}
    for policy in group:
        by_value.setdefault(policy.model.spec.node_selector.get(label), []).append(policy)
    return Crowd(label, by_value)


@once_for
def crowd_of(bundle: Bundle, resource_name: str) -> Crowd:
    """The policies that fill one resource, made ready."""
    return crowd(policies_for(bundle, resource_name))


def meeting(group: Sequence[Policy]) -> Iterator[tuple[Policy, Policy]]:
    """Pairs of policies that one node could match together, the earlier first.

    The same object given twice is no pair: only one of the two can exist.
    """
    place, others = {id(policy): n for n, policy in enumerate(group)}, crowd(group)
    for second in group:
        for first in others.beside(second.model.spec.node_selector):
            earlier = place[id(first)] < place[id(second)]
            other = first.resource.subject != second.resource.subject
            if earlier and other and can_meet(first, second):
                yield first, second


@dataclass(frozen=True, slots=True)
class PfPart:
    """One entry of `pfNames`: a PF and the VFs of it that are meant."""

    at: int
    text: str
    name: str
    vfs: VfRange
    whole: bool


def pf_parts(policy: Policy) -> list[PfPart]:
    """The readable entries of `pfNames`; one with a bad range is left out."""
    spec = policy.model.spec
    names = enumerate(spec.nic_selector.pf_names or ())
    parts = (_pf_part(place, text, spec.num_vfs) for place, text in names)
    return [part for part in parts if part is not None]


@lru_cache(maxsize=4096)
def _pf_part(place: int, text: str, num_vfs: int) -> PfPart | None:
    found = pf_name(text)
    if found is None:
        return None
    vfs = found.range or VfRange(0, num_vfs - 1)
    return PfPart(place, text, found.name, vfs, whole=found.range is None)


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
        return sum(part.vfs.last - part.vfs.first + 1 for part in parts)
    count = pf_count(policy)
    return None if count is None else count * policy.model.spec.num_vfs


@once_for
def resource_vfs_per_node(bundle: Bundle, resource_name: str) -> int | None:
    """The most VFs of a resource that one node can have; None when some PFs are not named."""
    feeding = policies_for(bundle, resource_name)
    if not feeding or any(vfs_per_node(policy) is None for policy in feeding):
        return None
    return max(sum(_vfs_beside(bundle, policy, can_meet)) for policy in feeding)


@once_for
def least_vfs_per_node(bundle: Bundle, resource_name: str) -> int | None:
    """VFs of a resource that some one node surely has; None when no policy names its PFs."""
    feeding = policies_for(bundle, resource_name)
    if all(vfs_per_node(policy) is None for policy in feeding):
        return None
    return max(sum(_vfs_beside(bundle, policy, _covers)) for policy in feeding)


def _vfs_beside(
    bundle: Bundle, policy: Policy, meets: Callable[[Policy, Policy], bool]
) -> Iterator[int]:
    """VFs of the policies of its resource that meet this one in the given sense, itself too."""
    others = crowd_of(bundle, policy.model.spec.resource_name)
    for other in others.beside(policy.model.spec.node_selector):
        if meets(other, policy):
            yield vfs_per_node(other) or 0


def _covers(wide: Policy, narrow: Policy) -> bool:
    """Whether every node that matches the one matches the other too."""
    return wide.model.spec.node_selector.items() <= narrow.model.spec.node_selector.items()


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


@grouped
def _networks_by_resource(bundle: Bundle) -> Iterator[tuple[str, Network]]:
    return ((network.model.spec.resource_name, network) for network in networks(bundle))


def networks_for(bundle: Bundle, resource_name: str) -> tuple[Network, ...]:
    """The networks that hand out VFs of one resource."""
    return _networks_by_resource(bundle).get(resource_name, ())


@once
def attachments(bundle: Bundle) -> list[Attachment]:
    """Every network a pod of this bundle could name, whatever kind makes it."""
    found = (_attachment(bundle, resource) for resource in bundle.resources)
    return [attachment for attachment in found if attachment is not None]


@grouped
def _by_name(bundle: Bundle) -> Iterator[tuple[str, Attachment]]:
    return ((attachment.name, attachment) for attachment in attachments(bundle))


@grouped
def _by_place(bundle: Bundle) -> Iterator[tuple[tuple[str | None, str], Attachment]]:
    return (((a.namespace, a.name), a) for a in attachments(bundle))


def attachments_named(bundle: Bundle, name: str) -> tuple[Attachment, ...]:
    """The networks of that name, in whichever namespace."""
    return _by_name(bundle).get(name, ())


def find_attachment(bundle: Bundle, namespace: str | None, name: str) -> Attachment | None:
    """The network of that name; a namespace left open on either side matches."""
    if namespace is None:
        return next(iter(attachments_named(bundle, name)), None)
    places = _by_place(bundle)
    found = places.get((namespace, name)) or places.get((None, name)) or ()
    return next(iter(found), None)


def _attachment(bundle: Bundle, resource: Resource) -> Attachment | None:
    if resource.kind == NAD:
        return _from_nad(resource)
    if resource.kind not in _BECOME_NADS:
        return None
    name = at(resource.data, "spec", "resourceName")
    target = at(resource.data, "spec", "networkNamespace")
    target = target if isinstance(target, str) and target else resource.namespace
    # MacvlanNetwork and HostDeviceNetwork are cluster objects: they land in `default`
    scoped = resource.kind in ("SriovNetwork", "SriovIBNetwork", "OVSNetwork")
    ipam = at(resource.data, "spec", "ipam")
    return Attachment(
        resource,
        target if target or scoped else "default",
        resource.name,
        name.rpartition("/")[2] if isinstance(name, str) else None,
        prefix_of(bundle, resource) if scoped else "nvidia.com" if name else None,
        None if ipam is None or not str(ipam).strip() else ("spec", "ipam"),
    )


def _from_nad(resource: Resource) -> Attachment:
    full = at(resource.data, "metadata", "annotations", NAD_RESOURCE)
    prefix, slash, name = full.rpartition("/") if isinstance(full, str) else ("", "", "")
    return Attachment(
        resource, resource.namespace or "default", resource.name, name or None,
        prefix if slash else None, None,
    )  # fmt: skip
