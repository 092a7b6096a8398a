"""Every pod a bundle would make, as written, with what it asks of the node.

Read from the plain data rather than from the model: a pod whose `containers` is misspelt has no
model, and still lists a network without asking for a VF.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from podrail.model.annotation import NETWORKS, NetworkRef, Networks, parse_networks
from podrail.model.bundle import Bundle, Resource
from podrail.model.document import Path
from podrail.model.reach import at, items, mapping, text, texts
from podrail.planning.lint.memo import once
from podrail.planning.lint.registry import Hit
from podrail.planning.lint.view import Attachment, find_attachment

_GPU = re.compile(r"^(?:nvidia\.com/(?:gpu|mig-.+|gpu\..+|pgpu|.*GPU.*)|amd\.com/gpu)$")
_WHOLE = re.compile(r"^(?P<digits>\d+)(?P<unit>m|k|Ki|M|Mi|G|Gi)?$")
_SCALE = {None: 1000, "m": 1, "k": 10**6, "Ki": 1024000, "M": 10**9, "Mi": 1048576000}


@dataclass(frozen=True, slots=True)
class Container:
    """One container of a pod."""

    path: Path
    data: dict[str, Any]

    @property
    def name(self) -> str:
        return text(self.data, "name") or "(unnamed)"

    def amounts(self, side: str) -> dict[str, Any]:
        """Extended resources under `limits` or `requests`."""
        listed = mapping(self.data, "resources", side)
        return {name: amount for name, amount in listed.items() if is_extended(name)}

    def asked(self) -> dict[str, Any]:
        """Extended resources of both sides; a limit stands for its request."""
        return {**self.amounts("requests"), **self.amounts("limits")}

    def at(self, name: str) -> Path:
        """The place where a resource is asked for."""
        side = "limits" if name in self.amounts("limits") else "requests"
        return (*self.path, "resources", side, name)

    def capabilities(self) -> list[str]:
        added = texts(self.data, "securityContext", "capabilities", "add")
        return [name.upper().removeprefix("CAP_") for name in added]

    @property
    def privileged(self) -> bool:
        return at(self.data, "securityContext", "privileged") is True

    @property
    def locks_memory(self) -> bool:
        return self.privileged or bool({"IPC_LOCK", "ALL"} & set(self.capabilities()))


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod, or the template of one."""

    resource: Resource
    path: Path
    spec: dict[str, Any]
    annotations: dict[str, Any]
    namespace: str | None

    def containers(self) -> list[Container]:
        """The containers that run together."""
        spec: Path = (*self.path, "spec")
        # `container` is the slip of a hand that the schema reports; what it says is still meant
        key = "containers" if items(self.spec, "containers") else "container"
        listed = enumerate(items(self.spec, key))
        return [Container((*spec, key, n), c) for n, c in listed if isinstance(c, dict)]

    @property
    def networks_path(self) -> Path:
        return (*self.path, "metadata", "annotations", NETWORKS)

    def networks(self) -> Networks:
        value = self.annotations.get(NETWORKS)
        return parse_networks(value if isinstance(value, str) else "")

    def asked(self) -> Counter[str]:
        """How many of each extended resource the containers ask for together."""
        total: Counter[str] = Counter()
        for container in self.containers():
            for name, amount in container.asked().items():
                total[name] += count_of(amount) or 0
        return total

    def gpus(self) -> int:
        return sum(count for name, count in self.asked().items() if is_gpu(name))

    def first_asking(self, name: str) -> Container:
        """The first container that asks for a resource."""
        return next(c for c in self.containers() if name in c.asked())

    def hit(self, path: Path, *, actual: str, expected: str, fix: str, key: bool = False) -> Hit:
        return Hit(self.resource, path, actual, expected, fix, key=key)


@once
def pods(bundle: Bundle) -> Iterator[Pod]:
    """Every pod and every pod template."""
    for resource in bundle.resources:
        if resource.kind == "Pod" and isinstance(resource.data, dict):
            yield _pod(resource, (), resource.data)
        elif isinstance(resource.data, dict):
            yield from _templates(resource, (), resource.data)


def _templates(resource: Resource, path: Path, data: Any) -> Iterator[Pod]:
    """Whatever looks like a pod: operators of jobs differ only in where they put it."""
    below = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in below:
        if isinstance(value, dict) and items(value, "spec", "containers"):
            yield _pod(resource, (*path, key), value)
        elif isinstance(value, dict | list) and key != "status":
            yield from _templates(resource, (*path, key), value)


def _pod(resource: Resource, path: Path, data: dict[str, Any]) -> Pod:
    namespace = text(data, "metadata", "namespace") or resource.namespace
    annotations = mapping(data, "metadata", "annotations")
    return Pod(resource, path, mapping(data, "spec"), annotations, namespace)


# --- amounts ----------------------------------------------------------------------------------


def is_extended(name: str) -> bool:
    """Whether a resource is counted in whole devices and never overcommitted."""
    domain, slash, _ = name.partition("/")
    return bool(slash) and not (domain == "kubernetes.io" or domain.endswith(".kubernetes.io"))


def is_gpu(name: str) -> bool:
    """Whether a resource is a GPU or a part of one."""
    return _GPU.match(name) is not None


def count_of(amount: Any) -> int | None:
    """A quantity of devices; None when it is no whole number."""
    if isinstance(amount, bool):
        return None
    if isinstance(amount, float):
        return int(amount) if amount.is_integer() and amount >= 0 else None
    if isinstance(amount, int):
        return amount if amount >= 0 else None
    found = _WHOLE.match(str(amount).strip())
    if found is None or found["unit"] not in _SCALE:
        return None
    milli = int(found["digits"]) * _SCALE[found["unit"]]
    return milli // 1000 if milli % 1000 == 0 else None


# --- joins ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Joined:
    """A pod's networks, each with what the bundle knows of it."""

    pod: Pod
    pairs: tuple[tuple[NetworkRef, Attachment | None], ...]

    def counted(self) -> dict[str, tuple[int, Attachment]]:
        """Resource without prefix → how often its networks are listed, and one of them."""
        found: dict[str, tuple[int, Attachment]] = {}
        for _, attachment in self.pairs:
            if attachment is not None and attachment.resource_name:
                count, first = found.get(attachment.resource_name, (0, attachment))
                found[attachment.resource_name] = (count + 1, first)
        return found

    @property
    def complete(self) -> bool:
        """Whether the annotation could be read and every network listed is in the bundle."""
        known = all(attachment is not None for _, attachment in self.pairs)
        return known and self.pod.networks().problem is None


@once
def joined(bundle: Bundle) -> Iterator[Joined]:
    """Every pod with its networks looked up."""
    for pod in pods(bundle):
        pairs = (
            (ref, find_attachment(bundle, ref.namespace or pod.namespace, ref.name))
            for ref in pod.networks().refs
        )
        yield Joined(pod, tuple(pairs))


def bare(name: str) -> str:
    """`openshift.io/mlx_test` → `mlx_test`."""
    return name.rpartition("/")[2]


def asked_as(pod: Pod, resource_name: str) -> dict[str, int]:
    """The resources a pod asks for under that name, whatever their prefix."""
    return {name: n for name, n in pod.asked().items() if bare(name) == resource_name and n}
