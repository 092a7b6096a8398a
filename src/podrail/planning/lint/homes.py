"""Kinds and namespaces: where the SR-IOV operator lives, where applications do, which platform."""

from __future__ import annotations

from collections.abc import Iterator

from podrail.model.bundle import Bundle, Resource
from podrail.model.reach import at, text
from podrail.planning.lint.memo import grouped, once, once_for

OPERATOR_PREFIX = {
    "openshift-sriov-network-operator": "openshift.io",
    "sriov-network-operator": "openshift.io",
    "nvidia-network-operator": "nvidia.com",
    "network-operator": "nvidia.com",
}
"""Namespaces the SR-IOV operator is usually installed in, and the resource prefix it then uses."""

PREFIXES = tuple(dict.fromkeys(OPERATOR_PREFIX.values()))

_POLICY = "SriovNetworkNodePolicy"
_NETWORKS = ("SriovNetwork", "SriovIBNetwork", "OVSNetwork")
# Without Deployment and DaemonSet, which the operator itself consists of
_WORKLOADS = (
    "Pod", "Job", "CronJob", "StatefulSet", "MPIJob", "PyTorchJob", "JobSet", "LeaderWorkerSet",
    "RayCluster", "RayJob", "VirtualMachine",
)  # fmt: skip


@grouped
def _by_kind(bundle: Bundle) -> Iterator[tuple[str, tuple[int, Resource]]]:
    return ((r.kind, (place, r)) for place, r in enumerate(bundle.resources))


def of_kind(bundle: Bundle, *kinds: str) -> Iterator[Resource]:
    """Objects by kind alone, also those whose model could not be read, in the order given."""
    found = [pair for kind in kinds for pair in _by_kind(bundle).get(kind, ())]
    return (resource for _, resource in sorted(found, key=lambda pair: pair[0]))


# --- namespaces -------------------------------------------------------------------------------


@once
def config_homes(bundle: Bundle) -> set[str]:
    """Namespaces that hold a SriovOperatorConfig, which the operator makes in its own."""
    return {r.namespace for r in of_kind(bundle, "SriovOperatorConfig") if r.namespace}


def is_operator_home(bundle: Bundle, namespace: str | None) -> bool:
    """Whether the operator is known to live there: by a usual name, or by its configuration."""
    return namespace in OPERATOR_PREFIX or namespace in config_homes(bundle)


@once
def operator_homes(bundle: Bundle) -> set[str]:
    """Where this bundle shows the operator to be: by its configuration, or by where policies are.

    A policy in a namespace of applications is a mistake and shows nothing.
    """
    used = {r.namespace for r in of_kind(bundle, _POLICY) if r.namespace}
    return {*config_homes(bundle), *(name for name in used if not is_application(bundle, name))}


@once_for
def is_application(bundle: Bundle, namespace: str) -> bool:
    """Whether pods live there, or networks are made for pods there."""
    if is_operator_home(bundle, namespace):
        return False
    return namespace == "default" or namespace in _application_homes(bundle)


@once
def _application_homes(bundle: Bundle) -> set[str]:
    pods = {r.namespace for r in of_kind(bundle, *_WORKLOADS) if r.namespace}
    targets = {text(r.data, "spec", "networkNamespace") for r in of_kind(bundle, *_NETWORKS)}
    return (pods | targets) - {""}


# --- platform ---------------------------------------------------------------------------------


@once
def operator_namespaces(bundle: Bundle) -> list[str]:
    """The usual operator namespaces this bundle puts SR-IOV objects in."""
    used = (r.namespace for r in bundle.resources if sriov_group(r))
    return list(dict.fromkeys(n for n in used if n in OPERATOR_PREFIX))


def sriov_group(resource: Resource) -> bool:
    """Whether an object is of the SR-IOV operator's API."""
    return str(at(resource.data, "apiVersion")).startswith("sriovnetwork.openshift.io/")


def prefix_of(bundle: Bundle, resource: Resource) -> str | None:
    """The prefix of the operator that will read this object, else the one that was told."""
    own = OPERATOR_PREFIX.get(resource.namespace or "")
    if own is not None:
        return own
    known = (OPERATOR_PREFIX.get(namespace) for namespace in operator_namespaces(bundle))
    prefixes = {prefix for prefix in known if prefix}
    return prefixes.pop() if len(prefixes) == 1 else bundle.resource_prefix


def is_openshift(bundle: Bundle) -> bool:
    """Whether something in the bundle exists on OpenShift only."""
    return any(_only_on_openshift(resource) for resource in bundle.resources)


def _only_on_openshift(resource: Resource) -> bool:
    """The SR-IOV API carries OpenShift's name everywhere, so by itself it proves nothing."""
    group = str(at(resource.data, "apiVersion")).partition("/")[0]
    foreign = group.endswith(".openshift.io") and not sriov_group(resource)
    return foreign or (resource.namespace or "").startswith("openshift-")
