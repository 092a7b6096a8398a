"""What is to be offered: podrail's plan, and the configurations upstream's plugins read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from podrail.attach.deviceplugin.candidates import ACCELERATOR, AUXILIARY
from podrail.attach.deviceplugin.naming import Resource, resource
from podrail.model.bundle import Bundle
from podrail.model.document import Document
from podrail.model.errors import ManifestError
from podrail.model.finding import Subject
from podrail.model.kinds.configs import (
    DevicePluginConfig,
    DeviceResource,
    SharedDevicePluginConfig,
    SharedResource,
)
from podrail.model.kinds.sriov import SriovNetworkNodePolicy
from podrail.model.reach import text
from podrail.model.wire import Place, Wire, validate, wire_names
from podrail.planning.lint.homes import of_kind, prefix_of
from podrail.planning.lint.plugins import pools, shared_pools
from podrail.planning.planner import Planner

PREFIX = "openshift.io"
"""What the SR-IOV operator uses where nobody says otherwise."""
FILE_PREFIX = "intel.com"
"""What sriov-network-device-plugin uses for entries of its own file without a prefix."""
SHARED_PREFIX = "rdma"

_NAD = "NetworkAttachmentDefinition"
_ANNOTATION = "k8s.v1.cni.cncf.io/resourceName"

W = TypeVar("W", bound=Wire)


@dataclass(frozen=True, slots=True)
class Entry:
    """One element of `resourceList`."""

    resource: Resource
    wanted: DeviceResource


@dataclass(frozen=True, slots=True)
class SharedEntry:
    """One element of `configList`: an HCA that many pods share."""

    resource: Resource
    wanted: SharedResource


@dataclass(frozen=True, slots=True)
class Wanted:
    """Everything that is to be offered, in the order in which it takes devices."""

    planner: Planner | None = None
    prefixes: Mapping[str, str] = field(default_factory=dict)
    """Resource name of a policy → its prefix."""
    prefix: str = PREFIX
    entries: tuple[Entry, ...] = ()
    shared: tuple[SharedEntry, ...] = ()
    said: tuple[str, ...] = ()
    """What could not be read."""

    def named(self, name: str) -> Resource:
        return Resource(self.prefixes.get(name, self.prefix), name)

    @property
    def asks(self) -> frozenset[str]:
        """The facts beside the inventory that some selector asks for."""
        selectors = [s for entry in self.entries for s in entry.wanted.selector_list()]
        kinds = {entry.wanted.device_type for entry in self.entries}
        found = {
            "acpi": any(s.acpi_indexes for s in selectors),
            "vdpa": self.planner is not None or any(s.vdpa_type for s in selectors),
            AUXILIARY: AUXILIARY in kinds,
            ACCELERATOR: ACCELERATOR in kinds,
        }
        return frozenset(name for name, asked in found.items() if asked)


def of_bundle(bundle: Bundle) -> Wanted:
    """What a bundle's policies and plugin configurations offer."""
    found = [Entry(resource(pool.full_name), pool.entry) for pool in pools(bundle)]
    shared = [SharedEntry(resource(pool.full_name), pool.entry) for pool in shared_pools(bundle)]
    return Wanted(
        planner=Planner.of(bundle),
        prefixes=dict(_prefixes(bundle)),
        prefix=bundle.resource_prefix or PREFIX,
        entries=tuple(found),
        shared=tuple(shared),
    )


def _prefixes(bundle: Bundle) -> Iterator[tuple[str, str]]:
    """What comes later counts more: the operator's, the plugin's own, then the networks'."""
    for typed in bundle.of(SriovNetworkNodePolicy):
        prefix = prefix_of(bundle, typed.resource)
        if prefix:
            yield typed.model.spec.resource_name, prefix
    for pool in pools(bundle):
        if pool.entry.resource_prefix:
            yield pool.entry.resource_name, pool.entry.resource_prefix
    for network in of_kind(bundle, _NAD):
        named = resource(text(network.data, "metadata", "annotations", _ANNOTATION))
        if named.prefix:
            yield named.name, named.prefix


def of_file(content: str, file: str, prefix: str = FILE_PREFIX) -> Wanted:
    """A plugin's own configuration file, of either plugin; keys in any case."""
    data = _parsed(content, file)
    keys = {key.lower() for key in data}
    if "configlist" in keys:
        shared, said = _read(SharedDevicePluginConfig, data, file)
        found = [
            SharedEntry(Resource(one.resource_prefix or SHARED_PREFIX, one.resource_name), one)
            for one in (shared.config_list if shared else ())
        ]
        return Wanted(shared=tuple(found), said=said)
    config, said = _read(DevicePluginConfig, data, file)
    entries = [
        Entry(Resource(one.resource_prefix or prefix, one.resource_name), one)
        for one in (config.resource_list if config else ())
    ]
    return Wanted(entries=tuple(entries), said=said)


def _parsed(content: str, file: str) -> dict[str, Any]:
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as wrong:
        raise ManifestError(f"{file}: not JSON ({wrong}); write the plugin's JSON there") from wrong
    if not isinstance(data, dict):
        raise ManifestError(f"{file}: a JSON object is wanted, with resourceList or configList")
    return data


def _read(model: type[W], data: dict[str, Any], file: str) -> tuple[W | None, tuple[str, ...]]:
    names = {name.lower(): name for name in wire_names(model)}
    place = Place(Document(file), (), Subject("file", file))
    found, faults = validate(model, _renamed(data, names), place)
    return found, tuple(f"{file}: {fault.actual}; {fault.fix}" for fault in faults)


def _renamed(data: Any, names: Mapping[str, str]) -> Any:
    """Go's encoding/json matches keys in any case, and the operator writes `IsRdma`."""
    if isinstance(data, list):
        return [_renamed(item, names) for item in data]
    if isinstance(data, dict):
        return {names.get(key.lower(), key): _renamed(v, names) for key, v in data.items()}
    return data
