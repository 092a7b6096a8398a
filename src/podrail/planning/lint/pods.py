"""Pods against the networks they list: what the annotation names, and what must be asked for it."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from podrail.model.annotation import NETWORKS
from podrail.model.bundle import Bundle
from podrail.model.document import Path
from podrail.model.finding import Status
from podrail.model.reach import at, mapping, text
from podrail.planning.lint.homes import of_kind
from podrail.planning.lint.podspec import Joined, Pod, asked_as, joined, pods
from podrail.planning.lint.registry import Hit, rule
from podrail.planning.lint.view import Attachment, attachments


@rule(
    "pod.networks-annotation",
    Status.FAIL,
    "Multus refuses the annotation and the pod stays in ContainerCreating",
)
def networks_annotation(bundle: Bundle) -> Iterator[Hit]:
    for pod in pods(bundle):
        problem = pod.networks().problem
        if problem is not None:
            yield pod.hit(
                pod.networks_path,
                actual=problem,
                expected="namespace/name@interface, separated by commas, or a JSON list",
                fix="correct the annotation",
            )


@rule(
    "pod.annotation-on-workload",
    Status.FAIL,
    "Multus reads the pod's annotations; those of the workload around it are not copied",
)
def annotation_on_workload(bundle: Bundle) -> Iterator[Hit]:
    for pod in pods(bundle):
        outer = mapping(pod.resource.data, "metadata", "annotations")
        if pod.path and NETWORKS in outer and NETWORKS not in pod.annotations:
            yield pod.hit(
                ("metadata", "annotations", NETWORKS),
                actual=f"the annotation stands on the {pod.resource.kind}",
                expected=f"it under {'.'.join(map(str, pod.path))}.metadata.annotations",
                fix="move it to the pod template",
                key=True,
            )


_NEIGHBOURS = {
    NETWORKS, "k8s.v1.cni.cncf.io/network-status", "k8s.v1.cni.cncf.io/networks-status",
    "k8s.v1.cni.cncf.io/resourceName", "v1.multus-cni.io/default-network",
}  # fmt: skip


@rule(
    "pod.annotation-key",
    Status.FAIL,
    "Multus reads one annotation by its exact name; under another, or as a label, nothing is "
    "attached and nothing complains",
)
def annotation_key(bundle: Bundle) -> Iterator[Hit]:
    for pod in pods(bundle):
        metadata: Path = (*pod.path, "metadata")
        labels = mapping(pod.resource.data, *metadata, "labels")
        misspelt = [key for key in pod.annotations if _like_networks(key)]
        places = [*(("labels", key) for key in labels if key == NETWORKS or _like_networks(key)),
                  *(("annotations", key) for key in misspelt)]  # fmt: skip
        for place, key in places:
            yield pod.hit(
                (*metadata, place, key),
                actual=f"`{key}` among the {place}",
                expected=f"annotation {NETWORKS}",
                fix=f"write {NETWORKS} under metadata.annotations",
                key=True,
            )


def _like_networks(key: str) -> bool:
    near = difflib.SequenceMatcher(None, key.lower(), NETWORKS).ratio() > 0.85
    return key not in _NEIGHBOURS and near


@rule(
    "pod.duplicate-interface",
    Status.FAIL,
    "one interface name can be made once, and eth0 is the cluster network's",
)
def duplicate_interface(bundle: Bundle) -> Iterator[Hit]:
    for pod in pods(bundle):
        refs = pod.networks().refs
        names = [ref.interface or f"net{number}" for number, ref in enumerate(refs, 1)]
        for name, count in Counter(names).items():
            if count > 1 or name == "eth0":
                yield pod.hit(
                    pod.networks_path,
                    actual=f"interface {name} {'twice' if count > 1 else 'for a second network'}",
                    expected="a name of its own for each network, such as net1, net2",
                    fix="leave the interface out, or name each one differently",
                )


# --- network and resource ---------------------------------------------------------------------


def _injects(bundle: Bundle) -> bool:
    configs = of_kind(bundle, "SriovOperatorConfig")
    return any(at(c.data, "spec", "enableInjector") is True for c in configs)


def _full(attachment: Attachment) -> str:
    return attachment.full_resource or f"<prefix>/{attachment.resource_name}"


@rule(
    "pod.missing-vf-resource",
    Status.FAIL,
    "the network needs a VF, and only a resource request makes the kubelet give the pod one; the "
    "CNI fails with “vf pci addr is required”",
    errata=("E36",),
)
def missing_vf_resource(bundle: Bundle) -> Iterator[Hit]:
    for join in joined(bundle):
        for name, (count, network) in join.counted().items():
            if not asked_as(join.pod, name):
                yield _missing(join, network, count, _injects(bundle))


def _missing(join: Joined, network: Attachment, count: int, injected: bool) -> Hit:
    only = " (the injector would add it, where its webhook runs)" if injected else ""
    full = _full(network)
    return Hit(
        join.pod.resource,
        join.pod.networks_path,
        actual=f"network {network.name} is listed and no container asks for {full}{only}",
        expected=f"{full}: {count} under limits and requests",
        fix=f'add {full}: "{count}" to requests and limits of the container',
        status=Status.WARN if injected else None,
    )


@rule(
    "pod.too-few-vfs",
    Status.FAIL,
    "each listed network takes one VF of its own; the last ones find none left",
    errata=("E36",),
)
def too_few_vfs(bundle: Bundle) -> Iterator[Hit]:
    for join in joined(bundle):
        for name, (count, _) in join.counted().items():
            asked = asked_as(join.pod, name)
            total = sum(asked.values())
            if asked and total < count:
                full = next(iter(asked))
                yield join.pod.hit(
                    join.pod.first_asking(full).at(full),
                    actual=f"{full}: {total} for {count} networks that use it",
                    expected=f"{full}: {count}",
                    fix=f'set {full}: "{count}" in requests and limits',
                )


@rule(
    "pod.unattached-vf",
    Status.WARN,
    "a VF that no network attaches stays on the host: the pod holds it and cannot use it",
    errata=("E40",),
)
def unattached_vf(bundle: Bundle) -> Iterator[Hit]:
    known = _attached_resources(bundle)
    for join in joined(bundle):
        if not join.complete:
            continue
        listed = join.counted()
        for full, count in join.pod.asked().items():
            attached = listed.get(full.rpartition("/")[2], (0, None))[0]
            if full in known and count > attached:
                yield join.pod.hit(
                    join.pod.first_asking(full).at(full),
                    actual=f"{count} VF{'s' if count > 1 else ''} of {full} and {attached} "
                    "networks of it in the annotation",
                    expected="one network entry for each VF",
                    fix=f"list {known[full].name} {count} times in {NETWORKS}",
                )


def _attached_resources(bundle: Bundle) -> dict[str, Attachment]:
    """Resources whose VFs a network of this bundle attaches."""
    return {a.full_resource: a for a in attachments(bundle) if a.full_resource}


@rule(
    "pod.resource-prefix",
    Status.FAIL,
    "the prefix is set by the operator that advertises the VFs; under another name the scheduler "
    "finds none, or a VF that the network does not take",
    errata=("E11",),
)
def resource_prefix(bundle: Bundle) -> Iterator[Hit]:
    for join in joined(bundle):
        for name, (_, network) in join.counted().items():
            asked = asked_as(join.pod, name)
            right = network.full_resource
            if not asked or right is None or right in asked:
                continue
            wrong = next(iter(asked))
            for container in join.pod.containers():
                if wrong in container.asked():
                    yield join.pod.hit(
                        container.at(wrong),
                        actual=f"{wrong}, while network {network.name} takes {right}",
                        expected=right,
                        fix=f"write {right} in requests and limits",
                        key=True,
                    )


# --- what the annotation may ask besides --------------------------------------------------------


@rule(
    "pod.default-route",
    Status.WARN,
    "all traffic of the pod that is not local then leaves by the RDMA network: DNS, the API and "
    "image data too",
    errata=("E46",),
)
def default_route(bundle: Bundle) -> Iterator[Hit]:
    for pod in pods(bundle):
        for entry in _json_entries(pod):
            if at(entry, "default-route"):
                yield pod.hit(
                    pod.networks_path,
                    actual=f"default-route on network {text(entry, 'name')}",
                    expected="routes for the peers only",
                    fix="drop default-route; put specific routes into the network's IPAM",
                )


def _json_entries(pod: Pod) -> list[Any]:
    try:
        entries = json.loads(str(pod.annotations.get(NETWORKS, "")))
    except (ValueError, RecursionError):
        return []
    return entries if isinstance(entries, list) else []


@rule(
    "pod.host-network",
    Status.WARN,
    "a pod in the host's network namespace is never given to a CNI plugin: its networks are not "
    "attached, while their VFs are taken from the pool",
)
def host_network(bundle: Bundle) -> Iterator[Hit]:
    for pod in pods(bundle):
        if at(pod.spec, "hostNetwork") is True and pod.networks().refs:
            yield pod.hit(
                (*pod.path, "spec", "hostNetwork"),
                actual=f"hostNetwork: true with {len(pod.networks().refs)} networks listed",
                expected="hostNetwork: false",
                fix="drop hostNetwork",
            )
