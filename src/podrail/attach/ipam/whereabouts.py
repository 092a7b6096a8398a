"""type `whereabouts`, served from our own leases.

One address of every range: `range`, then those of `ipRanges` (dual stack is two). Ranges of one
`network_name` never give the same address twice, also where they overlap, unless
`enable_overlapping_ranges` is false; then only one and the same range does not.
What the pod asks for with `ips` is given instead of the next free one; upstream passes over it.
`addresses` and IP= of CNI_ARGS come on top, as upstream; inside a range they are leased as well,
so that nobody else gets them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address, ip_interface
from typing import Any

from podrail.attach.ipam.addresses import AddressRequest
from podrail.attach.ipam.facts import Facts, Pooled, routes_and_dns, spread
from podrail.attach.ipam.fields import Fields, address, network
from podrail.attach.ipam.pool import Address, Network, Range, usable, whole
from podrail.attach.ipam.static import written
from podrail.attach.result import Address as Given
from podrail.attach.result import wrong

_KNOWN = {
    "type", "range", "range_start", "range_end", "exclude", "ipranges", "gateway", "routes", "dns",
    "network_name", "enable_overlapping_ranges", "addresses",
}  # fmt: skip
_NO_PART = {
    "kubernetes": "leases are kept on this machine",
    "datastore": "leases are kept on this machine",
    "configuration_path": "everything is taken from the network's own configuration",
    "node_slice_size": "the pool of one machine is not cut into slices",
    "reconciler_cron_expression": "leases are reclaimed when pods go",
    "sleep_for_race": "it served upstream's own tests",
    "overlapping_ranges": "it is called enable_overlapping_ranges",
    "enable_l3": "upstream does not read it either",
}


def whereabouts_plan(ipam: Mapping[str, Any], facts: Facts) -> Pooled:
    """The plan of a `whereabouts` configuration; CniError 7 where it cannot be."""
    fields = Fields(ipam, "ipam")
    notes = list(_notes(fields))
    ranges = [_range(fields, holder, notes) for holder in _holders(fields)]
    if not ranges:
        raise wrong("ipam.range", None, "a network such as 10.0.0.0/24, here or in ipRanges")
    extra = written(ipam, facts)
    own = [_own(facts, ranges, one) for one in extra]
    routes, dns = routes_and_dns(ipam)
    return Pooled(
        facts.owner,
        (*spread(facts, facts.asked, ranges), *(request for request in own if request)),
        tuple(one for one, request in zip(extra, own, strict=True) if request is None),
        routes, dns, tuple(notes),
    )  # fmt: skip


def _notes(fields: Fields) -> Iterator[str]:
    for key in fields:
        if key.startswith(("leader_", "log_")):
            yield f"ipam.{key} has no effect: there is no leader to elect and no log of its own"
        elif key not in _KNOWN:
            why = _NO_PART.get(key, "whereabouts has no such key")
            yield f"ipam.{key} has no effect: {why}"


def _holders(fields: Fields) -> list[Fields]:
    top = [fields] if fields.text("range") else []
    return [*top, *fields.each("ipRanges")]


def _range(fields: Fields, holder: Fields, notes: list[str]) -> Range:
    net, first, last = _span(holder)
    low = first or _end(holder, "range_start", net, notes)
    high = last or _end(holder, "range_end", net, notes)
    prefix = fields.text("network_name")
    name = f"whereabouts:{prefix}:{net}" if prefix else f"whereabouts:{net}"
    wide = fields.flag("enable_overlapping_ranges", True)
    try:
        return whole(
            net, name, first=low, last=high, exclusions=_excluded(holder),
            gateway=_gateway(fields, net, notes), scope=f"whereabouts:{prefix}" if wide else name,
        )  # fmt: skip
    except ValueError as no:
        raise wrong(f"{holder.where}.range_end", holder.text("range_end"), f"order: {no}") from None


def _span(holder: Fields) -> tuple[Network, Address | None, Address | None]:
    """`10.0.0.0/24`, or `10.0.0.10-10.0.0.20/24`, which beats range_start and range_end."""
    text, where = holder.text("range"), f"{holder.where}.range"
    low, dash, high = text.partition("-")
    if not dash:
        return network(text, where), None, None
    net = network(high, where)
    first, last = address(low.strip(), where), address(high.partition("/")[0].strip(), where)
    if first not in net or int(first) > int(last):
        raise wrong(where, text, f"first and last address of one network, such as {net}")
    return net, first, last


def _end(holder: Fields, key: str, net: Network, notes: list[str]) -> Address | None:
    """Upstream silently passes over an end outside of the network."""
    found = holder.address(key)
    low, high = usable(net)
    if found is not None and not (found in net and int(low) <= int(found) <= int(high)):
        notes.append(f"{holder.where}.{key} {found} has no effect: it is no host address of {net}")
        return None
    return found


def _excluded(holder: Fields) -> list[tuple[Address, Address]]:
    """Networks, or single addresses."""
    where = f"{holder.where}.exclude"
    nets = [network(t, where) if "/" in t else _single(t, where) for t in holder.texts("exclude")]
    return [(net.network_address, net.broadcast_address) for net in nets]


def _single(text: str, where: str) -> Network:
    return network(f"{address(text, where)}/{128 if ':' in text else 32}", where)


def _gateway(fields: Fields, net: Network, notes: list[str]) -> Address | None:
    """One gateway for all ranges: it is of use only to those of its family."""
    found = fields.address("gateway")
    if found is None or found.version != net.version:
        return None
    if found not in net:
        notes.append(
            f"ipam.gateway {found} is outside of {net}: no pod of it can reach it directly"
        )
    return found


def _own(facts: Facts, ranges: Sequence[Range], one: Given) -> AddressRequest | None:
    """The lease of an address that is written down, where it lies in a range."""
    ip = ip_interface(one.address)
    for range_ in ranges:
        if ip.ip in range_.network:
            gateway = ip_address(one.gateway) if one.gateway else None
            lone = whole(ip.network, range_.name, gateway=gateway, scope=range_.scope)
            return AddressRequest(facts.owner, (lone,), (str(ip.ip),))
    return None
