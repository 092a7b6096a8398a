"""Device plugin configurations: JSON that says which devices become which resource."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from podrail.model.bundle import Bundle, Resource
from podrail.model.document import Path
from podrail.model.finding import Status, Where
from podrail.model.kinds.configs import (
    DevicePluginConfig,
    DeviceResource,
    Embedded,
    JsonProblem,
    SharedDevicePluginConfig,
    SharedResource,
    embedded_json,
    read_config,
)
from podrail.model.reach import mapping, text
from podrail.model.wire import Wire
from podrail.planning.lint.drivers import nic_policies
from podrail.planning.lint.homes import of_kind
from podrail.planning.lint.memo import once
from podrail.planning.lint.registry import Hit, rule

SRIOV: Path = ("spec", "sriovDevicePlugin")
SHARED: Path = ("spec", "rdmaSharedDevicePlugin")
_DEFAULT_PREFIX = {"NicClusterPolicy": "nvidia.com", "NicNodePolicy": "nvidia.com"}


@dataclass(frozen=True, slots=True)
class Pool:
    """One resource an SR-IOV device plugin is told to advertise."""

    config: Embedded
    index: int
    entry: DeviceResource

    @property
    def full_name(self) -> str:
        default = _DEFAULT_PREFIX.get(self.config.resource.kind, "intel.com")
        return f"{self.entry.resource_prefix or default}/{self.entry.resource_name}"

    def where(self, *path: str | int) -> Where:
        return self.config.where("resourceList", self.index, *path)

    def hit(self, *path: str | int, actual: str, expected: str, fix: str) -> Hit:
        return Hit(
            self.config.resource, self.config.path, actual, expected, fix, where=self.where(*path)
        )


@dataclass(frozen=True, slots=True)
class SharedPool:
    """One resource the RDMA shared device plugin is told to advertise."""

    config: Embedded
    index: int
    entry: SharedResource

    @property
    def full_name(self) -> str:
        return f"{self.entry.resource_prefix or 'rdma'}/{self.entry.resource_name}"

    def hit(self, *path: str | int, actual: str, expected: str, fix: str) -> Hit:
        where = self.config.where("configList", self.index, *path)
        return Hit(self.config.resource, self.config.path, actual, expected, fix, where=where)


def _sriov_configs(bundle: Bundle) -> Iterator[tuple[Resource, Path]]:
    """In NicClusterPolicies, and in the ConfigMaps of a plugin deployed by hand."""
    for resource in nic_policies(bundle):
        if text(resource.data, *SRIOV, "config"):
            yield resource, (*SRIOV, "config")
    for resource in of_kind(bundle, "ConfigMap"):
        for key, value in mapping(resource.data, "data").items():
            if isinstance(value, str) and '"resourceList"' in value:
                yield resource, ("data", key)


def _shared_configs(bundle: Bundle) -> Iterator[tuple[Resource, Path]]:
    for resource in nic_policies(bundle):
        if text(resource.data, *SHARED, "config"):
            yield resource, (*SHARED, "config")
    for resource in of_kind(bundle, "ConfigMap"):
        for key, value in mapping(resource.data, "data").items():
            if isinstance(value, str) and '"configList"' in value and '"rdmaHcaMax"' in value:
                yield resource, ("data", key)


@once
def pools(bundle: Bundle) -> Iterator[Pool]:
    """Every readable entry of every SR-IOV device plugin configuration."""
    for resource, path in _sriov_configs(bundle):
        config = embedded_json(resource, path)
        if isinstance(config, Embedded):
            model, _ = read_config(DevicePluginConfig, config)
            for index, entry in enumerate(model.resource_list if model else ()):
                yield Pool(config, index, entry)


@once
def shared_pools(bundle: Bundle) -> Iterator[SharedPool]:
    """Every readable entry of every RDMA shared device plugin configuration."""
    for resource, path in _shared_configs(bundle):
        config = embedded_json(resource, path)
        if isinstance(config, Embedded):
            model, _ = read_config(SharedDevicePluginConfig, config)
            for index, entry in enumerate(model.config_list if model else ()):
                yield SharedPool(config, index, entry)


@rule(
    "plugin.config",
    Status.FAIL,
    "the plugin, or the operator's webhook before it, refuses the configuration and nothing is "
    "advertised",
    errata=("E23",),
)
def config_readable(bundle: Bundle) -> Iterator[Hit]:
    for resource, path in _sriov_configs(bundle):
        yield from _faults(DevicePluginConfig, resource, path)
    for resource, path in _shared_configs(bundle):
        yield from _faults(SharedDevicePluginConfig, resource, path)


def _faults(model: type[Wire], resource: Resource, path: Path) -> Iterator[Hit]:
    config = embedded_json(resource, path)
    if isinstance(config, JsonProblem):
        yield Hit(resource, path, config.actual, config.expected, config.fix, where=config.where)
        return
    for fault in read_config(model, config)[1]:
        yield Hit(resource, path, fault.actual, fault.expected, fault.fix, where=fault.where)


@rule(
    "plugin.no-config",
    Status.FAIL,
    "a device plugin without a configuration advertises nothing",
    errata=("E44",),
)
def no_config(bundle: Bundle) -> Iterator[Hit]:
    for resource in nic_policies(bundle):
        for path in (SRIOV, SHARED):
            if mapping(resource.data, *path) and not text(resource.data, *path, "config"):
                yield Hit(
                    resource,
                    path,
                    actual=f"{path[-1]} has no `config`",
                    expected="the JSON that names devices and resources",
                    fix="add `config`, or delete the plugin: with SriovNetworkNodePolicy the "
                    "SR-IOV operator runs its own",
                    key=True,
                )


@rule(
    "plugin.resource-name",
    Status.FAIL,
    "the Network Operator's webhook accepts letters, digits, `_` and `.` in a resource name, and "
    "an FQDN as its prefix",
    errata=("E23",),
)
def resource_name(bundle: Bundle) -> Iterator[Hit]:
    for pool in pools(bundle):
        if pool.config.resource.kind == "ConfigMap":
            continue
        name, prefix = pool.entry.resource_name, pool.entry.resource_prefix
        if not re.fullmatch(r"[A-Za-z0-9_.]+", name):
            better = re.sub(r"[^A-Za-z0-9_.]", "_", name.rpartition("/")[2])
            yield pool.hit(
                "resourceName",
                actual=f"resourceName {name}",
                expected=better,
                fix=f"rename it to {better}, in pods and networks too",
            )
        if prefix is not None and not re.fullmatch(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+", prefix):
            yield pool.hit(
                "resourcePrefix",
                actual=f"resourcePrefix {prefix}",
                expected="a domain such as nvidia.com",
                fix="write nvidia.com",
            )
