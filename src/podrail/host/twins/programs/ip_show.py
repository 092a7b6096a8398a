"""`ip link|addr show` of a twin, with the keys and their order as iproute2 prints them
(tests/data/lab/ip-d-j-link-rootns.json)."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any

from podrail.host.seam import Ran
from podrail.host.twin import Netdev, PciFunction, TwinHost, VfSettings
from podrail.host.twins import net
from podrail.host.twins.programs.answer import compact, not_modelled, refused, said
from podrail.host.twins.programs.ip_routes import routes

_FLAGS = {
    net.LOOPBACK: "LOOPBACK",
    net.BROADCAST: "BROADCAST",
    net.MULTICAST: "MULTICAST",
    net.MASTER: "MASTER",
    net.SLAVE: "SLAVE",
    net.UP: "UP",
}
_FOREVER = 4294967295


def _flags(host: TwinHost, netdev: Netdev) -> list[str]:
    bits = net.flags(host, netdev)
    carrier = host.text(netdev.attribute("carrier")) == "1"
    names = [name for bit, name in _FLAGS.items() if bits & bit]
    if bits & net.UP and not carrier:
        names.insert(0, "NO-CARRIER")
    return [*names, "LOWER_UP"] if carrier else names


def _qdisc(netdev: Netdev) -> str:
    if netdev.pci is None and netdev.bus is None:
        return "noqueue"
    if not netdev.qdisc:
        return "noop"
    return "mq" if netdev.queues > 1 else "fq_codel"


def _basics(host: TwinHost, netdev: Netdev, linkmode: bool) -> dict[str, Any]:
    flags = _flags(host, netdev)
    out: dict[str, Any] = {"ifindex": netdev.ifindex}
    if netdev.lower:
        out["link"] = netdev.lower
    out |= {"ifname": netdev.name, "flags": flags}
    out |= {"mtu": int(host.text(netdev.attribute("mtu"), "0"))}
    out["qdisc"] = _qdisc(netdev)
    if netdev.master:
        out["master"] = netdev.master
    out["operstate"] = host.text(netdev.attribute("operstate")).upper()
    if linkmode:
        out["linkmode"] = "DEFAULT"
    out |= {"group": "default", "txqlen": int(host.text(netdev.attribute("tx_queue_len"), "0"))}
    address = host.text(netdev.attribute("address"))
    kind = "loopback" if netdev.name == "lo" else net.link_type(address)
    broadcast = host.text(netdev.attribute("broadcast"))
    out |= {"link_type": kind, "address": address, "broadcast": broadcast}
    return out | ({"permaddr": netdev.permanent} if netdev.permanent else {})


def _linkinfo(host: TwinHost, netdev: Netdev) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if netdev.kind:
        out["info_kind"] = netdev.kind
    if netdev.kind == "vlan":
        data = {"protocol": "802.1Q", "id": netdev.vlan, "flags": ["REORDER_HDR"]}
        out["info_data"] = data
    if netdev.kind == "bond":
        out["info_data"] = {"mode": "802.3ad", "miimon": 100, "xmit_hash_policy": "layer3+4"}
    master = host.netdevs.get(netdev.master or "")
    if master:
        out["info_slave_kind"] = master.kind
        if master.kind == "bond":
            out["info_slave_data"] = {"state": "ACTIVE", "mii_status": "UP"}
    return out


def _details(host: TwinHost, netdev: Netdev) -> dict[str, Any]:
    out: dict[str, Any] = {"promiscuity": 0, "allmulti": 0}
    loopback = netdev.name == "lo"
    out["min_mtu"] = 0 if loopback else netdev.min_mtu
    out["max_mtu"] = 0 if loopback else netdev.max_mtu
    if info := _linkinfo(host, netdev):
        out["linkinfo"] = info
    out |= {"inet6_addr_gen_mode": "eui64"}
    out |= {"num_tx_queues": netdev.queues, "num_rx_queues": netdev.queues}
    out |= {"gso_max_size": 65536, "gso_max_segs": 65535}
    out |= {"tso_max_size": 524280 if loopback else 65536, "tso_max_segs": 65535}
    out |= {"gro_max_size": 65536, "gso_ipv4_max_size": 65536, "gro_ipv4_max_size": 65536}
    if netdev.bus:
        out |= {"parentbus": netdev.bus[0], "parentdev": netdev.bus[1]}
    return out


def _vf(index: int, vf: VfSettings) -> dict[str, Any]:
    """iproute2 ip/ipaddress.c:print_vfinfo."""
    vlan: dict[str, Any] = {"vlan": vf.vlan} if vf.vlan else {}
    if vf.qos:
        vlan["qos"] = vf.qos
    out: dict[str, Any] = {"vf": index, "link_type": "ether", "address": vf.mac}
    out |= {"broadcast": net.ETHER_BROADCAST, "vlan_list": [vlan]}
    if vf.max_tx:
        out["tx_rate"] = vf.max_tx
    out["rate"] = {"max_tx": vf.max_tx, "min_tx": vf.min_tx}
    return out | {"spoofchk": vf.spoofchk, "link_state": vf.state, "trust": vf.trust}


def _ib_vf(index: int, vf: VfSettings, address: str) -> dict[str, Any]:
    """The PF's own address for every VF (ipoib_main.c:ipoib_get_vf_config), and the GUIDs."""
    out: dict[str, Any] = {"vf": index, "link_type": "infiniband", "address": address}
    out |= {"broadcast": net.IB_BROADCAST, "vlan_list": [{}]}
    out |= {"rate": {"max_tx": 0, "min_tx": 0}, "spoofchk": False}
    out |= {"node guid": vf.node_guid, "port guid": vf.port_guid}
    return out | {"link_state": vf.state, "trust": False, "query_rss_en": False}


def _vfs(pf: PciFunction, address: str) -> list[dict[str, Any]]:
    if pf.spec.port and pf.spec.port.infiniband:
        return [_ib_vf(i, vf, address) for i, vf in enumerate(pf.settings)]
    mlx5 = {"query_rss_en": False} if pf.spec.vendor == 0x15B3 else {}
    return [_vf(i, vf) | mlx5 for i, vf in enumerate(pf.settings)]


def link(host: TwinHost, netdev: Netdev, details: bool) -> dict[str, Any]:
    """One entry of `ip -j link show`."""
    out = _basics(host, netdev, linkmode=True)
    if details:
        out |= _details(host, netdev)
    function = host.functions.get(netdev.pci or "")
    if function and function.spec.sriov:
        out["vfinfo_list"] = _vfs(function, out["address"])
    if netdev.altnames:
        out["altnames"] = list(netdev.altnames)
    return out


def _address(netdev: Netdev, text: str) -> dict[str, Any]:
    interface = ipaddress.ip_interface(text)
    out: dict[str, Any] = {"family": "inet" if interface.version == 4 else "inet6"}
    out |= {"local": str(interface.ip), "prefixlen": interface.network.prefixlen}
    if interface.version == 4 and netdev.name != "lo":
        out["broadcast"] = str(interface.network.broadcast_address)
    scope = "link" if interface.ip.is_link_local else "global"
    out["scope"] = "host" if interface.ip.is_loopback else scope
    if interface.version == 4:
        out["label"] = netdev.name
    return out | {"valid_life_time": _FOREVER, "preferred_life_time": _FOREVER}


def addresses(host: TwinHost, netdev: Netdev) -> dict[str, Any]:
    """One entry of `ip -j addr show`."""
    out = _basics(host, netdev, linkmode=False)
    if netdev.altnames:
        out["altnames"] = list(netdev.altnames)
    return out | {"addr_info": [_address(netdev, text) for text in net.addresses(host, netdev)]}


def show(host: TwinHost, argv: Sequence[str], options: str, words: list[str]) -> Ran:
    """Everything `ip` shows, always as JSON."""
    if "j" not in options:
        return not_modelled(argv)
    what, rest = words[0], [w for w in words[1:] if w not in ("show", "list", "dev")]
    if what == "route":
        versions = (6,) if "6" in options else (4,) if "4" in options or not rest else (4, 6)
        found = routes(host, versions, rest == ["table", "all"])
        if rest == ["default"]:
            found = [r for r in found if r["dst"] == "default"]
        return said(argv, f"{compact(found)}\n")
    return _show_links(host, argv, "d" in options, what, rest)


def _show_links(
    host: TwinHost, argv: Sequence[str], details: bool, what: str, rest: list[str]
) -> Ran:
    chosen = sorted(host.netdevs.values(), key=lambda n: n.ifindex)
    if rest:
        chosen = [n for n in chosen if rest[0] in (n.name, *n.altnames)]
        if not chosen:
            return refused(argv, 1, f'Device "{rest[0]}" does not exist.')
    if what == "link":
        return said(argv, f"{compact([link(host, n, details) for n in chosen])}\n")
    return said(argv, f"{compact([addresses(host, n) for n in chosen])}\n")
