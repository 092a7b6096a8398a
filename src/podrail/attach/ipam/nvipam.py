"""type `nv-ipam`, served from our own leases: the part of an IPPool or a CIDRPool that is this
node's, as its controller has written it into the pool's status, else by the node's index."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from podrail.attach.ipam.addresses import AddressRequest
from podrail.attach.ipam.blocks import nth_block
from podrail.attach.ipam.facts import Facts, Pooled, spread
from podrail.attach.ipam.fields import Fields, address, network
from podrail.attach.ipam.pool import Address, Network, Range, usable, whole
from podrail.attach.result import CniError, Code, Route, wrong
from podrail.model.kinds.nvipam import CIDRPool, ExcludeIndexes, IPPool

_KINDS = {"ippool": IPPool, "cidrpool": CIDRPool}
_KNOWN = {"type", "poolname", "pooltype", "forcepoolname"}
_MOST_POOLS = 2


@dataclass(frozen=True, slots=True)
class Part:
    """What of a pool is this node's."""

    network: Network
    first: Address
    last: Address
    gateway: Address | None
    index_base: Address
    """Where `perNodeExclusions` counts from."""


def nvipam_plan(ipam: Mapping[str, Any], facts: Facts) -> Pooled:
    """The plan of an `nv-ipam` configuration; CniError 7 where it cannot be."""
    fields = Fields(ipam, "ipam")
    kind = _pool_type(fields, facts)
    pools = [_find(facts, kind, name) for name in _pool_names(fields, facts)]
    ranges = [_range(pool, kind, facts) for pool in pools]
    routes = chain.from_iterable(map(_routes, pools, ranges))
    notes = [f"ipam.{key} has no effect: no daemon is asked" for key in fields if key not in _KNOWN]
    return Pooled(
        facts.owner, tuple(_requests(facts, ranges)), routes=tuple(routes), notes=tuple(notes)
    )


def _pool_type(fields: Fields, facts: Facts) -> str:
    found = facts.cni_args.text("poolType") or fields.text("poolType") or "ippool"
    if found.lower() not in _KINDS:
        raise wrong("ipam.poolType", found, f"one of {', '.join(_KINDS)}")
    return found.lower()


def _pool_names(fields: Fields, facts: Facts) -> list[str]:
    """By default the pool has the network's name."""
    names = facts.cni_args.texts("poolNames")
    if not names:
        default = "" if fields.flag("forcePoolName", False) else facts.network
        names = [name.strip() for name in (fields.text("poolName") or default).split(",")]
    if not all(names) or len(names) > _MOST_POOLS or len(set(names)) < len(names):
        raise wrong("ipam.poolName", ",".join(names), "a pool, or two with a comma for dual stack")
    return names


def _find(facts: Facts, kind: str, name: str) -> IPPool | CIDRPool:
    there = {_name(pool): pool for pool in facts.pools if isinstance(pool, _KINDS[kind])}
    if name not in there:
        raise wrong(
            "ipam.poolName", name, f"an {kind} that there is: {', '.join(sorted(there)) or 'none'}"
        )
    return there[name]


def _name(pool: IPPool | CIDRPool) -> str:
    return (pool.metadata.name if pool.metadata else None) or ""


# --- the node's part ----------------------------------------------------------------------------


def _range(pool: IPPool | CIDRPool, kind: str, facts: Facts) -> Range:
    where = f"{type(pool).__name__} {_name(pool)}"
    if isinstance(pool, IPPool):
        part = _ip_part(pool, where, facts)
    else:
        part = _cidr_part(pool, where, facts)
    out = _exclusions(pool, where)
    out += [_indexes(one, part, where) for one in pool.spec.per_node_exclusions or ()]
    try:
        return whole(
            part.network, f"nv-ipam:{kind}:{_name(pool)}", first=part.first, last=part.last,
            exclusions=out, gateway=part.gateway,
        )  # fmt: skip
    except ValueError as no:
        raise wrong(where, f"{part.first}–{part.last}", f"a part of its network: {no}") from None


def _ip_part(pool: IPPool, where: str, facts: Facts) -> Part:
    net = network(pool.spec.subnet, f"{where} subnet")
    gateway = _gateway(pool.spec.gateway, net, where)
    status = _status(pool, facts)
    if status is not None:
        first, last = status.address("startIP"), status.address("endIP")
        if first is None or last is None:
            raise wrong(status.where, None, "startIP and endIP")
        return Part(net, first, last, gateway, first)
    first, last = _block(pool, net, where, facts)
    return Part(net, first, last, gateway, first)


def _block(pool: IPPool, net: Network, where: str, facts: Facts) -> tuple[Address, Address]:
    low, high = usable(net)
    size = pool.spec.per_node_block_size
    spans = [(int(a), int(b)) for a, b in _exclusions(pool, where)]
    start = nth_block(int(low), int(high), size, _index(facts, where), spans)
    if start is None:
        raise _no_room(where, facts, f"blocks of {size} addresses of {net}")
    return type(low)(start), type(low)(start + size - 1)


def _cidr_part(pool: CIDRPool, where: str, facts: Facts) -> Part:
    prefix, gateway = _node_prefix(pool, where, facts)
    if gateway is None and pool.spec.gateway_index is not None:
        gateway = _indexed_gateway(prefix, pool.spec.gateway_index, where)
    low, high = usable(prefix)
    return Part(prefix, low, high, gateway, prefix.network_address)


def _node_prefix(pool: CIDRPool, where: str, facts: Facts) -> tuple[Network, Address | None]:
    status = _status(pool, facts)
    if status is not None:
        return network(status.text("prefix"), f"{status.where}.prefix"), status.address("gateway")
    for one in pool.spec.static_allocations or ():
        if one.node_name and one.node_name == facts.node:
            prefix = network(one.prefix, f"{where} staticAllocations")
            return prefix, _gateway(one.gateway, prefix, where)
    return _free_prefix(pool, where, facts), None


def _free_prefix(pool: CIDRPool, where: str, facts: Facts) -> Network:
    """The index counts the prefixes that are nobody's by name and not excluded as a whole."""
    net, length = network(pool.spec.cidr, f"{where} cidr"), pool.spec.per_node_network_prefix
    if not net.prefixlen <= length <= net.max_prefixlen:
        raise wrong(f"{where} perNodeNetworkPrefix", length,
                    f"{net.prefixlen} to {net.max_prefixlen}, a part of {net}")  # fmt: skip
    size: int = 2 ** (net.max_prefixlen - length)
    named = [network(s.prefix, f"{where} staticAllocations")
             for s in pool.spec.static_allocations or ()]  # fmt: skip
    spans = [(int(n.network_address), int(n.broadcast_address)) for n in named]
    spans += [(int(a), int(b)) for a, b in _exclusions(pool, where)]
    low, high = int(net.network_address), int(net.broadcast_address)
    start = nth_block(low, high, size, _index(facts, where), spans)
    if start is None:
        raise _no_room(where, facts, f"/{length} networks of {net}")
    return network(f"{type(net.network_address)(start)}/{length}", where)


def _status(pool: IPPool | CIDRPool, facts: Facts) -> Fields | None:
    """This node's entry of `status.allocations`."""
    if not facts.node or pool.status is None:
        return None
    allocations = Fields(pool.status, f"{_name(pool)} status").each("allocations")
    return next((one for one in allocations if one.text("nodeName") == facts.node), None)


def _index(facts: Facts, where: str) -> int:
    if facts.node_index is None or facts.node_index < 0:
        raise CniError(
            Code.TRY_AGAIN_LATER,
            f"{where} has no block for node {facts.node or '(no name)'} yet: wait until its "
            "controller has written one to status.allocations, or give this node an index",
        )
    return facts.node_index


def _no_room(where: str, facts: Facts, blocks: str) -> CniError:
    return CniError(
        Code.INVALID_CONFIG,
        f"{where} has no block for node {facts.node_index}: there are not so many {blocks}; widen "
        "the pool, or make the blocks smaller",
    )


# --- what is not given out ----------------------------------------------------------------------


def _exclusions(pool: IPPool | CIDRPool, where: str) -> list[tuple[Address, Address]]:
    found = []
    net = network(pool.spec.subnet if isinstance(pool, IPPool) else pool.spec.cidr, where)
    for one in pool.spec.exclusions or ():
        low, high = (address(text, f"{where} exclusions") for text in (one.start_ip, one.end_ip))
        if low not in net or high not in net or int(low) > int(high):
            raise wrong(f"{where} exclusions", f"{low}–{high}", f"startIP ≤ endIP, both of {net}")
        found.append((low, high))
    return found


def _indexes(one: ExcludeIndexes, part: Part, where: str) -> tuple[Address, Address]:
    low, high = int(part.index_base) + one.start_index, int(part.index_base) + one.end_index
    if low > high or high > int(part.network.broadcast_address):
        raise wrong(f"{where} perNodeExclusions", f"{one.start_index}–{one.end_index}",
                    "startIndex ≤ endIndex, both inside of the node's part")  # fmt: skip
    kind = type(part.first)
    return kind(low), kind(high)


def _gateway(text: str | None, net: Network, where: str) -> Address | None:
    found = address(text, f"{where} gateway") if text else None
    if found is not None and found not in net:
        raise wrong(f"{where} gateway", text, f"an address of {net}")
    return found


def _indexed_gateway(prefix: Network, index: int, where: str) -> Address:
    """Index 0 is the network's own address, and only a /31, /32 or /127, /128 may use it."""
    low, high = usable(prefix)
    number = int(prefix.network_address) + index
    if not int(low) <= number <= int(high):
        raise wrong(f"{where} gatewayIndex", index, f"a host address of {prefix}")
    return type(low)(number)


# --- routes and wishes --------------------------------------------------------------------------


def _routes(pool: IPPool | CIDRPool, range_: Range) -> Iterable[Route]:
    wanted = [route.dst for route in pool.spec.routes or ()]
    if pool.spec.default_gateway:
        wanted.append("0.0.0.0/0" if range_.network.version == 4 else "::/0")
    if wanted and range_.gateway is None:
        raise wrong(f"{range_.name} routes", wanted[0], "a gateway in the pool, which it goes by")
    for text in wanted:
        yield Route(str(network(text, f"{range_.name} routes")), str(range_.gateway))


def _requests(facts: Facts, ranges: list[Range]) -> list[AddressRequest]:
    """What the pod may wish: an address, an index in the node's part, or the gateway's place."""
    args = facts.cni_args
    index, gateway = args.number("allocateIPWithIndex"), args.flag("allocateDefaultGateway", False)
    asked = facts.asked or [ip for ip in [facts.args.get("IP", "").strip()] if ip]
    if sum([index is not None, gateway, bool(asked)]) > 1:
        raise wrong("config.args.cni", "several wishes", "one of ips, allocateIPWithIndex and "
                    "allocateDefaultGateway")  # fmt: skip
    if gateway:
        return [_as_gateway(facts, range_) for range_ in ranges]
    if index is not None:
        asked = [_with_index(range_, index) for range_ in ranges]
    return spread(facts, asked, ranges)


def _as_gateway(facts: Facts, range_: Range) -> AddressRequest:
    if range_.gateway is None:
        raise wrong("config.args.cni.allocateDefaultGateway", True, f"a gateway in {range_.name}")
    return AddressRequest(facts.owner, (replace(range_, gateway=None),), (str(range_.gateway),))


def _with_index(range_: Range, index: int) -> str:
    number = int(range_.first) + index
    if index < 0 or number > int(range_.last):
        raise wrong("config.args.cni.allocateIPWithIndex", index, f"an index of {range_.shown}")
    return str(range_.address(number))
