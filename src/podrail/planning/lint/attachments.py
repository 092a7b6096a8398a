"""NetworkAttachmentDefinitions as written by hand, and the kinds that make them beside SR-IOV."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from podrail.model.bundle import Bundle, Resource
from podrail.model.document import Path
from podrail.model.finding import Status
from podrail.model.kinds.configs import Embedded, JsonProblem, embedded_json
from podrail.model.reach import at, text
from podrail.planning.lint.homes import PREFIXES, of_kind
from podrail.planning.lint.registry import Hit, rule
from podrail.planning.lint.view import (
    NAD,
    NAD_RESOURCE,
    Attachment,
    attachments,
    is_ib,
    policies_for,
)

_CONFIG: Path = ("spec", "config")
_ANNOTATION: Path = ("metadata", "annotations", NAD_RESOURCE)
_VF_PLUGINS = ("sriov", "ib-sriov", "host-device")


@dataclass(frozen=True, slots=True)
class Plugin:
    """One CNI plugin of a NAD's config."""

    resource: Resource
    config: Embedded
    path: Path
    data: dict[str, Any]

    @property
    def type(self) -> str:
        return str(self.data.get("type", ""))


def plugins(resource: Resource) -> list[Plugin]:
    """The plugins of a NAD, alone or in a list; empty when its config cannot be read."""
    config = embedded_json(resource, _CONFIG)
    if isinstance(config, JsonProblem) or not isinstance(config.data, dict):
        return []
    listed = config.data.get("plugins")
    found = [((), config.data)] if not isinstance(listed, list) else [
        (("plugins", at), item) for at, item in enumerate(listed)
    ]  # fmt: skip
    return [Plugin(resource, config, path, d) for path, d in found if isinstance(d, dict)]


def chained(resource: Resource) -> list[dict[str, Any]] | None:
    """What `metaPlugins` puts behind the network's own plugin; None when it is no JSON."""
    try:
        found = json.loads(f"[{text(resource.data, 'spec', 'metaPlugins')}]")
    except (ValueError, RecursionError):
        return None
    return found if all(isinstance(item, dict) for item in found) else None


def is_rail(attachment: Attachment) -> bool | None:
    """Whether a VF or a port of its own is handed to the pod; None for what can be either.

    In a VRF of its own a network has routes of its own and touches none of the pod's.
    """
    resource = attachment.resource
    if resource.kind == "MacvlanNetwork":
        return None  # over a shared RDMA device it is one
    nad = resource.kind == NAD
    types = {str(p.get("type")) for p in (() if nad else chained(resource) or ())}
    types |= {plugin.type for plugin in plugins(resource)} if nad else set()
    device = not nad or attachment.resource_name or types & {*_VF_PLUGINS, "ipoib"}
    return bool(device) and "vrf" not in types


@rule(
    "network.nad-config",
    Status.FAIL,
    "Multus hands this text to the CNI plugin; if it is no config, no pod of the network starts",
)
def nad_config(bundle: Bundle) -> Iterator[Hit]:
    for resource in of_kind(bundle, NAD):
        if at(resource.data, *_CONFIG) is None:
            continue  # a config file of the node is meant
        found = embedded_json(resource, _CONFIG)
        if isinstance(found, JsonProblem):
            yield Hit(resource, _CONFIG, found.actual, found.expected, found.fix, where=found.where)
        elif not any(plugin.type for plugin in plugins(resource)):
            yield Hit(
                resource, _CONFIG, "a config without `type` and without `plugins`",
                '"type" with the name of the CNI plugin', 'add "type": "sriov" (or "ib-sriov")',
                where=found.where(),
            )  # fmt: skip


@rule(
    "network.nad-resource",
    Status.FAIL,
    "Multus learns from this annotation which VF the pod was given; without it the CNI fails with "
    "`VF pci addr is required`",
    errata=("E36",),
)
def nad_resource(bundle: Bundle) -> Iterator[Hit]:
    for resource in of_kind(bundle, NAD):
        for plugin in plugins(resource):
            given = {"deviceID", "pciBusID", "device", "hwaddr", "kernelpath"} & plugin.data.keys()
            if plugin.type in _VF_PLUGINS and not given and not at(resource.data, *_ANNOTATION):
                yield Hit(
                    resource, ("metadata", "name"),
                    f"type {plugin.type} and no annotation {NAD_RESOURCE}",
                    f"{NAD_RESOURCE} with prefix/resourceName of the policy",
                    f"add metadata.annotations: {NAD_RESOURCE}: openshift.io/NAME "
                    "(nvidia.com/NAME under NVIDIA's operator)",
                )  # fmt: skip


@rule(
    "network.nad-resource-prefix",
    Status.FAIL,
    "the annotation must be the full resource name as the node advertises it, or Multus finds no "
    "device for the pod",
    errata=("E11",),
)
def nad_resource_prefix(bundle: Bundle) -> Iterator[Hit]:
    for resource in of_kind(bundle, NAD):
        name = at(resource.data, *_ANNOTATION)
        if isinstance(name, str) and name and "/" not in name:
            likely = " or ".join(f"{prefix}/{name}" for prefix in PREFIXES)
            yield Hit(
                resource, _ANNOTATION, f"`{name}` has no prefix", likely,
                f"write the name `kubectl describe node` shows under Allocatable: {likely}",
            )  # fmt: skip


@rule(
    "network.nad-type",
    Status.FAIL,
    "sriov is the CNI for Ethernet VFs and ib-sriov for InfiniBand; each fails on the other's",
    errata=("E13",),
)
def nad_type(bundle: Bundle) -> Iterator[Hit]:
    for attachment in attachments(bundle):
        if attachment.resource.kind != NAD or attachment.resource_name is None:
            continue
        for policy in policies_for(bundle, attachment.resource_name):
            wanted = "ib-sriov" if is_ib(policy) else "sriov"
            for plugin in plugins(attachment.resource):
                if plugin.type in ("sriov", "ib-sriov") and plugin.type != wanted:
                    yield Hit(
                        attachment.resource, _CONFIG,
                        f"type {plugin.type}, while {policy.resource.subject} has linkType "
                        f"{policy.model.spec.link_type or 'not set (Ethernet)'}",
                        f"type {wanted}", f'write "type": "{wanted}", or correct linkType',
                        where=plugin.config.where(*plugin.path, "type"),
                    )  # fmt: skip


@rule(
    "network.same-name",
    Status.FAIL,
    "both make a NetworkAttachmentDefinition of that name; the operator refuses to touch one that "
    "belongs to another object, so one of the networks never appears",
)
def same_name(bundle: Bundle) -> Iterator[Hit]:
    first: dict[tuple[str, str], Resource] = {}
    for attachment in attachments(bundle):
        if attachment.namespace is None:
            continue
        place = (attachment.namespace, attachment.name)
        other = first.setdefault(place, attachment.resource)
        if other is not attachment.resource and other.subject != attachment.resource.subject:
            yield Hit(
                attachment.resource, ("metadata", "name"),
                f"{other.subject} also makes {attachment.namespace}/{attachment.name}",
                "one network for each name in a namespace", "rename one of the two",
                evidence=(f"{other.subject} at {other.where('metadata', 'name')}",),
            )  # fmt: skip


@rule(
    "network.no-master",
    Status.WARN,
    "without `master` the plugin takes the interface of the default route, which is hardly the "
    "RDMA NIC",
)
def no_master(bundle: Bundle) -> Iterator[Hit]:
    for resource in of_kind(bundle, "MacvlanNetwork", "IPoIBNetwork"):
        if not at(resource.data, "spec", "master"):
            yield Hit(
                resource, ("spec", "master"), "no master", "the RDMA interface of the host",
                "add master: with the interface `rdma link` shows",
            )  # fmt: skip


@rule(
    "network.host-device-resource",
    Status.WARN,
    "a HostDeviceNetwork hands out what the device plugin of the NicClusterPolicy advertises; a "
    "pod waits for ever for a name that is not in its list",
)
def host_device_resource(bundle: Bundle) -> Iterator[Hit]:
    made = _plugin_resources(bundle)
    for attachment in attachments(bundle) if made else ():
        name = attachment.resource_name
        if attachment.resource.kind == "HostDeviceNetwork" and name and name not in made:
            yield Hit(
                attachment.resource, ("spec", "resourceName"),
                f"`{name}` is in no sriovDevicePlugin config here", f"one of {', '.join(made)}",
                f"write resourceName: {made[0]}, or add {name} to the plugin's resourceList",
            )  # fmt: skip


def _plugin_resources(bundle: Bundle) -> list[str]:
    made = list[str]()
    for resource in of_kind(bundle, "NicClusterPolicy", "NicNodePolicy"):
        config = embedded_json(resource, ("spec", "sriovDevicePlugin", "config"))
        listed = None if isinstance(config, JsonProblem) else config.get("resourceList")
        for item in listed if isinstance(listed, list) else ():
            name = item.get("resourceName") if isinstance(item, dict) else None
            made += [name] if isinstance(name, str) else []
    return made
