"""NicClusterPolicy as a whole: its name, and the parts other objects of the bundle count on."""

from __future__ import annotations

import re
from collections.abc import Iterator

from podrail.model.bundle import Bundle
from podrail.model.finding import Status
from podrail.model.reach import at, text
from podrail.planning.lint.gpus import has_registry
from podrail.planning.lint.homes import of_kind
from podrail.planning.lint.registry import Hit, rule

_NAME = "nic-cluster-policy"
_IMAGES = (
    "ofedDriver", "rdmaSharedDevicePlugin", "sriovDevicePlugin", "nvIpam", "ibKubernetes",
    "nicFeatureDiscovery", "docaTelemetryService",
)  # fmt: skip

_REMOVED: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        ("spec", "secondaryNetwork", "ipamPlugin"), "25.10.0",
        "delete it and use nvIpam with an IPPool, or install whereabouts by itself",
    ),
    (("spec", "psp"), "24.1.0", "delete it: PodSecurityPolicy is gone since Kubernetes 1.25"),
)  # fmt: skip


@rule(
    "nic.policy-name",
    Status.FAIL,
    "the Network Operator acts on one NicClusterPolicy, the one of this name; others get the state "
    "“ignore”",
    errata=("E44",),
)
def policy_name(bundle: Bundle) -> Iterator[Hit]:
    for resource in of_kind(bundle, "NicClusterPolicy"):
        # an object that lost its indentation has no name to judge
        name = text(resource.data, "metadata", "name")
        if name and name != _NAME:
            yield Hit(
                resource,
                ("metadata", "name"),
                actual=f"name {resource.name}",
                expected=_NAME,
                fix=f"write name: {_NAME}, and keep everything in this one object",
            )


@rule(
    "nic.image-path",
    Status.FAIL,
    "the operator joins repository/image:version, so the registry would stand in the name twice",
)
def image_path(bundle: Bundle) -> Iterator[Hit]:
    for resource in of_kind(bundle, "NicClusterPolicy", "NicNodePolicy"):
        for name in _IMAGES:
            image = text(resource.data, "spec", name, "image")
            repository = text(resource.data, "spec", name, "repository")
            if has_registry(image):
                yield Hit(
                    resource,
                    ("spec", name, "image"),
                    actual=f"{repository or '<repository>'}/{image} is what would be pulled",
                    expected=f"image: {image.rpartition('/')[2]}",
                    fix=f"write image: {image.rpartition('/')[2]}, the rest goes to `repository`",
                )


@rule(
    "nic.removed-field",
    Status.WARN,
    "newer releases of the Network Operator dropped the field from the API: the API server prunes "
    "it, and what it asked for is no longer deployed",
    errata=("E50",),
)
def removed_field(bundle: Bundle) -> Iterator[Hit]:
    for resource in of_kind(bundle, "NicClusterPolicy"):
        for path, since, instead in _REMOVED:
            if at(resource.data, *path) is not None:
                name = ".".join(path[1:])
                yield Hit(
                    resource,
                    path,
                    actual=f"`{name}`, removed since Network Operator {since}",
                    expected=f"no `{name}` from {since} on",
                    fix=instead,
                    key=True,
                )


@rule(
    "nic.ipam-not-deployed",
    Status.WARN,
    "the network calls the nv-ipam program, which only NicClusterPolicy.spec.nvIpam installs; "
    "without it every pod stays in ContainerCreating",
    errata=("E50",),
)
def ipam_not_deployed(bundle: Bundle) -> Iterator[Hit]:
    stacks = list(of_kind(bundle, "NicClusterPolicy"))
    if not stacks or any(at(s.data, "spec", "nvIpam") is not None for s in stacks):
        return
    for resource in bundle.resources:
        if re.search(r'"type"\s*:\s*"nv-ipam"', text(resource.data, "spec", "ipam")):
            yield Hit(
                resource,
                ("spec", "ipam"),
                actual=f"nv-ipam, and {stacks[0].subject} has no nvIpam",
                expected="spec.nvIpam in the NicClusterPolicy",
                fix="add nvIpam to the NicClusterPolicy, or use whereabouts on OpenShift",
                key=True,
            )


@rule(
    "nic.pool-missing",
    Status.WARN,
    "nv-ipam refuses an address from a pool it does not know, and the pod stays in "
    "ContainerCreating",
)
def pool_missing(bundle: Bundle) -> Iterator[Hit]:
    present = {r.name for r in of_kind(bundle, "IPPool", "CIDRPool")}
    if not present:
        return
    for resource in bundle.resources:
        ipam = text(resource.data, "spec", "ipam")
        found = re.search(r'"poolName"\s*:\s*"([^"]+)"', ipam)
        for name in found[1].split(",") if found and "nv-ipam" in ipam else ():
            if name.strip() not in present:
                yield Hit(
                    resource,
                    ("spec", "ipam"),
                    actual=f"pool `{name.strip()}`, while these files define "
                    f"{', '.join(sorted(present))}",
                    expected="the name of an IPPool or CIDRPool",
                    fix="correct poolName, or add the pool",
                    key=True,
                )
