"""`ip -j route show` of a twin: what was added, and what follows from addresses and links."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Any

from podrail.host.twin import Netdev, TwinHost
from podrail.host.twins import net, spec

_V6 = {"flags": [], "pref": "medium"}


def routes(host: TwinHost, versions: Sequence[int], every_table: bool) -> list[dict[str, Any]]:
    """`ip -j route show [table all]`: default and added ones, connected ones, local ones."""
    ordered = sorted(host.netdevs.values(), key=lambda n: n.ifindex)
    running = [n for n in ordered if net.flags(host, n) & net.UP]
    out = []
    for version in versions:
        out += [_added(r) for r in host.routes if _version(r) == version]
        out += [entry for n in running for entry in _connected(host, n, version)]
        if every_table:
            out += [entry for n in running for entry in _local(host, n, version)]
    return out


def _version(route: spec.Route) -> int:
    return 6 if ":" in (route.gateway or route.dst) else 4


def _added(route: spec.Route) -> dict[str, Any]:
    out: dict[str, Any] = {"dst": route.dst}
    if route.gateway:
        out["gateway"] = route.gateway
    out["dev"] = route.dev
    if route.protocol != "boot":  # iproute2 ip/iproute.c:print_route, without -d
        out["protocol"] = route.protocol
    if route.metric is not None:
        out["metric"] = route.metric
    return out | (_V6 if _version(route) == 6 else {"flags": []})


def _interfaces(
    host: TwinHost, netdev: Netdev, version: int
) -> Iterator[ipaddress.IPv4Interface | ipaddress.IPv6Interface]:
    found = map(ipaddress.ip_interface, net.addresses(host, netdev))
    return (at for at in found if at.version == version)


def _connected(host: TwinHost, netdev: Netdev, version: int) -> Iterator[dict[str, Any]]:
    for at in _interfaces(host, netdev, version):
        if at.ip.is_loopback or at.network.prefixlen == at.max_prefixlen:
            continue
        out: dict[str, Any] = {"dst": str(at.network), "dev": netdev.name, "protocol": "kernel"}
        if version == 4:
            yield out | {"scope": "link", "prefsrc": str(at.ip), "flags": []}
        else:
            yield out | {"metric": 256} | _V6


def _local(host: TwinHost, netdev: Netdev, version: int) -> Iterator[dict[str, Any]]:
    where = {"dev": netdev.name, "table": "local", "protocol": "kernel"}
    for at in _interfaces(host, netdev, version):
        if version == 6:
            yield {"type": "local", "dst": str(at.ip)} | where | {"metric": 0} | _V6
        else:
            yield from _local4(at, where)
    if version == 6 and netdev.name != "lo" and any(_interfaces(host, netdev, 6)):
        yield {"type": "multicast", "dst": "ff00::/8"} | where | {"metric": 256} | _V6


def _local4(
    at: ipaddress.IPv4Interface | ipaddress.IPv6Interface, where: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """net/ipv4/fib_frontend.c:fib_add_ifaddr: the address, and the broadcast of its network."""
    source = {"prefsrc": str(at.ip), "flags": []}
    own = [str(at.network), str(at.ip)] if at.ip.is_loopback else [str(at.ip)]
    for dst in own:
        yield {"type": "local", "dst": dst} | where | {"scope": "host"} | source
    if at.network.prefixlen < 31:
        dst = str(at.network.broadcast_address)
        yield {"type": "broadcast", "dst": dst} | where | {"scope": "link"} | source
