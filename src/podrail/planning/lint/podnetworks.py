"""The networks a pod lists: names that exist nowhere, or in another namespace."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from itertools import chain, islice

from podrail.model.annotation import NetworkRef
from podrail.model.bundle import Bundle
from podrail.model.finding import Status
from podrail.planning.lint.memo import grouped
from podrail.planning.lint.podspec import Pod, joined, pods
from podrail.planning.lint.registry import Hit, rule
from podrail.planning.lint.view import Attachment, attachments, attachments_named

_MOST = 100
_ALIKE = 0.75
"""From here on two names are taken for one: `net1` and `bond-net1` (0.62) are two networks."""


@rule(
    "pod.network-namespace",
    Status.FAIL,
    "a network without a namespace is looked for in the pod's own: “cannot find a "
    "network-attachment-definition”",
)
def network_namespace(bundle: Bundle) -> Iterator[Hit]:
    for pod, ref in _unknown(bundle):
        elsewhere = attachments_named(bundle, ref.name)
        if elsewhere:
            home = elsewhere[0].namespace
            yield pod.hit(
                pod.networks_path,
                actual=f"`{_shown(ref)}` means {ref.namespace or pod.namespace}/{ref.name}, and "
                f"{elsewhere[0].resource.subject} makes it in {home}",
                expected=f"`{home}/{ref.name}`",
                fix=f"write {home}/{ref.name}, or set networkNamespace: "
                f"{ref.namespace or pod.namespace} on the network",
            )


@rule(
    "pod.unknown-network",
    Status.WARN,
    "a network that does not exist keeps the pod in ContainerCreating",
)
def unknown_network(bundle: Bundle) -> Iterator[Hit]:
    for pod, ref in _unknown(bundle):
        # It may exist in the cluster: only a network that no pod lists, and that is called almost
        # the same or serves what the pod asks for, makes it likelier a slip.
        near = None if attachments_named(bundle, ref.name) else _meant(bundle, pod, ref)
        if near is not None:
            yield pod.hit(
                pod.networks_path,
                actual=f"`{_shown(ref)}` is not in these files, and no pod lists `{near}`",
                expected=f"`{near}`, or the file that defines {ref.name}",
                fix=f"write {near}",
            )


def _meant(bundle: Bundle, pod: Pod, ref: NetworkRef) -> str | None:
    """The idle network the pod asks a VF of, or whose name is a slip away."""
    idle = _idle_in(bundle, ref.namespace or pod.namespace)
    asked = pod.asked()
    served = (a.name for a in idle if a.full_resource in asked)
    alike = difflib.get_close_matches(ref.name, [a.name for a in idle], n=1, cutoff=_ALIKE)
    return next(iter(alike), None) or next(served, None)


def _unknown(bundle: Bundle) -> Iterator[tuple[Pod, NetworkRef]]:
    for join in joined(bundle):
        for ref, attachment in join.pairs:
            if attachment is None:
                yield join.pod, ref


@grouped
def _idle(bundle: Bundle) -> Iterator[tuple[str | None, Attachment]]:
    """Namespace → the networks in it that no pod lists."""
    listed = {ref.name for pod in pods(bundle) for ref in pod.networks().refs}
    return ((a.namespace, a) for a in attachments(bundle) if a.name not in listed)


def _idle_in(bundle: Bundle, namespace: str | None) -> list[Attachment]:
    """The first of those a pod of that namespace could name: comparing names takes long."""
    known = _idle(bundle)
    places = known if namespace is None else (namespace, None)
    found = chain.from_iterable(known.get(place, ()) for place in places)
    return list(islice(found, _MOST))


def _shown(ref: NetworkRef) -> str:
    return f"{ref.namespace}/{ref.name}" if ref.namespace else ref.name
