"""Network links, their addresses and routes, as `ip` prints them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from podrail.inventory.reader import (
    Reader,
    as_bool,
    as_dict,
    as_dicts,
    as_int,
    as_str,
    guid_of,
    mac_of,
)
from podrail.model.inventory import Ipoib

_IP_LINK = ("ip", "-d", "-j", "link", "show")
_IP_ADDR = ("ip", "-j", "addr", "show")
_IP_ROUTES = (
    ("ip", "-j", "route", "show", "table", "all"),
    ("ip", "-6", "-j", "route", "show", "table", "all"),
)
_IP_RULES = (("ip", "-j", "rule", "show"), ("ip", "-6", "-j", "rule", "show"))
_REMOTE = ("remote", "remote6", "group", "group6")
_IPOIB = re.compile(r"(?:[0-9a-f]{2}:){19}[0-9a-f]{2}", re.ASCII)
# phys_port_name of a representor, Documentation/networking/switchdev.rst
_REPRESENTOR = re.compile(r"(?:c\d+)?pf\d+(?:vf|sf)\d+|(?:c\d+)?pf\d+")
# 0.0.0.0/1 and 128.0.0.0/1 outrank a default route without touching it, 2000::/3 is all of the
# IPv6 internet; from /4 on there are routes for less, such as 224.0.0.0/4 and fc00::/7
_WIDEST = 3


@dataclass(frozen=True, slots=True)
class VfInfo:
    """A VF as its PF's driver tells it (IFLA_VFINFO_LIST)."""

    mac: str | None
    guid: str | None
    vlan: int | None
    qos: int | None
    vlan_proto: str | None
    trust: bool | None
    spoofchk: bool | None
    link_state: str | None
    min_tx_rate: int | None
    max_tx_rate: int | None


@dataclass(frozen=True, slots=True)
class Link:
    """One network device of the host's own namespace."""

    name: str
    index: int
    link_type: str
    kind: str | None = None
    master: str | None = None
    lower: str | None = None
    address: str | None = None
    mtu: int | None = None
    max_mtu: int | None = None
    state: str | None = None
    admin_up: bool | None = None
    altnames: tuple[str, ...] = ()
    parent: str | None = None
    representor: bool = False
    vfs: dict[int, VfInfo] = field(default_factory=dict)
    table: str | None = None
    """The routing table of a VRF."""
    remotes: tuple[str, ...] = ()
    """Where a tunnel ends, as far as the link itself says."""


@dataclass(frozen=True, slots=True)
class Route:
    """A route of any table but `local`."""

    network: ipaddress.IPv4Network | ipaddress.IPv6Network
    devices: tuple[str, ...]
    table: str = "main"

    @property
    def default(self) -> bool:
        """Whether it is a default route or part of one."""
        return self.network.prefixlen <= _WIDEST

    def __str__(self) -> str:
        where = "" if self.table == "main" else f" of table {self.table}"
        if self.network.prefixlen == 0:
            return f"the default route{where}"
        wide = " (part of a default route)" if self.default else ""
        return f"the route to {self.network}{wide}{where}"


@dataclass(frozen=True, slots=True)
class Links:
    """All links by name, with addresses and routes."""

    by_name: dict[str, Link]
    addresses: dict[str, tuple[str, ...]]
    routes: tuple[Route, ...]
    known: bool = True
    """Whether links and IPv4 routes could be read at all."""
    answering: frozenset[str] = frozenset()
    """Tables that only answer from their own device's address: source routing of a rail."""


def read_links(reader: Reader) -> Links:
    """Four runs of `ip`, whatever the number of VFs."""
    shown, routed = reader.json(_IP_LINK), reader.json(_IP_ROUTES[0])
    found = [link_of(item) for item in as_dicts(shown)]
    addresses = addresses_of(reader.json(_IP_ADDR))
    routes = (
        *routes_of(routed, "0.0.0.0/0"),
        *routes_of(reader.json(_IP_ROUTES[1]), "::/0"),
    )
    return Links(
        by_name={link.name: link for link in found if link},
        addresses=addresses,
        routes=routes,
        known=isinstance(shown, list) and isinstance(routed, list) and not _hidden(reader, routed),
        answering=_answering(reader, routes, addresses),
    )


def _answering(
    reader: Reader, routes: Iterable[Route], addresses: Mapping[str, tuple[str, ...]]
) -> frozenset[str]:
    """Asked only where a table other than main has a default route; unread rules prove nothing."""
    defaults: dict[str, set[str]] = {}
    for route in routes:
        if route.default and route.table != "main":
            defaults.setdefault(route.table, set()).update(route.devices)
    rules = [rule for argv in _IP_RULES for rule in as_dicts(reader.json(argv))] if defaults else []
    return frozenset(
        table
        for table, devices in defaults.items()
        if (mine := [rule for rule in rules if str(rule.get("table")) == table])
        and all(_from_own_address(rule, devices, addresses) for rule in mine)
    )


def _from_own_address(
    rule: Mapping[str, Any], devices: Iterable[str], addresses: Mapping[str, tuple[str, ...]]
) -> bool:
    own = {text.partition("/")[0] for device in devices for text in addresses.get(device, ())}
    return rule.get("src") in own and "srclen" not in rule


def link_of(item: dict[str, Any]) -> Link | None:
    """One object of `ip -d -j link show`; None without a name."""
    name = as_str(item.get("ifname"))
    if not name or "/" in name or "\0" in name:
        return None
    altnames, flags = item.get("altnames"), item.get("flags")
    info = as_dict(as_dict(item.get("linkinfo")).get("info_data"))
    return Link(
        name=name,
        index=as_int(item.get("ifindex")) or 0,
        link_type=as_str(item.get("link_type")) or "",
        kind=as_str(as_dict(item.get("linkinfo")).get("info_kind")),
        master=as_str(item.get("master")),
        # with link_netnsid the lower device is in another namespace, where its name means nothing
        lower=None if "link_netnsid" in item else as_str(item.get("link") or info.get("link")),
        address=as_str(item.get("address")),
        mtu=as_int(item.get("mtu")),
        max_mtu=as_int(item.get("max_mtu")),
        state=as_str(item.get("operstate")),
        admin_up="UP" in flags if isinstance(flags, list) else None,
        altnames=tuple(filter(None, map(as_str, altnames if isinstance(altnames, list) else ()))),
        parent=as_str(item.get("parentdev")),
        representor=bool(_REPRESENTOR.fullmatch(as_str(item.get("phys_port_name")) or "")),
        vfs=_vf_infos(item.get("vfinfo_list")),
        table=None if info.get("table") is None else str(info["table"]),
        remotes=tuple(filter(None, (as_str(info.get(key)) for key in _REMOTE))),
    )


def _vf_infos(listed: Any) -> dict[int, VfInfo]:
    found = ((as_int(info.get("vf")), vf_info(info)) for info in as_dicts(listed))
    return {index: info for index, info in found if index is not None}


def vf_info(info: dict[str, Any]) -> VfInfo:
    """One object of `vfinfo_list`; a VF without a VLAN shows `"vlan_list":[{}]`."""
    listed = as_dicts(info.get("vlan_list"))
    tag = listed[0] if listed else info
    rate = as_dict(info.get("rate"))
    vlan = as_int(tag.get("vlan")) or 0
    return VfInfo(
        mac=mac_of(info.get("address")),
        # iproute2 prints these two keys with a space
        guid=guid_of(info.get("node guid")) or guid_of(info.get("port guid")),
        vlan=vlan,
        qos=as_int(tag.get("qos")) or 0,
        vlan_proto=as_str(tag.get("protocol")) or ("802.1Q" if vlan else None),
        trust=as_bool(info.get("trust")),
        spoofchk=as_bool(info.get("spoofchk")),
        link_state=as_str(info.get("link_state")),
        min_tx_rate=as_int(rate.get("min_tx")),
        max_tx_rate=as_int(rate.get("max_tx")),
    )


def addresses_of(listed: Any) -> dict[str, tuple[str, ...]]:
    """Name → addresses with their prefix length, without the link-local ones of IPv6."""
    found = {}
    for item in as_dicts(listed):
        infos = as_dicts(item.get("addr_info"))
        texts = [f"{i.get('local')}/{i.get('prefixlen')}" for i in infos if as_str(i.get("local"))]
        name = as_str(item.get("ifname"))
        if name:
            found[name] = tuple(text for text in texts if not text.startswith("fe80:"))
    return found


def routes_of(listed: Any, default: str) -> list[Route]:
    """The routes that leave through a device; `ip` leaves out the table's name for main."""
    routes = []
    for item in as_dicts(listed):
        devices, network = _devices(item), _network(item.get("dst"), default)
        if devices and network is not None and _leaves(item):
            table = str(item.get("table") or "main")
            routes.append(Route(network, devices, "main" if table == "254" else table))
    return routes


def _devices(item: dict[str, Any]) -> tuple[str, ...]:
    hops = [item, *as_dicts(item.get("nexthops"))]
    return tuple(dev for dev in (as_str(hop.get("dev")) for hop in hops) if dev)


def _leaves(item: dict[str, Any]) -> bool:
    """Not one that ends here: an unreachable default of a VRF shows device lo in IPv6."""
    local = str(item.get("table")) in ("local", "255")
    return not local and item.get("type", "unicast") == "unicast"


def _hidden(reader: Reader, listed: Any) -> bool:
    """With net.ipv4.nexthop_compat_mode=0 a route names a next hop object and no device."""
    for item in as_dicts(listed):
        if item.get("dst") == "default" and "nhid" in item and not _devices(item):
            why = f"the default route goes to next hop {item['nhid']}, whose device is not shown"
            reader.note(f"program:{' '.join(_IP_ROUTES[0])}", why)
            return True
    return False


def _network(dst: Any, default: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(default if dst == "default" else str(dst), strict=False)
    except ValueError:
        return None


def ipoib_of(address: str | None) -> Ipoib | None:
    """Flags, QPN and the port GID of an IPoIB hardware address."""
    text = (address or "").lower()
    if not _IPOIB.fullmatch(text):
        return None
    raw = bytes.fromhex(text.replace(":", ""))
    return Ipoib(
        flags=raw[0],
        qpn=int.from_bytes(raw[1:4], "big"),
        prefix=raw[4:12].hex(),
        guid=raw[12:20].hex(":"),
    )


def pick(links: Links, names: list[str]) -> str | None:
    """The device's own netdev among those under it: no representor, no IPoIB child."""
    known = [links.by_name[name] for name in names if name in links.by_name]
    own = [link for link in known if not link.representor and link.lower not in names]
    if own:
        return min(own, key=lambda link: link.index).name
    return names[0] if names and not known else None
