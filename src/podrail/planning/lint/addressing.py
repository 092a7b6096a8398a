"""IPAM: addresses that cannot be, ranges that swallow others, routes that take a pod's traffic."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

from podrail.model.bundle import Bundle
from podrail.model.document import Path
from podrail.model.finding import Status
from podrail.model.kinds.configs import JsonProblem, embedded_json
from podrail.planning.lint.homes import is_openshift
from podrail.planning.lint.ranges import (
    Range,
    Source,
    address,
    all_ranges,
    holders,
    ipams,
    network,
    range_keys,
    sources,
    span,
)
from podrail.planning.lint.registry import Hit, rule
from podrail.planning.lint.view import attachments

SHORTEST = 16
"""A shorter IPv4 prefix holds more addresses than any cluster has pods."""

_KEYS: dict[str, frozenset[str]] = {
    "whereabouts": frozenset({
        "range", "range_start", "range_end", "exclude", "ipRanges", "gateway", "routes", "dns",
        "network_name", "enable_overlapping_ranges", "node_slice_size", "kubernetes", "datastore",
        "leader_lease_duration", "leader_renew_deadline", "leader_retry_period", "addresses",
        "reconciler_cron_expression", "log_file", "log_level", "configuration_path",
        "sleep_for_race", "overlapping_ranges", "enable_l3",
    }),
    "host-local": frozenset({
        "subnet", "rangeStart", "rangeEnd", "gateway", "ranges", "routes", "dataDir", "resolvConf",
    }),
    "nv-ipam": frozenset({
        "poolName", "poolType", "daemonSocket", "daemonCallTimeoutSeconds", "confDir", "logLevel",
        "logFile",
    }),
    "static": frozenset({"addresses", "routes", "dns"}),
    "dhcp": frozenset(),
}  # fmt: skip
_OTHER_PLUGINS = frozenset({"calico-ipam", "spiderpool", "kube-ovn", "ovn-k8s-cni-overlay"})
_ANYWHERE = {
    "100.64.0.0/16": "OVN-Kubernetes' join network",
    "100.88.0.0/16": "OVN-Kubernetes' transit network",
}
_OPENSHIFT = {"10.128.0.0/14": "pod network", "172.30.0.0/16": "service network"}
_VANILLA = {"10.96.0.0/12": "service network", "10.244.0.0/16": "pod network"}


@rule(
    "ipam.not-json",
    Status.FAIL,
    "the text is pasted into the CNI config; unless it is a JSON object no NAD can be made",
)
def not_json(bundle: Bundle) -> Iterator[Hit]:
    for attachment in attachments(bundle):
        if attachment.ipam_path is None:
            continue
        found = embedded_json(attachment.resource, attachment.ipam_path)
        if isinstance(found, JsonProblem):
            yield Hit(
                attachment.resource, attachment.ipam_path, found.actual, found.expected, found.fix,
                where=found.where,
            )  # fmt: skip
        elif not isinstance(found.data, dict):
            yield Hit(
                attachment.resource, attachment.ipam_path, f"`{found.data}`", "a JSON object",
                'write {"type": "whereabouts", "range": "192.168.100.0/24"}',
            )  # fmt: skip


@rule("ipam.type", Status.FAIL, "`type` names the program that hands addresses out; there is none")
def ipam_type(bundle: Bundle) -> Iterator[Hit]:
    for source in ipams(bundle):
        if source.type in _KEYS or source.type in _OTHER_PLUGINS:
            continue
        near = difflib.get_close_matches(source.type.lower(), _KEYS, n=1, cutoff=0.5)
        yield source.hit(
            ("type",), f"type `{source.type}`" if source.type else "no type",
            f"one of {', '.join(sorted(_KEYS))}",
            f'write "type": "{near[0] if near else "whereabouts"}"',
            # An installed plugin may have any name: only a near miss or none is surely wrong
            status=None if near or not source.type else Status.WARN,
        )  # fmt: skip


@rule("ipam.unknown-key", Status.WARN, "the plugin ignores a key it does not know")
def unknown_key(bundle: Bundle) -> Iterator[Hit]:
    for source in ipams(bundle):
        names = _KEYS.get(source.type)
        known = {name.lower() for name in names or ()} | {"type"}  # Go matches in any case
        for key in source.get() if names else ():
            if str(key).lower() not in known:
                near = difflib.get_close_matches(str(key), names or (), n=1)
                yield source.hit(
                    (key,), f"`{key}` for {source.type}",
                    near[0] if near else f"one of {', '.join(sorted(names or ()))}",
                    f"write `{near[0]}`" if near else f"delete `{key}`", key=True,
                )  # fmt: skip


@rule(
    "ipam.spaces",
    Status.WARN,
    "the operator removes every space from `ipam` before it renders the NAD, also inside quotes",
)
def spaces(bundle: Bundle) -> Iterator[Hit]:
    for source in ipams(bundle):
        if source.resource.kind not in ("SriovNetwork", "SriovIBNetwork", "OVSNetwork"):
            continue
        for path, text in _texts(source.get(), ()):
            if len(text.split()) > 1:
                yield source.hit(
                    path, f'"{text}" becomes "{"".join(text.split())}"', "text without spaces",
                    "take the spaces out",
                )  # fmt: skip


def _texts(data: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(data, str):
        yield path, data
    elif isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from _texts(value, (*path, key))


@rule("ipam.no-range", Status.FAIL, "the plugin has nothing to hand out and fails every pod")
def no_range(bundle: Bundle) -> Iterator[Hit]:
    for source in ipams(bundle):
        if source.type in ("whereabouts", "host-local") and not holders(source):
            key = range_keys(source)[0]
            yield source.hit(
                (key,), f"{source.type} without `{key}`", f"`{key}` with a subnet",
                f'add "{key}": "192.168.100.0/24"',
            )  # fmt: skip


@rule("ipam.bad-address", Status.FAIL, "it is no address, and the plugin fails every pod")
def bad_address(bundle: Bundle) -> Iterator[Hit]:
    for source in sources(bundle):
        for path, text, is_net in _written(source):
            readable = network(span(text)[0]) if is_net else address(text)
            if readable is None:
                bare = is_net and "/" not in text and address(text) is not None
                yield source.hit(
                    path, f"`{text}`",
                    "a subnet such as 192.168.100.0/24" if is_net else "an address",
                    f"add the prefix length: {text}/24" if bare else "correct the address",
                )  # fmt: skip


def _written(source: Source) -> Iterator[tuple[Path, str, bool]]:
    """Everything that must be an address, and whether it must be a subnet."""
    for inside in holders(source):
        key, start, end = range_keys(source)
        for name, is_net in ((key, True), (start, False), (end, False), ("gateway", False)):
            text = source.get(*inside, name) if name else None
            if isinstance(text, str) and text:
                yield (*inside, name), text, is_net
        yield from ((path, text, True) for path, text in source.texts(*inside, "exclude"))
    routes = source.get("routes")
    for at in range(len(routes) if isinstance(routes, list) else 0):
        if isinstance(dst := source.get("routes", at, "dst"), str):
            yield ("routes", at, "dst"), dst, True


@rule(
    "ipam.wide-range",
    Status.FAIL,
    "the pod would take a large part of the Internet and of the cluster's own networks for "
    "neighbours on this interface; for a prefix that holds 0.0.0.0 the kernel adds no route at all",
    errata=("E45",),
)
def wide_range(bundle: Bundle) -> Iterator[Hit]:
    for found in all_ranges(bundle):
        if _too_wide(found):
            yield found.hit(
                f"/{found.net.prefixlen} is {found.net}, {found.net.num_addresses} addresses",
                f"a prefix length of {SHORTEST} or more, /24 for most rails",
                f"write {_as_24(found)}",
            )  # fmt: skip


def _too_wide(found: Range) -> bool:
    return found.net.version == 4 and _mask(found) < SHORTEST


def _mask(found: Range) -> int:
    """The prefix length a pod sees: of a CIDRPool each node gets a subnet of its own."""
    of_node = found.source.get("perNodeNetworkPrefix")
    cut = found.source.type == "CIDRPool" and isinstance(of_node, int)
    return of_node if cut else found.net.prefixlen


def _as_24(found: Range) -> str:
    return str(ip_network(f"{found.first}/24", strict=False))


@rule(
    "ipam.cluster-overlap",
    Status.WARN,
    "packets for pods or services of those addresses would leave by the rail instead of the "
    "cluster network",
    errata=("E45",),
)
def cluster_overlap(bundle: Bundle) -> Iterator[Hit]:
    openshift = is_openshift(bundle)
    known = {net: f"OpenShift's {what}" for net, what in _OPENSHIFT.items()} | _ANYWHERE
    known |= {} if openshift else {net: f"kubeadm's {what}" for net, what in _VANILLA.items()}
    for found in all_ranges(bundle):
        for text, name in known.items() if found.net.version == 4 else ():
            net = ip_network(text)
            if found.net.overlaps(net) and not _too_wide(found):
                swallows = net.prefixlen >= found.net.prefixlen
                surely = swallows and _mask(found) == found.net.prefixlen
                yield found.hit(
                    f"{found.net} {'contains' if swallows else 'lies in'} {net}, {name} by default",
                    "a subnet of its own for the rail",
                    "choose another subnet, such as 192.168.100.0/24; if this cluster was "
                    "installed with other networks, compare with those",
                    status=Status.FAIL if surely else None,
                )  # fmt: skip


@rule("ipam.special-range", Status.FAIL, "no host may carry such an address")
def special_range(bundle: Bundle) -> Iterator[Hit]:
    for found in all_ranges(bundle):
        net = found.net
        kinds = {
            "loopback": net.is_loopback, "multicast": net.is_multicast,
            "link-local": net.is_link_local,
        }  # fmt: skip
        for kind in (kind for kind, true in kinds.items() if true):
            yield found.hit(
                f"{net} is {kind}", "a private subnet",
                "choose one such as 192.168.100.0/24 or fd00:100::/64",
            )  # fmt: skip


@rule(
    "ipam.outside-range",
    Status.FAIL,
    "the plugin takes addresses from first to last inside the range, and fails when that is empty",
    errata=("E45",),
)
def outside_range(bundle: Bundle) -> Iterator[Hit]:
    for found in (r for r in all_ranges(bundle) if r.source.type in ("whereabouts", "host-local")):
        _, start, end = range_keys(found.source)
        for name in (start, end):
            place = (*found.inside, name)
            given = address(str(found.source.get(*place) or ""))
            if given is not None and given not in found.net:
                yield found.source.hit(
                    place, f"{name} {given} is not in {found.net}", f"an address of {found.net}",
                    f"correct {name} or the range",
                )  # fmt: skip
        if int(found.first) > int(found.last):
            yield found.source.hit(
                (*found.inside, start), f"{found.first} is after {found.last}",
                f"{start} ≤ {end}", "exchange the two",
            )  # fmt: skip
