"""Gateways, routes and exclusions: what a rail may say about the way of packets."""

from __future__ import annotations

from collections.abc import Iterator

from podrail.model.bundle import Bundle
from podrail.model.document import Path
from podrail.model.finding import Status
from podrail.planning.lint.attachments import is_rail
from podrail.planning.lint.memo import grouped
from podrail.planning.lint.ranges import (
    POOLS,
    Range,
    Source,
    address,
    all_ranges,
    holders,
    ipams,
    network,
    pool_names,
    ranges,
    sources,
)
from podrail.planning.lint.registry import Hit, rule
from podrail.planning.lint.view import Attachment


def _gateways(bundle: Bundle) -> Iterator[tuple[Source, Path, str]]:
    for source in sources(bundle):
        places = {("gateway",), *((*inside, "gateway") for inside in holders(source))}
        for place in sorted(places, key=len):
            if isinstance(text := source.get(*place), str) and address(text) is not None:
                yield source, place, text


@rule(
    "ipam.gateway-outside",
    Status.FAIL,
    "a gateway must be a neighbour; the kernel refuses a route over one that is not",
    errata=("E45",),
)
def gateway_outside(bundle: Bundle) -> Iterator[Hit]:
    for source, place, text in _gateways(bundle):
        nets = [found.net for found in ranges(source)]
        gateway = address(text)
        if nets and gateway is not None and not any(gateway in net for net in nets):
            yield source.hit(
                place, f"gateway {text} is not in {' or '.join(map(str, nets))}",
                "an address of the range", "correct the gateway, or delete it: a rail needs none",
            )  # fmt: skip


@rule(
    "ipam.gateway-handed-out",
    Status.FAIL,
    "whereabouts does not reserve the gateway: the first pod may get its address, and then nothing "
    "behind the real gateway can be reached",
    errata=("E49",),
)
def gateway_handed_out(bundle: Bundle) -> Iterator[Hit]:
    for source, place, text in _gateways(bundle):
        gateway = address(text)
        for found in ranges(source) if source.type == "whereabouts" else ():
            if gateway is not None and found.hands_out(gateway):
                yield source.hit(
                    place, f"gateway {text} is among {found.first}-{found.last}, which pods get",
                    "a gateway that no pod can be given",
                    f'add "exclude": ["{text}/{gateway.max_prefixlen}"], or start later with '
                    '"range_start"',
                )  # fmt: skip


@rule(
    "ipam.default-route",
    Status.FAIL,
    "a default route of a second interface goes before the pod's own: DNS, the API server and all "
    "other traffic of the pod then leave by the rail",
    errata=("E46",),
)
def default_route(bundle: Bundle) -> Iterator[Hit]:
    for source in sources(bundle):
        rail = _serves_rail(bundle, source)
        for path, actual in _default_routes(source) if rail is not False else ():
            yield source.hit(
                path, actual, "routes to the rail's own subnets only",
                "delete it; to reach other rails name their subnet, such as 192.168.0.0/16",
                status=Status.WARN if rail is None else None,
            )  # fmt: skip


def _default_routes(source: Source) -> Iterator[tuple[Path, str]]:
    if source.type in POOLS and source.get("defaultGateway") is True:
        yield ("defaultGateway",), "defaultGateway: true"
    routes = source.get("routes")
    for at in range(len(routes) if isinstance(routes, list) else 0):
        net = network(str(source.get("routes", at, "dst")))
        if net is not None and net.prefixlen == 0:
            yield ("routes", at, "dst"), f"a route to {net}"


def _serves_rail(bundle: Bundle, source: Source) -> bool | None:
    """None when that is not known: a pool serves whatever network names it."""
    if source.attachment is not None:
        return is_rail(source.attachment)
    users = _users(bundle).get(source.resource.name, ())
    served = {is_rail(user) for user in users}
    return True if True in served else False if served == {False} else None


@grouped
def _users(bundle: Bundle) -> Iterator[tuple[str, Attachment]]:
    for source in ipams(bundle):
        if source.attachment is not None:
            for name in pool_names(source):
                yield name, source.attachment


@rule(
    "ipam.exclusion-outside",
    Status.WARN,
    "what is not in the range cannot be taken out of it; probably another range was meant",
)
def exclusion_outside(bundle: Bundle) -> Iterator[Hit]:
    for found in all_ranges(bundle):
        for path, text in _exclusions(found):
            net = network(text) or network(f"{text}/{found.net.max_prefixlen}")
            if net is not None and not net.overlaps(found.net):
                yield found.source.hit(
                    path, f"{text} is not in {found.net}", f"a part of {found.net}",
                    "correct it or delete it",
                )  # fmt: skip


def _exclusions(found: Range) -> list[tuple[Path, str]]:
    source, listed = found.source, found.source.get("exclusions")
    ends = [
        ("exclusions", at, end)
        for at in range(len(listed) if isinstance(listed, list) else 0)
        for end in ("startIP", "endIP")
    ]
    texts = source.texts(*found.inside, "exclude")
    return texts + [(path, str(source.get(*path))) for path in ends]
