"""Gateways, routes and exclusions: what a rail may say about the way of packets."""

from __future__ import annotations

from collections.abc import Iterator

from podrail.model.bundle import Bundle
from podrail.model.document import Path
from podrail.model.finding import Status
from podrail.planning.lint.ranges import (
    Range,
    Source,
    address,
    all_ranges,
    holders,
    network,
    ranges,
    sources,
)
from podrail.planning.lint.registry import Hit, rule


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
        if source.type in ("IPPool", "CIDRPool") and source.get("defaultGateway") is True:
            yield _default_hit(source, ("defaultGateway",), "defaultGateway: true")
        routes = source.get("routes")
        for at in range(len(routes) if isinstance(routes, list) else 0):
            net = network(str(source.get("routes", at, "dst")))
            if net is not None and net.prefixlen == 0:
                yield _default_hit(source, ("routes", at, "dst"), f"a route to {net}")


def _default_hit(source: Source, path: Path, actual: str) -> Hit:
    return source.hit(
        path, actual, "routes to the rail's own subnets only",
        "delete it; to reach other rails name their subnet, such as 192.168.0.0/16",
    )  # fmt: skip


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
