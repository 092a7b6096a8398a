"""A bundle is everything that was handed over with `-f`: objects with the place of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from podrail.model import kinds
from podrail.model.document import Document, Path, parse
from podrail.model.finding import LINT, Finding, Status, Subject, Where
from podrail.model.wire import Object, Place, validate

M = TypeVar("M", bound=Object)


@dataclass(frozen=True, slots=True)
class Resource:
    """One object of a bundle; `model` is None for a kind podrail does not know or cannot read."""

    document: Document
    base: Path
    data: Any
    kind: str
    name: str
    namespace: str | None
    model: Object | None
    refused: str | None = None
    """What the API server would refuse it for; keys it merely drops do not count."""

    @property
    def known(self) -> bool:
        """Whether podrail has a model of its kind, read or not."""
        return kinds.model_of(str(self.data.get("apiVersion", "")), self.kind) is not None

    @property
    def subject(self) -> Subject:
        return Subject(self.kind, f"{self.namespace}/{self.name}" if self.namespace else self.name)

    def where(self, *path: str | int, key: bool = False) -> Where:
        """The place of a field of this object."""
        return self.document.where((*self.base, *path), key=key)


@dataclass(frozen=True, slots=True)
class Typed(Generic[M]):
    """A resource together with its model."""

    resource: Resource
    model: M


@dataclass(frozen=True, slots=True)
class Bundle:
    """Objects in the order given, with what was wrong in reading them."""

    resources: tuple[Resource, ...]
    findings: tuple[Finding, ...]
    resource_prefix: str | None = None
    """The device plugin's prefix, for bundles that do not tell it themselves."""
    memo: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)
    """What has been worked out of this bundle already; nothing in it changes any more."""

    def of(self, kind: type[M]) -> Iterator[Typed[M]]:
        """Every object of a kind that could be read."""
        for resource in self.resources:
            if isinstance(resource.model, kind):
                yield Typed(resource, resource.model)


def read(files: Iterable[tuple[str, str]], resource_prefix: str | None = None) -> Bundle:
    """Files as (name, text) → the objects in them."""
    resources: list[Resource] = []
    findings: list[Finding] = []
    for name, text in files:
        documents, wrong = parse(text, name)
        findings.extend(wrong)
        for document in documents:
            for base, data in _objects(document.data, ()):
                resource, faults = _resource(document, base, data)
                resources.append(resource)
                findings.extend(faults)
    return Bundle(tuple(resources), tuple(findings), resource_prefix)


def _objects(data: Any, base: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The objects of a document: itself, the items of a List, the definitions of a playbook."""
    if isinstance(data, list):
        for at, item in enumerate(data):
            yield from _objects(item, (*base, at))
    elif not isinstance(data, dict):
        return
    elif str(data.get("kind", "")).endswith("List") and isinstance(data.get("items"), list):
        yield from _objects(data["items"], (*base, "items"))
    elif "kind" in data or "apiVersion" in data:
        yield base, data
    else:
        yield from _in_playbook(data, base)


def _in_playbook(data: dict[str, Any], base: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Ansible: `tasks[].kubernetes.core.k8s.definition`, in plays, blocks and roles alike."""
    for key in ("tasks", "pre_tasks", "post_tasks", "block", "kubernetes.core.k8s", "k8s"):
        if isinstance(data.get(key), list | dict):
            yield from _objects(data[key], (*base, key))
    if isinstance(data.get("definition"), list | dict):
        yield from _objects(data["definition"], (*base, "definition"))


def _lost_indentation(
    document: Document, base: Path, data: dict[str, Any], subject: Subject
) -> Finding | None:
    """`metadata:` empty and its keys beside it: copied from a page that lost its spaces."""
    empty = next((key for key in ("metadata", "spec") if data.get(key, 0) is None), None)
    beside = sorted(set(data) - {"apiVersion", "kind", "metadata", "spec", "status", "data"})
    if empty is None or not beside:
        return None
    return Finding(
        id="yaml.lost-indentation",
        layer=LINT,
        subject=subject,
        status=Status.FAIL,
        actual=f"`{empty}` is empty and `{'`, `'.join(beside[:4])}` stand beside it",
        expected="the keys of `metadata` and `spec` indented below them",
        why="without indentation every key stands at the top level and the object says nothing",
        fix="indent the keys again",
        where=document.where((*base, empty), key=True),
    )


def _resource(
    document: Document, base: Path, data: dict[str, Any]
) -> tuple[Resource, list[Finding]]:
    kind, version = str(data.get("kind", "")), str(data.get("apiVersion", ""))
    raw = data.get("metadata")
    metadata: dict[str, Any] = raw if isinstance(raw, dict) else {}
    name = str(metadata.get("name") or metadata.get("generateName") or "(unnamed)")
    namespace = metadata.get("namespace")
    namespace = namespace if isinstance(namespace, str) else None
    subject = Subject(kind or "object", f"{namespace}/{name}" if namespace else name)
    known = kinds.model_of(version, kind)
    model: Object | None = None
    findings: list[Finding] = []
    if known is not None and (lost := _lost_indentation(document, base, data, subject)):
        findings = [lost]
    elif known is not None:
        model, findings = validate(known, data, Place(document, base, subject))
    refused = next(_refusals(findings), None)
    return Resource(document, base, data, kind, name, namespace, model, refused), findings


def _refusals(findings: Iterable[Finding]) -> Iterator[str]:
    """What the API server turns the object away for; a key it does not know it only drops."""
    for finding in findings:
        if finding.where and finding.id not in ("schema.unknown-key", "schema.misplaced-key"):
            yield f"{finding.where.path}: {finding.actual}"
