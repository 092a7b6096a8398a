"""ClusterPolicy: the GPU driver, its images, and whether GPUDirect can work at all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from podrail.model.bundle import Bundle, Resource
from podrail.model.document import Path
from podrail.model.finding import Status
from podrail.model.reach import at, mapping, text
from podrail.planning.lint.homes import of_kind
from podrail.planning.lint.podsecurity import rdma_resources
from podrail.planning.lint.podspec import bare, pods
from podrail.planning.lint.registry import Hit, rule

_ENDED_BRANCHES = {
    "515", "520", "525", "530", "545", "555", "560", "565",
}  # fmt: skip
"""Branches the driver containers no longer build; 535, 550, 570, 580 and newer are kept."""

_IMAGE_PARTS = ("repository", "image", "version")
_COMPONENTS = (
    "driver", "toolkit", "devicePlugin", "dcgm", "dcgmExporter", "gfd", "nodeStatusExporter",
    "gdrcopy", "gds", "migManager", "validator",
)  # fmt: skip


def _policies(bundle: Bundle) -> Iterator[tuple[Resource, dict[str, Any]]]:
    for resource in of_kind(bundle, "ClusterPolicy"):
        if text(resource.data, "apiVersion").startswith("nvidia.com/"):
            yield resource, mapping(resource.data, "spec")


@rule(
    "gpu.open-modules-field",
    Status.WARN,
    "GPU Operator v25.3.0 and newer ignore useOpenKernelModules; kernelModuleType decides",
    errata=("E24",),
)
def open_modules_field(bundle: Bundle) -> Iterator[Hit]:
    for resource, spec in _policies(bundle):
        old = at(spec, "driver", "useOpenKernelModules")
        if old is not None:
            wanted = "open" if old else "proprietary"
            yield Hit(
                resource,
                ("spec", "driver", "useOpenKernelModules"),
                actual=f"driver.useOpenKernelModules: {str(old).lower()}",
                expected=f"driver.kernelModuleType: {wanted} (or auto)",
                fix=f"replace it by `kernelModuleType: {wanted}`",
                key=True,
            )


def has_registry(image: str) -> bool:
    """Whether an image name begins with the host of a registry."""
    host, slash, _ = image.partition("/")
    return bool(slash) and ("." in host or ":" in host or host == "localhost")


@rule(
    "gpu.image-path",
    Status.FAIL,
    "the operator joins repository/image:version, so the registry would stand in the name twice "
    "and the pull fails",
    errata=("E25",),
)
def image_path(bundle: Bundle) -> Iterator[Hit]:
    for resource, spec in _policies(bundle):
        for name in _COMPONENTS:
            image, repository = text(spec, name, "image"), text(spec, name, "repository")
            if repository and has_registry(image):
                yield Hit(
                    resource,
                    ("spec", name, "image"),
                    actual=f"{repository}/{image} is what would be pulled",
                    expected=f"image: {image.rpartition('/')[2]}",
                    fix=f"write image: {image.rpartition('/')[2]} and leave the registry to "
                    "`repository`",
                )


@rule(
    "gpu.image-partial",
    Status.FAIL,
    "repository, image and version are joined into one name as they stand; with a part missing it "
    "is no name, such as /:580.95.05",
    errata=("E25",),
)
def image_partial(bundle: Bundle) -> Iterator[Hit]:
    for resource, spec in _policies(bundle):
        for name in _COMPONENTS:
            given = [part for part in _IMAGE_PARTS if text(spec, name, part)]
            whole = given == ["image"] and "/" in text(spec, name, "image")
            if not given or whole or len(given) == len(_IMAGE_PARTS):
                continue
            missing = [part for part in _IMAGE_PARTS if part not in given]
            yield Hit(
                resource,
                ("spec", name, given[0]),
                actual=f"{name} has {' and '.join(given)}, but no {' and no '.join(missing)}",
                expected="all three of repository, image and version, or none",
                fix=f"add {' and '.join(missing)}, or drop {' and '.join(given)}",
                key=True,
            )


@rule(
    "gpu.driver-branch",
    Status.WARN,
    "the branch has ended: driver containers for new kernels and OS releases are not built",
    errata=("E27",),
)
def driver_branch(bundle: Bundle) -> Iterator[Hit]:
    for resource, spec in _policies(bundle):
        version = text(spec, "driver", "version")
        branch = version.partition(".")[0]
        if branch in _ENDED_BRANCHES:
            yield Hit(
                resource,
                ("spec", "driver", "version"),
                actual=f"driver {version}; branch {branch} has ended",
                expected="a kept branch such as 580, or the operator's own default",
                fix="delete repository, image and version of `driver` to take the default",
            )


@rule(
    "gpu.default-runtime",
    Status.WARN,
    "deprecated and ignored: the operator detects the container runtime",
    errata=("E30",),
)
def default_runtime(bundle: Bundle) -> Iterator[Hit]:
    for resource, spec in _policies(bundle):
        runtime = at(spec, "operator", "defaultRuntime")
        if runtime is not None:
            yield Hit(
                resource,
                ("spec", "operator", "defaultRuntime"),
                actual=f"operator.defaultRuntime: {runtime}",
                expected="no defaultRuntime",
                fix="write `operator: {}`",
                key=True,
            )


_CONFIG_MAPS: tuple[tuple[Path, str], ...] = (
    (("dcgmExporter", "config", "name"), "key dcgm-metrics.csv"),
    (("devicePlugin", "config", "name"), "one key per profile, and `default` naming one"),
    (("migManager", "config", "name"), "key config.yaml"),
    (("migManager", "gpuClientsConfig", "name"), "key clients.yaml"),
    (("driver", "kernelModuleConfig", "name"), "one key per module"),
    (("driver", "licensingConfig", "configMapName"), "key gridd.conf"),
    (("driver", "repoConfig", "configMapName"), "the repository files"),
    (("driver", "certConfig", "name"), "the certificates"),
)
_SHIPPED = {"default-mig-parted-config", "default-gpu-clients"}


@rule(
    "gpu.configmap-missing",
    Status.WARN,
    "the pods wait for a volume that is not there and stay in ContainerCreating",
    errata=("E31",),
)
def configmap_missing(bundle: Bundle) -> Iterator[Hit]:
    present = {resource.name for resource in of_kind(bundle, "ConfigMap")} | _SHIPPED
    for resource, spec in _policies(bundle):
        for path, content in _CONFIG_MAPS:
            name = text(spec, *path)
            if name and name not in present:
                yield Hit(
                    resource,
                    ("spec", *path),
                    actual=f"ConfigMap `{name}` is named and not in these files",
                    expected=f"ConfigMap `{name}` with {content}",
                    fix=f"add the ConfigMap, or drop {'.'.join(map(str, path[:-1]))} to use the "
                    "default",
                )


# --- GPUDirect --------------------------------------------------------------------------------


def _wants_gpudirect(bundle: Bundle) -> str | None:
    """The pod of the bundle that has GPUs and an RDMA device."""
    carrying = rdma_resources(bundle)
    for pod in pods(bundle):
        if pod.gpus() and any(bare(name) in carrying for name in pod.asked()):
            return str(pod.resource.subject)
    return None


@rule(
    "gpu.gpudirect-impossible",
    Status.FAIL,
    "GPUDirect RDMA needs DMA-BUF (open modules) or nvidia-peermem (driver.rdma.enabled); with "
    "neither every byte goes through host memory",
    errata=("E59", "E60"),
)
def gpudirect_impossible(bundle: Bundle) -> Iterator[Hit]:
    asked = _wants_gpudirect(bundle)
    for resource, spec in _policies(bundle):
        closed = text(spec, "driver", "kernelModuleType") == "proprietary"
        peermem = at(spec, "driver", "rdma", "enabled") is True
        if asked and closed and not peermem:
            yield Hit(
                resource,
                ("spec", "driver", "kernelModuleType"),
                actual=f"proprietary modules, no driver.rdma.enabled; {asked} has GPUs and RDMA",
                expected="kernelModuleType: open, or driver.rdma.enabled: true",
                fix="set kernelModuleType: open (DMA-BUF, no peermem needed)",
            )


@rule(
    "gpu.gds-proprietary",
    Status.FAIL,
    "GPUDirect Storage 2.17.5 and newer is built for the open kernel modules only",
    errata=("E74",),
)
def gds_proprietary(bundle: Bundle) -> Iterator[Hit]:
    for resource, spec in _policies(bundle):
        closed = text(spec, "driver", "kernelModuleType") == "proprietary"
        if closed and at(spec, "gds", "enabled") is True:
            yield Hit(
                resource,
                ("spec", "gds", "enabled"),
                actual="gds.enabled: true with kernelModuleType: proprietary",
                expected="kernelModuleType: open",
                fix="set driver.kernelModuleType: open",
            )


@rule(
    "gpu.host-mofed",
    Status.WARN,
    "useHostMofed tells the GPU driver to build against RDMA headers of the host, which a "
    "containerised DOCA-OFED does not put there",
)
def host_mofed(bundle: Bundle) -> Iterator[Hit]:
    contained = any(at(r.data, "spec", "ofedDriver") for r in of_kind(bundle, "NicClusterPolicy"))
    for resource, spec in _policies(bundle):
        if contained and at(spec, "driver", "rdma", "useHostMofed") is True:
            yield Hit(
                resource,
                ("spec", "driver", "rdma", "useHostMofed"),
                actual="useHostMofed: true, while NicClusterPolicy runs ofedDriver in a container",
                expected="useHostMofed: false",
                fix="set it to false, or drop ofedDriver if the host really has the driver",
            )


@rule(
    "gpu.peermem-waits",
    Status.WARN,
    "the nvidia-peermem container waits for /run/mellanox/drivers/.driver-ready, which only the "
    "DOCA-OFED container writes: the driver pod never becomes ready",
)
def peermem_waits(bundle: Bundle) -> Iterator[Hit]:
    stacks = list(of_kind(bundle, "NicClusterPolicy"))
    contained = any(at(stack.data, "spec", "ofedDriver") for stack in stacks)
    for resource, spec in _policies(bundle):
        rdma = mapping(spec, "driver", "rdma")
        waits = rdma.get("enabled") is True and rdma.get("useHostMofed") is not True
        if stacks and not contained and waits:
            yield Hit(
                resource,
                ("spec", "driver", "rdma", "enabled"),
                actual=f"driver.rdma.enabled: true, while {stacks[0].subject} has no ofedDriver",
                expected="no peermem (DMA-BUF with the open modules), or a driver to wait for",
                fix="delete driver.rdma; with DOCA-OFED on the host set useHostMofed: true",
            )


@rule(
    "gpu.driver-version",
    Status.FAIL,
    "the image tag is made of this version, and no tag of that form exists",
)
def driver_version(bundle: Bundle) -> Iterator[Hit]:
    good = re.compile(r"^(?:\d{3}(?:\.\d+){0,2}(?:-[\w.]+)*|sha256:[0-9a-f]{64})$")
    for resource, spec in _policies(bundle):
        version = text(spec, "driver", "version")
        if version and not good.match(version):
            yield Hit(
                resource,
                ("spec", "driver", "version"),
                actual=f"driver.version: {version}",
                expected="a version such as 580.95.05 or sha256:<digest>",
                fix="write the plain version, or delete it to take the operator's default",
            )
