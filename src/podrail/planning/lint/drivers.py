"""ofedDriver: the DOCA-OFED container's environment, its version, and who must wait for it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from podrail.model.bundle import Bundle, Resource
from podrail.model.document import Path
from podrail.model.finding import Status
from podrail.model.reach import at, items, mapping, text
from podrail.planning.lint.homes import is_openshift, of_kind
from podrail.planning.lint.registry import Hit, rule
from podrail.planning.lint.view import policies

# Runtime variables of the driver container (its README and entrypoint), with those of proxies.
_KNOWN_ENV = {
    "ENABLE_NFSRDMA", "UNLOAD_STORAGE_MODULES", "CREATE_IFNAMES_UDEV",
    "RESTORE_DRIVER_ON_POD_TERMINATION", "UNLOAD_THIRD_PARTY_RDMA_MODULES",
    "OFED_BLACKLIST_MODULES", "MLX5_AUXILIARY_MODULES", "STORAGE_MODULES",
    "THIRD_PARTY_RDMA_MODULES", "SKIP_PREFLIGHT_CHECKS", "ENTRYPOINT_DEBUG", "DEBUG_LOG_FILE",
    "DEBUG_SLEEP_SEC_ON_EXIT", "DTK_OCP_DRIVER_BUILD", "NVIDIA_NIC_DRIVER_VER",
    "NVIDIA_NIC_DRIVER_PATH", "NVIDIA_NIC_CONTAINER_VERSION", "DRIVER_READY_PATH",
    "MLX_DRIVERS_MOUNT", "SHARED_KERNEL_HEADERS_DIR", "LOCK_DIR_PATH", "MLX_UDEV_RULES_FILE",
    "NVIDIA_NIC_DRIVERS_INVENTORY_PATH", "DRIVER_INVENTORY_PATH", "UBUNTU_PRO_TOKEN",
    "APPEND_DRIVER_BUILD_FLAGS", "BUILD_PRECOMPILED", "MODPROBE_BLACKLIST_FILE",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
}  # fmt: skip

_RENAMED = {"NFSRDMA_ENABLE": "ENABLE_NFSRDMA", "NFSRDMA_ENABLED": "ENABLE_NFSRDMA"}

_PLUGIN_OF_RELEASE = {
    "24.07": ("v1.5.1", "v3.7.0"),
    "24.10": ("v1.5.2", "v3.8.0"),
    "25.01": ("v1.5.2", "v3.9.0"),
    "25.04": ("v1.5.3", "v3.9.0"),
}
"""Driver release → the shared and the SR-IOV device plugin tested with it. From 25.07 on the
plugins carry the operator's own version (`network-operator-v25.7.0`)."""

_DIGEST = re.compile(r"sha256:[0-9a-fA-F]{64}")
_OFED_VERSION = re.compile(
    r"(?:(?P<doca>doca\d+\.\d+(?:\.\d+)?)-)?(?P<release>\d+\.\d+)-"
    r"(?(doca)(?:\d{6,}|\d+(?:\.\d+){2,3})|\d+(?:\.\d+)*)"
    r"(?:-[\w.-]+)?"
)
"""What the operator's webhook takes (isValidOFEDVersion), and a little more: from DOCA 3.6 on a
build number of six digits stands for the driver's own; kernel, OS and CPU may follow."""
_OFED: Path = ("spec", "ofedDriver")


def nic_policies(bundle: Bundle) -> Iterator[Resource]:
    """NicClusterPolicies and NicNodePolicies."""
    return of_kind(bundle, "NicClusterPolicy", "NicNodePolicy")


def ofed_drivers(bundle: Bundle) -> Iterator[Resource]:
    """Those that run the DOCA-OFED container."""
    return (r for r in nic_policies(bundle) if mapping(r.data, *_OFED))


def _env(resource: Resource) -> dict[str, tuple[int, str]]:
    """Variable → its place in the list and its value."""
    listed = enumerate(items(resource.data, *_OFED, "env"))
    return {text(entry, "name"): (n, str(at(entry, "value"))) for n, entry in listed}


def _on(resource: Resource, name: str) -> bool:
    return _env(resource).get(name, (0, ""))[1].lower() == "true"


def enables_nfs(resource: Resource) -> bool:
    """Whether the driver container brings NFS over RDMA."""
    return _on(resource, "ENABLE_NFSRDMA")


def _env_path(resource: Resource, name: str, part: str) -> Path:
    return (*_OFED, "env", _env(resource)[name][0], part)


@rule(
    "ofed.env-name",
    Status.FAIL,
    "the driver container reads only the names it knows; under another one the setting does "
    "nothing",
    errata=("E16",),
)
def env_name(bundle: Bundle) -> Iterator[Hit]:
    for resource in _with_env(bundle):
        for path, name in _env_names(resource):
            near = _meant(name)
            if near is not None:
                yield Hit(
                    resource,
                    path,
                    actual=f"variable {name}",
                    expected=near,
                    fix=f"rename it to {near}",
                )


def _with_env(bundle: Bundle) -> Iterator[Resource]:
    return (r for r in nic_policies(bundle) if list(_env_names(r)))


def _env_names(resource: Resource) -> Iterator[tuple[Path, str]]:
    """Names under ofedDriver, and under the places people put them by mistake."""
    for place in (_OFED, ("spec",), ("spec", "rdmaSharedDevicePlugin")):
        for number, entry in enumerate(items(resource.data, *place, "env")):
            if name := text(entry, "name"):
                yield (*place, "env", number, "name"), name


def _meant(name: str) -> str | None:
    """The variable that was meant; None for one that is known or like none."""
    if name in _KNOWN_ENV:
        return None
    if name in _RENAMED:
        return _RENAMED[name]
    near = difflib.get_close_matches(name.upper(), _KNOWN_ENV, n=1, cutoff=0.82)
    return near[0] if near else None


@rule(
    "ofed.env-value",
    Status.WARN,
    "only the words true and false mean the same to every release of the driver container",
)
def env_value(bundle: Bundle) -> Iterator[Hit]:
    switches = (
        "ENABLE_NFSRDMA", "UNLOAD_STORAGE_MODULES", "RESTORE_DRIVER_ON_POD_TERMINATION",
        "UNLOAD_THIRD_PARTY_RDMA_MODULES", "CREATE_IFNAMES_UDEV",
    )  # fmt: skip
    for resource in ofed_drivers(bundle):
        for name, (_, value) in _env(resource).items():
            if name in switches and value not in ("true", "false", "True", "False"):
                yield Hit(
                    resource,
                    _env_path(resource, name, "value"),
                    actual=f'{name}: "{value}"',
                    expected='"true" or "false"',
                    fix=f'write value: "{"true" if value in ("1", "yes", "on") else "false"}"',
                )


@rule(
    "ofed.ifnames-udev",
    Status.WARN,
    "the operator sets it by operating system; by hand it can rename the NICs away from pfNames. "
    "It has nothing to do with nvidia-peermem",
    errata=("E17",),
)
def ifnames_udev(bundle: Bundle) -> Iterator[Hit]:
    for resource in nic_policies(bundle):
        for path, name in _env_names(resource):
            if name == "CREATE_IFNAMES_UDEV":
                yield Hit(
                    resource,
                    path,
                    actual="CREATE_IFNAMES_UDEV set by hand",
                    expected="the operator's own choice",
                    fix="delete the variable",
                )


@rule(
    "ofed.restore-on-termination",
    Status.WARN,
    "when the driver pod ends, the inbox driver is reloaded: every link of the node drops and NFS "
    "mounts over RDMA hang",
    errata=("E18",),
)
def restore_on_termination(bundle: Bundle) -> Iterator[Hit]:
    switchdev = any(p.model.spec.e_switch_mode == "switchdev" for p in policies(bundle))
    for resource in nic_policies(bundle):
        names = {name: path for path, name in _env_names(resource)}
        path = names.get("RESTORE_DRIVER_ON_POD_TERMINATION")
        nfs = any("NFSRDMA" in name for name in names)
        if path is None or not (nfs or switchdev):
            continue
        if str(at(resource.data, *path[:-1], "value")).lower() == "true":
            use = "NFS over RDMA" if nfs else "switchdev policies"
            yield Hit(
                resource,
                path,
                actual=f'RESTORE_DRIVER_ON_POD_TERMINATION: "true" together with {use}',
                expected='"false", the default',
                fix="delete the variable",
            )


@rule(
    "ofed.storage-modules",
    Status.FAIL,
    "nodes with RDMA NICs load rpcrdma and ib_iser by themselves; the driver container then stops "
    "with “Storage modules are loaded”, before it has done anything",
    errata=("E19",),
)
def storage_modules(bundle: Bundle) -> Iterator[Hit]:
    for resource in ofed_drivers(bundle):
        env = _env(resource)
        wanted = next((n for n in ("ENABLE_NFSRDMA", *_RENAMED) if n in env), None)
        if wanted and _on(resource, wanted) and not _on(resource, "UNLOAD_STORAGE_MODULES"):
            yield Hit(
                resource,
                _env_path(resource, wanted, "name"),
                actual=f"{wanted} without UNLOAD_STORAGE_MODULES",
                expected='UNLOAD_STORAGE_MODULES: "true" beside it',
                fix='add {name: UNLOAD_STORAGE_MODULES, value: "true"} to ofedDriver.env',
            )


# --- versions ---------------------------------------------------------------------------------


def _release(version: str) -> str | None:
    found = _OFED_VERSION.fullmatch(version)
    return found["release"] if found else None


def _before(release: str, other: str) -> bool:
    """By number: MLNX_OFED 5.9 is older than 25.07."""
    ours, theirs = ([int(part) for part in text.split(".")] for text in (release, other))
    return ours < theirs


@rule(
    "ofed.version-format",
    Status.FAIL,
    "the operator's webhook refuses a version of another form, and no image has such a tag",
)
def version_format(bundle: Bundle) -> Iterator[Hit]:
    for resource in ofed_drivers(bundle):
        version = text(resource.data, *_OFED, "version")
        if version and _release(version) is None and not _DIGEST.fullmatch(version):
            yield Hit(
                resource,
                (*_OFED, "version"),
                actual=f"version {version}",
                expected="the form doca3.3.0-26.01-1.0.0.0-0 (before 25.7: 25.04-0.6.1.0-2; from "
                "DOCA 3.6 on: doca3.6.0-26.10-043000-0), or sha256: with 64 digits",
                fix="take the version from the release notes of your Network Operator",
            )


@rule(
    "ofed.outdated",
    Status.WARN,
    "drivers of releases before 25.7 are no longer built for new kernels and OS releases",
    errata=("E22",),
)
def outdated(bundle: Bundle) -> Iterator[Hit]:
    for resource in ofed_drivers(bundle):
        version = text(resource.data, *_OFED, "version")
        release = _release(version)
        if release is not None and _before(release, "25.07"):
            yield Hit(
                resource,
                (*_OFED, "version"),
                actual=f"{version}, release {release}",
                expected="a current release, such as doca3.3.0-26.01-1.0.0.0-0",
                fix="upgrade the Network Operator and take the versions of its release together",
            )


@rule(
    "ofed.mixed-release",
    Status.WARN,
    "only the versions of one release were tested together",
    errata=("E21",),
)
def mixed_release(bundle: Bundle) -> Iterator[Hit]:
    for resource in nic_policies(bundle):
        release = _release(text(resource.data, *_OFED, "version"))
        if release is None:
            continue
        for number, name in enumerate(("rdmaSharedDevicePlugin", "sriovDevicePlugin")):
            version = text(resource.data, "spec", name, "version")
            expected = _plugin_version(release, number, version)
            if version and expected:
                yield Hit(
                    resource,
                    ("spec", name, "version"),
                    actual=f"{name} {version} beside driver release {release}",
                    expected=expected,
                    fix=f"use {expected}, or take both from the same release",
                )


def _plugin_version(release: str, plugin: int, version: str) -> str | None:
    """The version that belongs to the driver, when this is another."""
    pair = _PLUGIN_OF_RELEASE.get(release)
    if pair is not None:
        return pair[plugin] if version != pair[plugin] else None
    if _before(release, "25.07") or not re.match(r"^(?:network-operator-)?v\d", version):
        return None
    year, month = release.split(".")
    wanted = f"network-operator-v{year}.{int(month)}."
    return None if version.startswith(wanted) else f"{wanted}0"


# --- order ------------------------------------------------------------------------------------

_WAIT = "network.nvidia.com/operator.mofed.wait"


@rule(
    "ofed.no-wait",
    Status.WARN,
    "the SR-IOV daemon would make VFs on the inbox driver, and the reload to DOCA-OFED then loses "
    "them or is blocked by them",
    errata=("E43",),
)
def no_wait(bundle: Bundle) -> Iterator[Hit]:
    drivers = list(ofed_drivers(bundle))
    if not (drivers and policies(bundle) and is_openshift(bundle)):
        return
    configs = list(of_kind(bundle, "SriovOperatorConfig"))
    selectors = [mapping(c.data, "spec", "configDaemonNodeSelector") for c in configs]
    if any(selector.get(_WAIT) == "false" for selector in selectors):
        return
    subject = configs[0] if configs else policies(bundle)[0].resource
    yield Hit(
        subject,
        ("spec",),
        actual="ofedDriver and SR-IOV policies, and the SR-IOV daemon waits for no driver"
        + ("" if configs else " (no SriovOperatorConfig here)"),
        expected=f'SriovOperatorConfig.spec.configDaemonNodeSelector: {{{_WAIT}: "false"}}',
        fix="add the selector to the SriovOperatorConfig `default`",
        key=True,
    )
