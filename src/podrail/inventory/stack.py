"""What stands on a network device, walked upwards, and whether the machine hangs on it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from podrail.inventory.links import Link, Links, Route
from podrail.inventory.reader import Reader

_KUBECONFIGS = ("/etc/kubernetes/kubelet.conf", "/var/lib/kubelet/kubeconfig")
_SERVER = re.compile(r"^\s*server:\s*[\"']?\w+://(\[[^\]]+\]|[^:/\s\"']+)", re.MULTILINE)
_DATAPATH = "ovs-system"

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Ovs:
    """Open vSwitch's bridges and their ports; `known` is False when they could not be read."""

    bridges: Mapping[str, tuple[str, ...]]
    known: bool = True


@dataclass(frozen=True, slots=True)
class Stack:
    """Who stands on whom, and which devices carry the routes the machine lives by."""

    above: Mapping[str, tuple[str, ...]]
    vital: Mapping[str, str]
    """Device → why the machine would be cut off without it."""
    ovs: Ovs
    masters: Mapping[str, str]
    known: bool = True
    """Whether the links and routes could be read at all."""

    def over(self, name: str) -> tuple[str, ...]:
        """Everything that stands on a device, nearest first."""
        return tuple(path[-1] for path in self._paths(name)[1:])

    def management(self, names: Iterable[str]) -> str | None:
        """Why the machine would be cut off without these devices, or None."""
        for name in names:
            if not self.known:
                return "links or routes could not be read, so it may be the way to this machine"
            paths = self._paths(name)
            for path in paths:
                if path[-1] in self.vital:
                    way = f" ({' → '.join(path)})" if len(path) > 1 else ""
                    return f"{self.vital[path[-1]]}{way}"
            hidden = next((p[-1] for p in paths if self._hidden(p[-1])), None)
            if hidden:
                return f"{hidden} is an Open vSwitch port and its bridge could not be read"
        return None

    def _hidden(self, name: str) -> bool:
        return not self.ovs.known and self.masters.get(name) == _DATAPATH

    def _paths(self, name: str) -> list[tuple[str, ...]]:
        seen = {name}
        paths: list[tuple[str, ...]] = [(name,)]
        for path in paths:
            for upper in self.above.get(path[-1], ()):
                if upper not in seen:
                    seen.add(upper)
                    paths.append((*path, upper))
        return paths


def build(reader: Reader, links: Links) -> Stack:
    """The stack of a host's links."""
    ovs = read_ovs(reader, links)
    return Stack(
        above=_above(links.by_name, ovs),
        vital=_vital(links.routes, _api_addresses(reader)),
        ovs=ovs,
        masters={link.name: link.master for link in links.by_name.values() if link.master},
        known=links.known,
    )


def read_ovs(reader: Reader, links: Links) -> Ovs:
    """The bridges, asked for only where a link belongs to Open vSwitch."""
    used = (
        link.kind == "openvswitch" or link.master == _DATAPATH for link in links.by_name.values()
    )
    if not any(used):
        return Ovs({})
    listed = reader.output(("ovs-vsctl", "list-br"))
    if listed is None:
        return Ovs({}, known=False)
    ports = {
        bridge: reader.output(("ovs-vsctl", "list-ports", bridge)) for bridge in listed.split()
    }
    return Ovs(
        bridges={bridge: tuple((text or "").split()) for bridge, text in ports.items()},
        known=None not in ports.values(),
    )


def _above(links: Mapping[str, Link], ovs: Ovs) -> dict[str, tuple[str, ...]]:
    """bond, bridge, team and VRF are masters; VLAN, macvlan and IPoIB children point downwards."""
    above: dict[str, list[str]] = {name: [] for name in links}
    for link in sorted(links.values(), key=lambda link: link.index):
        if link.master and link.master != _DATAPATH:
            above[link.name].append(link.master)
        if link.lower in above and link.lower != link.name:
            above[link.lower].append(link.name)
        above[link.name].extend(_ovs_above(link, links, ovs))
    return {name: tuple(uppers) for name, uppers in above.items()}


def _ovs_above(link: Link, links: Mapping[str, Link], ovs: Ovs) -> list[str]:
    """The bridge's own port carries its address; its other internal ports may too."""
    if link.master != _DATAPATH or link.kind == "openvswitch":
        return []
    named = [bridge for bridge, ports in ovs.bridges.items() if link.name in ports]
    # list-ports gives an OVS bond its own name, not those of its members
    joined = named or list(ovs.bridges)
    # a port the kernel does not show is a patch or a tunnel: it may lead to any other bridge
    patched = any(port not in links for bridge in joined for port in ovs.bridges[bridge])
    bridges = [*joined, *(b for b in ovs.bridges if patched and b not in joined)]
    ports = [port for bridge in bridges for port in ovs.bridges[bridge]]
    internal = [p for p in ports if p in links and links[p].kind == "openvswitch"]
    return [*bridges, *internal]


def _vital(routes: Iterable[Route], api: Iterable[Address]) -> dict[str, str]:
    vital: dict[str, str] = {}
    known = list(routes)
    for address in api:
        for device in _way_to(known, address):
            vital[device] = f"the route to the API server {address} leaves through {device}"
    for route in known:
        for device in route.devices if route.default else ():
            vital[device] = f"the default route leaves through {device}"
    return vital


def _way_to(routes: Iterable[Route], address: Address) -> tuple[str, ...]:
    fitting = [r for r in routes if r.network.version == address.version and address in r.network]
    return max(fitting, key=lambda route: route.network.prefixlen).devices if fitting else ()


def _api_addresses(reader: Reader) -> list[Address]:
    found = []
    for path in _KUBECONFIGS:
        for server in _SERVER.findall(reader.text(path) or ""):
            address = _address(server.strip("[]"))
            if address is None:
                reader.note(f"{path}#server", f"{server} is a name: its route is not looked for")
            else:
                found.append(address)
    return found


def _address(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
