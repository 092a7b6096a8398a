"""Every pod a manifest would make, whatever kind of object makes it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from podrail.model.bundle import Resource
from podrail.model.document import Path
from podrail.model.finding import Where
from podrail.model.kinds.pod import Container, PodSpec
from podrail.model.wire import Place, validate

NETWORKS = "k8s.v1.cni.cncf.io/networks"

_NAME = re.compile(r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
_INTERFACE = re.compile(r"^[^/\s]{1,15}$")


@dataclass(frozen=True, slots=True)
class NetworkRef:
    """One network a pod asks for; no namespace means the pod's own."""

    namespace: str | None
    name: str
    interface: str | None = None


@dataclass(frozen=True, slots=True)
class Networks:
    """The networks annotation as Multus reads it, and why it could not be read in full."""

    refs: tuple[NetworkRef, ...]
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod, or the template of one, inside an object."""

    resource: Resource
    path: Path
    """Of what holds `metadata` and `spec`; empty for a Pod."""
    annotations: dict[str, str]
    spec: PodSpec
    namespace: str | None
    name: str
    replicas: int | None

    @property
    def node_selector(self) -> dict[str, str]:
        return self.spec.node_selector or {}

    def at(self, *path: str | int) -> Path:
        """A path below the pod as a path inside the object."""
        return (*self.path, *path)

    def where(self, *path: str | int, key: bool = False) -> Where:
        """The place in the file of something below the pod."""
        return self.resource.where(*self.at(*path), key=key)

    @property
    def networks_path(self) -> Path:
        return self.at("metadata", "annotations", NETWORKS)

    def networks(self) -> Networks:
        """The networks asked for beside the cluster's own."""
        return parse_networks(self.annotations.get(NETWORKS, ""))

    def containers(self) -> Iterator[tuple[Path, Container]]:
        """The containers that run together, each with its path inside the object."""
        for index, container in enumerate(self.spec.containers):
            yield self.at("spec", "containers", index), container

    def all_containers(self) -> Iterator[tuple[Path, Container]]:
        """Init containers too."""
        for index, container in enumerate(self.spec.init_containers or ()):
            yield self.at("spec", "initContainers", index), container
        yield from self.containers()

    def requested(self, resource_name: str) -> int:
        """How many of an extended resource the containers' limits add up to."""
        return sum(count for name, count in self.limits().items() if name == resource_name)

    def limits(self) -> dict[str, int]:
        """Every countable resource in the containers' limits, added up."""
        total: dict[str, int] = {}
        for _, container in self.containers():
            limits = container.resources.limits if container.resources else None
            for name, amount in (limits or {}).items():
                if (count := whole(amount)) is not None:
                    total[name] = total.get(name, 0) + count
        return total


def whole(amount: int | float | str) -> int | None:
    """A quantity that counts devices; None for `500m` or `8Gi`."""
    if isinstance(amount, str):
        return int(amount) if re.fullmatch(r"\d+", amount.strip()) else None
    return int(amount) if amount == int(amount) else None


# --- where pods are -----------------------------------------------------------------------------


def pod_templates(resource: Resource) -> Iterator[PodView]:
    """The pods of an object: itself, a workload's template, or those of any kind that holds some.

    Kubeflow's jobs, MPIJob, LeaderWorkerSet and their like differ only in where they put
    `{metadata, spec: {containers}}`, so that shape is looked for instead of their names.
    """
    if not isinstance(resource.data, dict):
        return
    if resource.kind == "Pod":
        yield from _view(resource, (), resource.data, None)
        return
    yield from _walk(resource, (), resource.data)


def _walk(resource: Resource, path: Path, data: Any) -> Iterator[PodView]:
    if isinstance(data, list):
        for index, item in enumerate(data):
            yield from _walk(resource, (*path, index), item)
    elif isinstance(data, dict):
        for key, value in data.items():
            below = (*path, key)
            if _is_template(value):
                yield from _view(resource, below, value, data)
            elif key != "status":
                yield from _walk(resource, below, value)


def _is_template(data: Any) -> bool:
    spec = data.get("spec") if isinstance(data, dict) else None
    return isinstance(spec, dict) and isinstance(spec.get("containers"), list)


def _view(
    resource: Resource, path: Path, data: dict[str, Any], holder: dict[str, Any] | None
) -> Iterator[PodView]:
    place = Place(resource.document, (*resource.base, *path, "spec"), resource.subject)
    spec, _ = validate(PodSpec, _named(data.get("spec")), place)
    if spec is None:
        return
    raw = data.get("metadata")
    metadata: dict[str, Any] = raw if isinstance(raw, dict) else {}
    yield PodView(
        resource, path, _texts(metadata.get("annotations")), spec,
        metadata.get("namespace") or resource.namespace, resource.name, _replicas(holder),
    )  # fmt: skip


def _named(spec: Any) -> Any:
    """A container without a name would be cut out and shift the paths of those after it."""
    if not isinstance(spec, dict) or not isinstance(spec.get("containers"), list):
        return spec
    named = [
        {"name": f"(container {at})", **item} if isinstance(item, dict) else item
        for at, item in enumerate(spec["containers"])
    ]
    return {**spec, "containers": named}


def _replicas(holder: dict[str, Any] | None) -> int | None:
    """`replicas` of a Deployment or a Kubeflow role, `parallelism` of a Job."""
    if holder is None:
        return 1
    for key in ("replicas", "parallelism"):
        count = holder.get(key)
        if isinstance(count, int) and not isinstance(count, bool):
            return count
    return None


def _texts(annotations: Any) -> dict[str, str]:
    if not isinstance(annotations, dict):
        return {}
    return {key: value for key, value in annotations.items() if isinstance(value, str)}


# --- the networks annotation --------------------------------------------------------------------


def parse_networks(text: str) -> Networks:
    """The annotation as Multus reads it: JSON if it holds any of `[{"`, else a comma list."""
    if not text.strip():
        return Networks(())
    return _json_networks(text) if any(c in text for c in '[{"') else _listed_networks(text)


def _json_networks(text: str) -> Networks:
    try:
        data = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as wrong:
        return Networks((), f"it looks like JSON but is not: {wrong}")
    if not isinstance(data, list):
        return Networks((), "it is JSON but no list: write [{…}]")
    refs, problem = list[NetworkRef](), None
    for index, item in enumerate(data):
        ref = _json_ref(item)
        if isinstance(ref, str):
            problem = problem or f"entry {index}: {ref}"
        else:
            refs.append(ref)
    return Networks(tuple(refs), problem)


def _json_ref(item: Any) -> NetworkRef | str:
    if not isinstance(item, dict):
        return f"{json.dumps(item)[:40]} is no object"
    name, namespace = item.get("name"), item.get("namespace")
    if not isinstance(name, str) or not name:
        return "it has no `name`"
    interface = item.get("interface")
    return _checked(
        namespace if isinstance(namespace, str) and namespace else None,
        name,
        interface if isinstance(interface, str) and interface else None,
    )


def _listed_networks(text: str) -> Networks:
    refs, problem = list[NetworkRef](), None
    for item in text.split(","):
        ref = _listed_ref(item.strip())
        if isinstance(ref, str):
            problem = problem or ref
        else:
            refs.append(ref)
    return Networks(tuple(refs), problem)


def _listed_ref(item: str) -> NetworkRef | str:
    if not item:
        return "an empty entry between commas"
    if item.count("/") > 1 or item.count("@") > 1:
        return f"`{item}` has more than one / or @: write namespace/name@interface"
    rest, at, interface = item.partition("@")
    namespace, slash, name = rest.rpartition("/")
    if (slash and not namespace) or (at and not interface):
        return f"`{item}` names nothing before / or after @: write namespace/name@interface"
    return _checked(namespace or None, name, interface or None)


def _checked(namespace: str | None, name: str, interface: str | None) -> NetworkRef | str:
    for part in (namespace, name):
        if part is not None and not _NAME.match(part):
            return f"`{part}` is no valid name: lower-case letters, digits and dashes"
    if interface is not None and not _INTERFACE.match(interface):
        return f"`{interface}` is no interface name: at most 15 characters, no / or space"
    return NetworkRef(namespace, name, interface)
