"""The field's own kinds, in upstream's exact wire form, and podrail's; by API group and kind."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from podrail.model.wire import Object


def _groups() -> Iterator[tuple[str, tuple[type[Object], ...]]]:
    from podrail.model.kinds import (
        gpu,
        machine,
        mellanox,
        nad,
        nvipam,
        pod,
        podrail,
        sriov,
        storage_kinds,
    )

    yield "", (*pod.CORE, *storage_kinds.CORE)
    yield "apps", pod.APPS
    yield "batch", pod.BATCH
    yield "sriovnetwork.openshift.io", sriov.KINDS
    yield "k8s.cni.cncf.io", nad.KINDS
    yield "mellanox.com", mellanox.KINDS
    yield "nv-ipam.nvidia.com", nvipam.KINDS
    yield "nvidia.com", gpu.KINDS
    yield "machineconfiguration.openshift.io", machine.KINDS
    yield "storage.k8s.io", (storage_kinds.StorageClass,)
    yield "security.openshift.io", (storage_kinds.SecurityContextConstraints,)
    yield "rbac.authorization.k8s.io", (storage_kinds.RoleBinding,)
    yield "podrail.io", podrail.KINDS


@cache
def registry() -> dict[tuple[str, str], type[Object]]:
    """(group, kind) → model; the core group is the empty string."""
    return {(group, model.__name__): model for group, models in _groups() for model in models}


def model_of(api_version: str, kind: str) -> type[Object] | None:
    """The model of an object, or None for a kind podrail does not know."""
    group = api_version.rpartition("/")[0]
    return registry().get((group, kind))
