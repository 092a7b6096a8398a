"""MachineConfigs: mount units, kernel arguments, and the pool that has to pick them up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from podrail.model.bundle import Bundle, Resource
from podrail.model.document import Path
from podrail.model.finding import Status
from podrail.model.reach import at, items, line_of, mapping, text, texts
from podrail.planning.lint.homes import of_kind
from podrail.planning.lint.registry import Hit, rule

_ROLE = "machineconfiguration.openshift.io/role"
_UNITS: Path = ("spec", "config", "systemd", "units")
_RHCOS_LINKS = {
    "/mnt": "/var/mnt",
    "/home": "/var/home",
    "/opt": "/var/opt",
    "/srv": "/var/srv",
    "/root": "/var/roothome",
    "/usr/local": "/var/usrlocal",
}
"""Symbolic links at the root of an OSTree system; systemd mounts only canonical paths."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One systemd unit of a MachineConfig."""

    resource: Resource
    number: int
    name: str
    contents: str

    @property
    def contents_path(self) -> Path:
        return (*_UNITS, self.number, "contents")

    def settings(self, *names: str) -> Iterator[tuple[str, int]]:
        """Each value of these settings, and its line."""
        for line, words in enumerate(self.contents.splitlines()):
            key, equals, value = words.partition("=")
            if equals and key.strip() in names:
                yield value.strip(), line

    def setting(self, name: str) -> tuple[str, int] | None:
        """A setting's value and its line."""
        return next(self.settings(name), None)

    def hit(self, line: int, *, actual: str, expected: str, fix: str) -> Hit:
        """A finding at a line."""
        where = line_of(self.resource, self.contents_path, line)
        return Hit(self.resource, self.contents_path, actual, expected, fix, where=where)


def units(bundle: Bundle) -> Iterator[Unit]:
    """Every unit with contents, of every MachineConfig."""
    for resource in of_kind(bundle, "MachineConfig"):
        for number, unit in enumerate(items(resource.data, *_UNITS)):
            if text(unit, "name") and text(unit, "contents"):
                yield Unit(resource, number, text(unit, "name"), text(unit, "contents"))


def _mount_units(bundle: Bundle) -> Iterator[tuple[Unit, str, int]]:
    """Mount units with their path and its line."""
    for unit in units(bundle):
        for where, line in unit.settings("Where"):
            if where.startswith("/"):
                yield unit, where, line


def escape_path(path: str) -> str:
    """What `systemd-escape --path` prints (systemd.unit(5), “String escaping”)."""
    bare = "/".join(part for part in path.split("/") if part)
    if not bare:
        return "-"
    return "".join(_escaped(byte, first=n == 0) for n, byte in enumerate(bare.encode()))


def _escaped(byte: int, *, first: bool) -> str:
    char = chr(byte)
    if char == "/":
        return "-"
    kept = byte < 128 and (char.isalnum() or char in ":_" or (char == "." and not first))
    return char if kept else f"\\x{byte:02x}"


def _canonical(path: str) -> str:
    """The path on RHCOS with its leading link resolved."""
    for link, target in _RHCOS_LINKS.items():
        if path == link or path.startswith(link + "/"):
            return target + path.removeprefix(link)
    return path


@rule(
    "machine.mount-unit-name",
    Status.FAIL,
    "systemd loads a mount unit only under the escaped name of its path: “Where= setting doesn't "
    "match unit name. Refusing.”",
    errata=("E75",),
)
def mount_unit_name(bundle: Bundle) -> Iterator[Hit]:
    for unit, where, _ in _mount_units(bundle):
        suffix = ".automount" if unit.name.endswith(".automount") else ".mount"
        if unit.name == escape_path(where) + suffix:
            continue
        doubled = unit.name.replace("\\\\", "\\") == escape_path(where) + suffix
        right = escape_path(_canonical(where)) + suffix
        note = ": outside quotes YAML keeps both backslashes" if doubled else ""
        yield Hit(
            unit.resource,
            (*_UNITS, unit.number, "name"),
            actual=f"`{unit.name}`{note}",
            expected=f"`{right}` for Where={_canonical(where)}",
            fix=f"write name: {right} without quotes, with single backslashes",
        )


@rule(
    "machine.mount-through-symlink",
    Status.FAIL,
    "on RHCOS this path goes through a symbolic link and systemd refuses it: “Mount path is not "
    "canonical (contains a symlink)”",
    errata=("E76",),
)
def mount_through_symlink(bundle: Bundle) -> Iterator[Hit]:
    for unit, where, line in _mount_units(bundle):
        real = _canonical(where)
        if real != where:
            yield unit.hit(
                line,
                actual=f"Where={where}, a link on RHCOS",
                expected=f"Where={real}",
                fix=f"use Where={real} and name the unit {escape_path(real)}.mount",
            )


def _ofed_in_container(bundle: Bundle) -> bool:
    policies = of_kind(bundle, "NicClusterPolicy", "NicNodePolicy")
    return any(at(policy.data, "spec", "ofedDriver") for policy in policies)


@rule(
    "machine.mount-before-driver",
    Status.FAIL,
    "at boot only the inbox RDMA stack is there: the mount loads rpcrdma, which then keeps the "
    "DOCA-OFED container from reloading the driver, or it fails for good",
    errata=("E77",),
)
def mount_before_driver(bundle: Bundle) -> Iterator[Hit]:
    if not _ofed_in_container(bundle):
        return
    for unit, where, _ in _mount_units(bundle):
        options = unit.setting("Options")
        if options is not None and re.search(r"\brdma\b", options[0]):
            yield unit.hit(
                options[1],
                actual=f"{where} is mounted over RDMA at boot, and ofedDriver is a container",
                expected="a mount made after the driver is ready",
                fix="use a PersistentVolume with these mountOptions, or install the driver on the "
                "host and drop ofedDriver",
            )


@rule(
    "machine.openibd",
    Status.WARN,
    "a containerised driver brings no openibd.service: After= waits for nothing, Requires= fails",
    errata=("E77",),
)
def openibd(bundle: Bundle) -> Iterator[Hit]:
    if not _ofed_in_container(bundle):
        return
    for unit in units(bundle):
        for names, line in unit.settings("After", "Requires", "Wants", "BindsTo"):
            if "openibd.service" in names.split():
                yield unit.hit(
                    line,
                    actual=f"`{names}`, while ofedDriver runs in a container",
                    expected="no openibd.service: readiness is /run/mellanox/drivers/.driver-ready",
                    fix="drop openibd.service and mount after the driver, through a "
                    "PersistentVolume",
                )


@rule(
    "machine.role-without-pool",
    Status.WARN,
    "a MachineConfig whose role no pool selects is stored and never written to a node",
    errata=("E85",),
)
def role_without_pool(bundle: Bundle) -> Iterator[Hit]:
    pools = list(of_kind(bundle, "MachineConfigPool"))
    for resource in of_kind(bundle, "MachineConfig"):
        role = text(resource.data, "metadata", "labels", _ROLE)
        if role not in ("", "worker", "master") and not any(_selects(p, role) for p in pools):
            yield Hit(
                resource,
                ("metadata", "labels", _ROLE),
                actual=f"role `{role}`, and no MachineConfigPool here selects it",
                expected=f"a MachineConfigPool that selects worker and {role}",
                fix=f"add the pool `{role}`, or hand it over too if the cluster has it",
            )


@rule(
    "machine.no-role",
    Status.FAIL,
    "pools find a MachineConfig by its role label; without one no node ever gets it",
)
def no_role(bundle: Bundle) -> Iterator[Hit]:
    for resource in of_kind(bundle, "MachineConfig"):
        if not text(resource.data, "metadata", "labels", _ROLE):
            yield Hit(
                resource,
                ("metadata",),
                actual=f"no label {_ROLE}",
                expected="the role of a pool, such as worker",
                fix=f"add labels: {{{_ROLE}: worker}}",
                key=True,
            )


def _selects(pool: Resource, role: str) -> bool:
    selector = mapping(pool.data, "spec", "machineConfigSelector")
    if text(selector, "matchLabels", _ROLE) == role:
        return True
    wanted = (e for e in items(selector, "matchExpressions") if at(e, "key") == _ROLE)
    return any(role in texts(e, "values") for e in wanted)


@rule(
    "machine.pool-without-worker",
    Status.WARN,
    "a custom pool that does not also take the worker configs leaves its nodes without the base "
    "configuration of OpenShift",
)
def pool_without_worker(bundle: Bundle) -> Iterator[Hit]:
    for pool in of_kind(bundle, "MachineConfigPool"):
        if pool.name in ("worker", "master") or _selects(pool, "worker"):
            continue
        if mapping(pool.data, "spec", "machineConfigSelector"):
            yield Hit(
                pool,
                ("spec", "machineConfigSelector"),
                actual="the selector leaves `worker` out",
                expected=f"values: [worker, {pool.name}]",
                fix=f"select {_ROLE} In [worker, {pool.name}]",
                key=True,
            )


# --- kernel arguments -------------------------------------------------------------------------


def _kernel_arguments(bundle: Bundle) -> Iterator[tuple[Resource, list[str]]]:
    for resource in of_kind(bundle, "MachineConfig"):
        yield resource, [str(a) for a in items(resource.data, "spec", "kernelArguments")]


@rule(
    "machine.iommu-not-passthrough",
    Status.WARN,
    "without iommu=pt every DMA of every device is translated, and GPU to NIC traffic detours "
    "through the root complex",
    errata=("E66",),
)
def iommu_not_passthrough(bundle: Bundle) -> Iterator[Hit]:
    for resource, arguments in _kernel_arguments(bundle):
        on = next((a for a in arguments if a in ("intel_iommu=on", "amd_iommu=on")), None)
        if on is not None and "iommu=pt" not in arguments:
            yield Hit(
                resource,
                ("spec", "kernelArguments", arguments.index(on)),
                actual=f"{on} without iommu=pt",
                expected=f"{on} and iommu=pt",
                fix="add iommu=pt to kernelArguments",
            )


@rule(
    "machine.realloc-off",
    Status.WARN,
    "where the firmware left no room for VF memory, only pci=realloc lets the kernel make it: "
    "sriov_numvfs then fails with ENOMEM",
)
def realloc_off(bundle: Bundle) -> Iterator[Hit]:
    for resource, arguments in _kernel_arguments(bundle):
        for number, argument in enumerate(arguments):
            if re.fullmatch(r"pci=(?:.*,)?realloc=off(?:,.*)?", argument):
                yield Hit(
                    resource,
                    ("spec", "kernelArguments", number),
                    actual=argument,
                    expected="pci=realloc, or nothing",
                    fix="drop realloc=off",
                )


@rule(
    "machine.netns-mode",
    Status.FAIL,
    "the kernel argument and the SR-IOV operator would set the RDMA namespace mode against each "
    "other, with a reboot each time",
)
def netns_mode(bundle: Bundle) -> Iterator[Hit]:
    pools = of_kind(bundle, "SriovNetworkPoolConfig")
    modes = {text(p.data, "spec", "rdmaMode") for p in pools} - {""}
    argument_of = {"shared": "ib_core.netns_mode=1", "exclusive": "ib_core.netns_mode=0"}
    if len(modes) != 1:
        return
    mode = modes.pop()
    wanted = argument_of.get(mode)
    for resource, arguments in _kernel_arguments(bundle):
        for number, argument in enumerate(arguments):
            if argument.startswith("ib_core.netns_mode=") and wanted and argument != wanted:
                yield Hit(
                    resource,
                    ("spec", "kernelArguments", number),
                    actual=f"{argument}, while SriovNetworkPoolConfig says rdmaMode: {mode}",
                    expected=wanted,
                    fix="drop the argument: the operator sets it from rdmaMode",
                )
