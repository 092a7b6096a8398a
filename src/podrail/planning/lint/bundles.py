"""The bundle as a whole: what holds for objects of any kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from podrail.model.bundle import Bundle, Resource
from podrail.model.finding import Status
from podrail.model.reach import mapping, text
from podrail.planning.lint.registry import Hit, rule

_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@rule(
    "bundle.same-object",
    Status.FAIL,
    "the cluster holds one object of a kind, namespace and name: the one applied later replaces "
    "the other without a message",
)
def same_object(bundle: Bundle) -> Iterator[Hit]:
    first: dict[tuple[str, ...], Resource] = {}
    for resource in bundle.resources:
        if not text(resource.data, "metadata", "name"):
            continue  # `generateName`, or an object that lost its indentation
        other = first.setdefault(_identity(resource), resource)
        if other is not resource:
            same = _said(other) == _said(resource)
            yield Hit(
                resource,
                ("metadata", "name"),
                actual=f"{resource.subject} stands at {other.where('metadata', 'name')} already, "
                + ("word for word" if same else "and says something else there"),
                expected="each object once",
                fix="delete one of the two" if same else "keep one of the two, or rename this one",
                evidence=(f"{other.subject} at {other.where('metadata', 'name')}",),
                status=Status.WARN if same else None,
            )


def _identity(resource: Resource) -> tuple[str, ...]:
    version = text(resource.data, "apiVersion")
    return version, resource.kind, resource.namespace or "", resource.name


def _said(resource: Resource) -> dict[str, Any]:
    """What its author wrote: without `status` and what the API server adds to `metadata`."""
    notes = mapping(resource.data, "metadata", "annotations")
    said = {k: v for k, v in resource.data.items() if k not in ("metadata", "status")}
    said["labels"] = mapping(resource.data, "metadata", "labels")
    said["annotations"] = {k: v for k, v in notes.items() if k != _APPLIED}
    return said
