"""Policies against each other: two that claim one PF, or one resource made in two ways."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, combinations_with_replacement

from podrail.model.bundle import Bundle
from podrail.model.finding import Status
from podrail.planning.lint.podspec import Pod, bare, pods
from podrail.planning.lint.registry import Hit, rule
from podrail.planning.lint.view import (
    PfPart,
    Policy,
    can_meet,
    pf_count,
    pf_identities,
    pf_parts,
    policies,
    surely_meet,
)

NIC = ("spec", "nicSelector")


def _pairs(bundle: Bundle) -> Iterator[tuple[Policy, Policy]]:
    """Policies that one node could match together, the earlier first."""
    return (pair for pair in combinations(policies(bundle), 2) if can_meet(*pair))


def _status(first: Policy, second: Policy) -> Status | None:
    """Selectors with unlike labels may be meant for different nodes: then it is only a risk."""
    return None if surely_meet(first, second) else Status.WARN


def _seen(policy: Policy, *path: str | int) -> str:
    return f"{policy.resource.subject} at {policy.resource.where(*path)}"


@rule(
    "policy.vf-overlap",
    Status.FAIL,
    "a VF belongs to one policy: merging keeps only one of two overlapping groups and drops the "
    "other's resource. The upstream webhook misses this for a whole PF beside a range",
)
def vf_overlap(bundle: Bundle) -> Iterator[Hit]:
    for first, second in combinations_with_replacement(policies(bundle), 2):
        for a, b in _overlaps(first, second) if can_meet(first, second) else ():
            place = (*NIC, "pfNames", b.at)
            yield Hit(
                second.resource, place,
                f"`{b.text}` (VFs {b.first}-{b.last}) overlaps `{a.text}` "
                f"(VFs {a.first}-{a.last}) of {first.resource.subject}",
                f"ranges of {a.name} that share no VF", _split(a, b, second),
                evidence=(_seen(first, *NIC, "pfNames", a.at),), status=_status(first, second),
            )  # fmt: skip


def _overlaps(first: Policy, second: Policy) -> Iterator[tuple[PfPart, PfPart]]:
    same = first is second
    for a in pf_parts(first):
        for b in pf_parts(second):
            meet = a.name == b.name and a.first <= b.last and b.first <= a.last
            if meet and (not same or a.at < b.at):
                yield a, b


def _split(a: PfPart, b: PfPart, second: Policy) -> str:
    free, count = a.last + 1, second.model.spec.num_vfs
    if a.whole or free >= count:
        return f"give each policy its own range: {a.name}#0-{max(0, count // 2 - 1)} and the rest"
    return f"write {b.name}#{free}-{max(free, b.last)}"


@rule(
    "policy.same-root-device",
    Status.FAIL,
    "rootDevices has no ranges, so two policies that name one address both claim all its VFs; the "
    "webhook refuses the second",
)
def same_root_device(bundle: Bundle) -> Iterator[Hit]:
    for first, second in _pairs(bundle):
        taken = first.model.spec.nic_selector.root_devices or []
        for at, address in enumerate(second.model.spec.nic_selector.root_devices or ()):
            if address in taken:
                yield Hit(
                    second.resource, (*NIC, "rootDevices", at),
                    f"{address} is already in {first.resource.subject}",
                    "each address in one policy",
                    "delete it from one of the two; to split a PF use pfNames: [name#0-3]",
                    evidence=(_seen(first, *NIC, "rootDevices", taken.index(address)),),
                    status=_status(first, second),
                )  # fmt: skip


@rule(
    "policy.resource-disagrees",
    Status.FAIL,
    "a pod cannot tell VFs of one resource apart: it gets either kind by chance",
)
def resource_disagrees(bundle: Bundle) -> Iterator[Hit]:
    for first, second in combinations(policies(bundle), 2):
        if first.model.spec.resource_name != second.model.spec.resource_name:
            continue
        ours = _nature(second)
        for name, theirs in _nature(first).items():
            if theirs != ours[name]:
                yield Hit(
                    second.resource, ("spec", name),
                    f"{name} is {ours[name]} here and {theirs} in {first.resource.subject}, both "
                    f"fill `{second.model.spec.resource_name}`",
                    f"one {name} for one resourceName",
                    f"set {name}: {theirs}, or give this policy another resourceName",
                    evidence=(_seen(first, "spec", name),), status=_status(first, second),
                )  # fmt: skip


def _nature(policy: Policy) -> dict[str, str]:
    """What a pod would notice of a VF, with the defaults filled in."""
    spec = policy.model.spec
    ib = (spec.link_type or "eth").lower() == "ib"
    rdma = spec.is_rdma or (ib and spec.device_type != "vfio-pci")
    return {
        "deviceType": spec.device_type or "netdevice",
        "isRdma": str(bool(rdma)).lower(),
        "linkType": "IB" if ib else "eth",
        "excludeTopology": str(bool(spec.exclude_topology)).lower(),
    }


@rule(
    "policy.pf-disagrees",
    Status.FAIL,
    "one PF has one of these; the policy with the lower priority number (or the later name) sets "
    "it for both, without a message",
)
def pf_disagrees(bundle: Bundle) -> Iterator[Hit]:
    for first, second in _pairs(bundle):
        if not pf_identities(first) & pf_identities(second):
            continue
        ours = _whole_pf(second)
        for name, theirs in _whole_pf(first).items():
            if theirs != ours[name]:
                yield Hit(
                    second.resource, ("spec", name),
                    f"{name} is {ours[name]} here and {theirs} in {first.resource.subject} for "
                    f"the same PF",
                    f"one {name} for one PF", f"set {name} to the same value in both policies",
                    evidence=(_seen(first, "spec", name),), status=_status(first, second),
                )  # fmt: skip


def _whole_pf(policy: Policy) -> dict[str, str]:
    spec = policy.model.spec
    return {
        "eSwitchMode": spec.e_switch_mode or "legacy",
        "externallyManaged": str(bool(spec.externally_managed)).lower(),
        "linkType": "IB" if (spec.link_type or "eth").lower() == "ib" else "eth",
    }


@rule(
    "policy.pooled-rails",
    Status.WARN,
    "a pod gets a VF of any PF of the pool: its GPUs then share a rail or reach one across the "
    "machine, and rail N of one node talks to rail M of another",
    errata=("E51",),
)
def pooled_rails(bundle: Bundle) -> Iterator[Hit]:
    training = [pod for pod in pods(bundle) if pod.gpus() > 1]
    for policy in policies(bundle):
        count, name = pf_count(policy), policy.model.spec.resource_name
        pod = next((p for p in training if _asks(p, name)), None)
        if count is not None and count > 1 and pod is not None:
            nic = policy.model.spec.nic_selector
            yield Hit(
                policy.resource, (*NIC, "rootDevices" if nic.root_devices else "pfNames"),
                f"`{name}` pools {count} PFs; {pod.resource.subject} asks for {pod.gpus()} GPUs",
                "one resourceName and one network for each rail",
                "write one policy for each PF (rail0, rail1, …) and list a network of each in the "
                "pod", key=True,
            )  # fmt: skip


def _asks(pod: Pod, resource_name: str) -> bool:
    return any(bare(name) == resource_name for name in pod.asked())
