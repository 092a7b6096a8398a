"""What pods ask of the node: amounts, names nothing advertises, more than a node can have."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from podrail.model.bundle import Bundle
from podrail.model.finding import Status
from podrail.model.reach import mapping, text
from podrail.planning.lint.homes import prefix_of
from podrail.planning.lint.plugins import pools, shared_pools
from podrail.planning.lint.podspec import Container, Pod, bare, count_of, is_gpu, joined, pods
from podrail.planning.lint.registry import Hit, rule
from podrail.planning.lint.view import (
    Policy,
    attachments,
    crowd_of,
    policies,
    policies_for,
    resource_vfs_per_node,
)


def _containers(bundle: Bundle) -> Iterator[tuple[Pod, Container]]:
    for pod in pods(bundle):
        for container in pod.containers():
            yield pod, container


@rule(
    "pod.request-without-limit",
    Status.FAIL,
    "extended resources cannot be overcommitted: the API server wants limits, equal to requests",
)
def request_without_limit(bundle: Bundle) -> Iterator[Hit]:
    for pod, container in _containers(bundle):
        limits = container.amounts("limits")
        for name, amount in container.amounts("requests").items():
            if name not in limits or count_of(limits[name]) != count_of(amount):
                found = f"limits: {limits[name]}" if name in limits else "no limit"
                yield pod.hit(
                    (*container.path, "resources", "requests", name),
                    actual=f"requests: {amount} and {found} for {name}",
                    expected="the same number in both",
                    fix=f'set {name}: "{amount}" under limits too',
                    key=True,
                )


@rule(
    "pod.quantity",
    Status.FAIL,
    "devices are counted: the API server refuses a part of one",
)
def quantity(bundle: Bundle) -> Iterator[Hit]:
    for pod, container in _containers(bundle):
        for side in ("limits", "requests"):
            for name, amount in container.amounts(side).items():
                if count_of(amount) is None:
                    yield pod.hit(
                        (*container.path, "resources", side, name),
                        actual=f"{name}: {amount}",
                        expected="a whole number",
                        fix=f'write {name}: "1"',
                    )


def advertised(bundle: Bundle) -> dict[str, str]:
    """Resources the bundle makes → the object that makes each."""
    found: dict[str, str] = {}
    for policy in policies(bundle):
        prefix = prefix_of(bundle, policy.resource)
        if prefix is not None:
            name = f"{prefix}/{policy.model.spec.resource_name}"
            found.setdefault(name, str(policy.resource.subject))
    for pool in pools(bundle):
        found.setdefault(pool.full_name, str(pool.config.resource.subject))
    for shared in shared_pools(bundle):
        found.setdefault(shared.full_name, str(shared.config.resource.subject))
    return found


@rule(
    "pod.unknown-resource",
    Status.WARN,
    "the scheduler finds no node that has the resource, and the pod stays Pending",
    errata=("E40",),
)
def unknown_resource(bundle: Bundle) -> Iterator[Hit]:
    made = advertised(bundle)
    taken = {a.full_resource for a in attachments(bundle)}
    domains = {name.partition("/")[0] for name in made}
    names = {bare(name) for name in made}  # pod.resource-prefix speaks where only that is wrong
    # A network defined elsewhere may bring its resource from there.
    settled = (join.pod for join in joined(bundle) if join.complete)
    for pod, container in ((p, c) for p in settled for c in p.containers()):
        for name in container.asked():
            known = name in made or name in taken or is_gpu(name)
            if known or name.partition("/")[0] not in domains or bare(name) in names:
                continue
            # What is called otherwise altogether may be made by files that are not here
            near = difflib.get_close_matches(bare(name), names, n=1)
            if near:
                better = f"{name.partition('/')[0]}/{near[0]}"
                yield pod.hit(
                    container.at(name),
                    actual=f"{name}, which no policy or plugin of these files makes",
                    expected=better,
                    fix=f"write {better}, or add the policy that makes {bare(name)}",
                    key=True,
                )


@rule(
    "pod.more-than-a-node",
    Status.FAIL,
    "a pod runs on one node, and no node that these policies select has so many",
)
def more_than_a_node(bundle: Bundle) -> Iterator[Hit]:
    made = advertised(bundle)
    for pod in pods(bundle):
        for name, count in pod.asked().items():
            most = resource_vfs_per_node(bundle, bare(name)) if name in made else None
            if most is not None and count > most:
                yield pod.hit(
                    pod.first_asking(name).at(name),
                    actual=f"{count} × {name} in one pod; {made[name]} gives a node {most}",
                    expected=f"at most {most}",
                    fix="ask for less, raise numVfs, or name more PFs in the policy",
                )


@rule(
    "pod.node-without-vfs",
    Status.FAIL,
    "the pod may run only where no policy makes the VFs it asks for, and stays Pending",
)
def node_without_vfs(bundle: Bundle) -> Iterator[Hit]:
    made = advertised(bundle)
    for pod in pods(bundle):
        listed = mapping(pod.spec, "nodeSelector").items()
        wanted = {key: value for key, value in listed if isinstance(value, str)}
        for name in pod.asked() if wanted else ():
            policy = _never_met(bundle, bare(name), wanted) if name in made else None
            if policy is None:
                continue
            selector = policy.model.spec.node_selector
            label = _clash(wanted, selector) or ""
            yield pod.hit(
                (*pod.path, "spec", "nodeSelector", label),
                actual=f"nodeSelector {label}: {wanted[label]}, while "
                f"{policy.resource.subject} selects {label}: {selector[label]}",
                expected=f'{label}: "{selector[label]}"',
                fix="use one of the policy's labels in the pod",
                key=True,
            )


def _never_met(bundle: Bundle, resource_name: str, wanted: dict[str, str]) -> Policy | None:
    """The first policy of a resource, when no node of the pod's can match any of them."""
    feeding = policies_for(bundle, resource_name)
    near = crowd_of(bundle, resource_name).beside(wanted)
    if not feeding or any(_clash(wanted, p.model.spec.node_selector) is None for p in near):
        return None
    return feeding[0]


def _clash(wanted: dict[str, str], selector: dict[str, str]) -> str | None:
    """A label that both ask for, with different values."""
    return next((k for k, v in wanted.items() if k in selector and selector[k] != v), None)


# --- placeholders -----------------------------------------------------------------------------

_PLACEHOLDER_IMAGE = re.compile(
    r"[{}<>]|^REGISTRY/|^(?:your|my)-(?:image|registry|repo)|(?:^|\.)example\.(?:com|org)/|"
    r"CHANGE_?ME|^image(?::|$)",
    re.IGNORECASE,
)
_PLACEHOLDER_RESOURCE = re.compile(r"^example\.(?:com|org)/|[{}<>]|^(?:vendor|your)[.-]")


@rule(
    "pod.placeholder",
    Status.WARN,
    "a placeholder was left in: the image cannot be pulled, the resource exists nowhere",
    errata=("E35", "E120"),
)
def placeholder(bundle: Bundle) -> Iterator[Hit]:
    for pod, container in _containers(bundle):
        image = text(container.data, "image")
        if _PLACEHOLDER_IMAGE.search(image):
            yield pod.hit(
                (*container.path, "image"),
                actual=f"image {image}",
                expected="an image that can be pulled",
                fix="write the real image, with its tag",
            )
        for name in container.asked():
            if _PLACEHOLDER_RESOURCE.search(name):
                yield pod.hit(
                    container.at(name),
                    actual=f"resource {name}",
                    expected="the policy's resource, such as openshift.io/<resourceName>",
                    fix="take the name from the network's annotation k8s.v1.cni.cncf.io/"
                    "resourceName",
                    key=True,
                )
