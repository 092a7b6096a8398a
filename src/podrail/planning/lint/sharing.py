"""Policies against each other: two that claim one PF, or one resource made in two ways."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from podrail.model.bundle import Bundle
from podrail.model.finding import Status
from podrail.model.policy import WEAKEST
from podrail.planning.lint.memo import grouped, once
from podrail.planning.lint.podspec import bare, pods
from podrail.planning.lint.registry import Hit, rule
from podrail.planning.lint.view import (
    PfPart,
    Policy,
    by_resource,
    meeting,
    pf_count,
    pf_identities,
    pf_parts,
    policies,
    surely_meet,
)

NIC = ("spec", "nicSelector")


@grouped
def _by_pf(bundle: Bundle) -> Iterator[tuple[str, Policy]]:
    return ((pf, policy) for policy in policies(bundle) for pf in sorted(pf_identities(policy)))


@once
def _sharers(bundle: Bundle) -> Iterator[tuple[Policy, Policy]]:
    """Policies that name one PF and could match one node together, the earlier first."""
    seen: set[tuple[int, int]] = set()
    for group in _by_pf(bundle).values():
        for first, second in meeting(group):
            if (id(first), id(second)) not in seen:
                seen.add((id(first), id(second)))
                yield first, second


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
    for first, second in (*((p, p) for p in policies(bundle)), *_sharers(bundle)):
        for a, b in _overlaps(first, second):
            place = (*NIC, "pfNames", b.at)
            yield Hit(
                second.resource, place,
                f"`{b.text}` (VFs {b.vfs}) overlaps `{a.text}` "
                f"(VFs {a.vfs}) of {first.resource.subject}",
                f"ranges of {a.name} that share no VF", _split(a, b, second),
                evidence=(_seen(first, *NIC, "pfNames", a.at),), status=_status(first, second),
            )  # fmt: skip


def _overlaps(first: Policy, second: Policy) -> Iterator[tuple[PfPart, PfPart]]:
    same = first is second
    for a in pf_parts(first):
        for b in pf_parts(second):
            meet = a.name == b.name and a.vfs.overlaps(b.vfs)
            if meet and (not same or a.at < b.at):
                yield a, b


def _split(a: PfPart, b: PfPart, second: Policy) -> str:
    free, count = a.vfs.last + 1, second.model.spec.num_vfs
    if a.whole or free >= count:
        return f"give each policy its own range: {a.name}#0-{max(0, count // 2 - 1)} and the rest"
    return f"write {b.name}#{free}-{max(free, b.vfs.last)}"


@rule(
    "policy.same-root-device",
    Status.FAIL,
    "rootDevices has no ranges, so two policies that name one address both claim all its VFs; the "
    "webhook refuses the second",
)
def same_root_device(bundle: Bundle) -> Iterator[Hit]:
    for first, second in _sharers(bundle):
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
    "policy.resource-displaced",
    Status.FAIL,
    "the operator keeps one group of VFs for each resource name on a PF: of two policies that fill "
    "one resource from one PF the stronger stays and the other's VFs are advertised by nobody",
)
def resource_displaced(bundle: Bundle) -> Iterator[Hit]:
    for first, second in _sharers(bundle):
        if first.model.spec.resource_name != second.model.spec.resource_name:
            continue
        for a, b in _apart(first, second):
            weak, strong = sorted((first, second), key=_strength)
            yield Hit(
                second.resource, (*NIC, "pfNames", b.at),
                f"`{b.text}`, while {first.resource.subject} has `{a.text}`: both fill "
                f"`{second.model.spec.resource_name}`, and {strong.resource.name} displaces "
                f"{weak.resource.name}",
                f"one policy for `{second.model.spec.resource_name}` on {a.name}",
                f"write one policy with pfNames: [{_joined(a, b)}], or give each its own "
                "resourceName",
                evidence=(_seen(first, *NIC, "pfNames", a.at),), status=_status(first, second),
            )  # fmt: skip


def _apart(first: Policy, second: Policy) -> Iterator[tuple[PfPart, PfPart]]:
    """Ranges of one PF that share no VF; where they do, policy.vf-overlap speaks."""
    for a in pf_parts(first):
        for b in pf_parts(second):
            if a.name == b.name and not a.vfs.overlaps(b.vfs):
                yield a, b


def _strength(policy: Policy) -> tuple[int, str]:
    """What is applied later wins: the lower priority number, then the later name."""
    priority = policy.model.spec.priority
    return -(WEAKEST if priority is None else priority), policy.resource.name


def _joined(a: PfPart, b: PfPart) -> str:
    return f"{a.name}#{min(a.vfs.first, b.vfs.first)}-{max(a.vfs.last, b.vfs.last)}"


@rule(
    "policy.resource-disagrees",
    Status.FAIL,
    "a pod cannot tell VFs of one resource apart: it gets either kind by chance",
)
def resource_disagrees(bundle: Bundle) -> Iterator[Hit]:
    for group in by_resource(bundle).values():
        for second, name, first in _unlike(group):
            ours, theirs = _nature(second)[name], _nature(first)[name]
            yield Hit(
                second.resource, ("spec", name),
                f"{name} is {ours} here and {theirs} in {first.resource.subject}, both "
                f"fill `{second.model.spec.resource_name}`",
                f"one {name} for one resourceName",
                f"set {name}: {theirs}, or give this policy another resourceName",
                evidence=(_seen(first, "spec", name),), status=_status(first, second),
            )  # fmt: skip


def _unlike(group: Sequence[Policy]) -> Iterator[tuple[Policy, str, Policy]]:
    """Each policy with a field in which an earlier one differs; one surely met goes first."""
    seen: dict[str, dict[str, list[Policy]]] = {}
    for policy in group:
        for name, value in _nature(policy).items():
            known = seen.setdefault(name, {})
            others = [p for theirs, found in known.items() if theirs != value for p in found]
            if others:
                met = (other for other in others if surely_meet(other, policy))
                yield policy, name, next(met, others[0])
            known.setdefault(value, []).append(policy)


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
    for first, second in _sharers(bundle):
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
    several = [pod for pod in reversed(pods(bundle)) if pod.gpus() > 1]
    training = {bare(name): pod for pod in several for name in pod.asked()}
    for policy in policies(bundle):
        count, name = pf_count(policy), policy.model.spec.resource_name
        pod = training.get(name)
        if count is not None and count > 1 and pod is not None:
            nic = policy.model.spec.nic_selector
            yield Hit(
                policy.resource, (*NIC, "rootDevices" if nic.root_devices else "pfNames"),
                f"`{name}` pools {count} PFs; {pod.resource.subject} asks for {pod.gpus()} GPUs",
                "one resourceName and one network for each rail",
                "write one policy for each PF (rail0, rail1, …) and list a network of each in the "
                "pod", key=True,
            )  # fmt: skip
