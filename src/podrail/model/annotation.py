"""`k8s.v1.cni.cncf.io/networks`, read as Multus reads it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

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
