"""What stands on a network device, walked upwards, and whether the machine hangs on it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from podrail.inventory.links import Link, Links, Route
from podrail.inventory.reader import Reader

_KUBECONFIGS = (
    "/etc/kubernetes/kubelet.conf",
    "/var/lib/kubelet/kubeconfig",
    "/var/lib/rancher/k3s/agent/kubelet.kubeconfig",
    "/var/lib/rancher/rke2/agent/kubelet.kubeconfig",
    "/var/snap/microk8s/current/credentials/kubelet.config",
)
_SERVER = re.compile(
    r"^\s*server:\s*[\"']?\w+://(?:[^@/\s]*@)?(\[[^\]]+\]|[^:/\s\"']+)", re.MULTILINE
)
_NAME = re.compile(r"\w[\w.-]*", re.ASCII)
_DATAPATH = "ovs-system"
_WG_ENDPOINTS = ("wg", "show", "all", "endpoints")
_TUNNELS = frozenset(
    [
        "wireguard",
        "vxlan",
        "geneve",
        "bareudp",
        "gre",
        "gretap",
        "erspan",
        "ip6gre",
        "ip6gretap",
        "ip6erspan",
        "ipip",
        "sit",
        "ip6tnl",
        "vti",
        "vti6",
        "xfrm",
        "ppp",
        "ovpn",
        "tun",
    ]
)

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
        return _paths(self.above, name)


def _paths(above: Mapping[str, Iterable[str]], name: str) -> list[tuple[str, ...]]:
    seen = {name}
    paths: list[tuple[str, ...]] = [(name,)]
    for path in paths:
        for upper in above.get(path[-1], ()):
            if upper not in seen:
                seen.add(upper)
                paths.append((*path, upper))
    return paths


def build(reader: Reader, links: Links) -> Stack:
    """The stack of a host's links."""
    ovs = read_ovs(reader, links)
    carriers = _carriers(reader, links)
    vital = _vital(links, _api_servers(reader))
    return Stack(
        above=_above(links.by_name, ovs, carriers),
        vital={**_maybe_vital(links, carriers, vital), **vital},
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


def _above(
    links: Mapping[str, Link], ovs: Ovs, carriers: Mapping[str, Iterable[str]]
) -> dict[str, tuple[str, ...]]:
    """bond, bridge, team and VRF are masters; VLAN, macvlan and IPoIB children point downwards."""
    above: dict[str, list[str]] = {name: [] for name in links}
    for link in sorted(links.values(), key=lambda link: link.index):
        if link.master and link.master != _DATAPATH:
            above[link.name].append(link.master)
        if link.lower in above and link.lower != link.name:
            above[link.lower].append(link.name)
        above[link.name].extend(_ovs_above(link, links, ovs))
        for carrier in carriers.get(link.name, ()):
            above.setdefault(carrier, []).append(link.name)
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


# --- the routes the machine lives by ------------------------------------------------------------


def _vital(links: Links, servers: Mapping[Address, str]) -> dict[str, str]:
    """The first reason stands: main's default route, those of other tables, the API server."""
    vital: dict[str, str] = {}
    defaults = [r for r in links.routes if r.default and r.table not in links.answering]
    for route in sorted(defaults, key=lambda route: route.table != "main"):
        for device in route.devices:
            vital.setdefault(device, f"{route} leaves through {device}")
    for link in links.by_name.values():
        if link.kind == "vrf" and any(route.table == link.table for route in defaults):
            vital.setdefault(link.name, f"VRF {link.name} has a default route in its table")
    for address, server in servers.items():
        for device in _way_to(links.routes, address):
            vital.setdefault(
                device, f"the route to the API server {server} leaves through {device}"
            )
    return vital


def _way_to(routes: Iterable[Route], address: Address) -> list[str]:
    """The devices of the longest match of every table: which rule applies is not looked for."""
    best: dict[str, list[Route]] = {}
    for route in routes:
        if route.network.version == address.version and address in route.network:
            best.setdefault(route.table, []).append(route)
    return [device for known in best.values() for device in _longest(known)]


def _longest(routes: list[Route]) -> list[str]:
    length = max(route.network.prefixlen for route in routes)
    return [d for route in routes if route.network.prefixlen == length for d in route.devices]


# --- tunnels ------------------------------------------------------------------------------------


def _carriers(reader: Reader, links: Links) -> dict[str, tuple[str, ...]]:
    """Tunnel → the devices its packets leave through, none where that cannot be told."""
    tunnels = [link for link in links.by_name.values() if _is_tunnel(link)]
    peers = _wireguard_peers(reader) if any(t.kind == "wireguard" for t in tunnels) else {}
    return {t.name: _carriers_of(t, links.routes, peers.get(t.name, [])) for t in tunnels}


def _is_tunnel(link: Link) -> bool:
    """A tap, which the kernel calls tun too, is somebody's virtual port and no way out."""
    return link.kind in _TUNNELS and (link.kind != "tun" or link.link_type != "ether")


def _carriers_of(
    tunnel: Link, routes: Iterable[Route], peers: Iterable[Address]
) -> tuple[str, ...]:
    if tunnel.lower:
        return (tunnel.lower,)
    fixed = (_address(remote) for remote in tunnel.remotes)
    ends = [*(end for end in fixed if end), *peers]
    found = dict.fromkeys(device for end in ends for device in _way_to(routes, end))
    return tuple(device for device in found if device != tunnel.name)


def _wireguard_peers(reader: Reader) -> dict[str, list[Address]]:
    """`wg show all endpoints`: device, public key, `ADDRESS:PORT` or `(none)`, by tabs."""
    peers: dict[str, list[Address]] = {}
    for line in (reader.output(_WG_ENDPOINTS) or "").splitlines():
        device, *_, endpoint = line.split("\t") if line.count("\t") == 2 else ("", "")
        address = _address(endpoint.rpartition(":")[0].strip("[]"))
        if address is not None:
            peers.setdefault(device, []).append(address)
    return peers


def _maybe_vital(
    links: Links, carriers: Mapping[str, tuple[str, ...]], vital: Mapping[str, str]
) -> dict[str, str]:
    """Where nobody knows over what a vital tunnel runs, it may be every device with a route."""
    above = _above(links.by_name, Ovs({}), carriers)
    routed = [d for r in links.routes if not r.network.is_link_local for d in r.devices]
    found: dict[str, str] = {}
    for name in (name for name, below in carriers.items() if not below):
        over = [path[-1] for path in _paths(above, name)]
        reason = next((vital[upper] for upper in over if upper in vital), None)
        for device in routed if reason else ():
            if device not in over:
                why = f"{name} is a {links.by_name[name].kind} tunnel whose far end is not known"
                found.setdefault(device, f"{reason}; {why}, so it may run over {device}")
    return found


# --- the API server -----------------------------------------------------------------------------


def _api_servers(reader: Reader) -> dict[Address, str]:
    """Addresses of the API server, each with what to call it."""
    found: dict[Address, str] = {}
    for path in _KUBECONFIGS:
        for server in _SERVER.findall(reader.text(path) or ""):
            found |= _places(reader, f"{path}#server", server.strip("[]"))
    return found


def _places(reader: Reader, source: str, server: str) -> dict[Address, str]:
    address = _address(server)
    named = {} if address else {a: f"{server} ({a})" for a in _resolve(reader, server)}
    found = {address: server} if address else named
    if not found:
        reader.note(
            source,
            f"the API server {server} is a name that neither /etc/hosts nor `getent ahosts` "
            "resolves, so the port that leads to it is not known",
        )
    elif all(a.is_loopback for a in found):
        reader.note(
            source,
            f"{server} is a proxy on this machine, so the port that leads to the API server "
            "behind it is not known",
        )
    return {a: text for a, text in found.items() if not a.is_loopback}


def _resolve(reader: Reader, name: str) -> list[Address]:
    if not _NAME.fullmatch(name):
        return []
    lines = (
        line.partition("#")[0].split() for line in (reader.text("/etc/hosts") or "").split("\n")
    )
    listed = [w[0] for w in lines if name.lower() in (alias.lower() for alias in w[1:])]
    if not listed:
        ran = reader.run(("getent", "ahosts", name))
        answer = ran.stdout if ran and ran.rc == 0 else ""
        listed = [line.split()[0] for line in answer.splitlines() if line.split()]
    return list(dict.fromkeys(filter(None, map(_address, listed))))


def _address(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
