"""`ip link set` of a twin: what iproute2 refuses itself, and what each driver refuses."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Sequence
from typing import NoReturn

from podrail.host.seam import Ran
from podrail.host.twin import Netdev, PciFunction, TwinHost, VfSettings
from podrail.host.twins import drivers, net, verbs
from podrail.host.twins.programs.answer import not_modelled, refused, said

_MAC = re.compile(r"(?:[0-9a-fA-F]{1,2}:){5}[0-9a-fA-F]{1,2}\Z")
_GUID = re.compile(r"(?:[0-9a-fA-F]{2}:){7}[0-9a-fA-F]{2}\Z")
_STATES = ("auto", "enable", "disable")
_RATES = ("rate", "max_tx_rate", "min_tx_rate")

_ETHERNET = {"mac", "vlan", "rate", "spoofchk", "trust"}
ACCEPTS: dict[str, set[str]] = {
    "igb": _ETHERNET,
    "mlx5_core": _ETHERNET | {"state"},
    "i40e": _ETHERNET | {"state"},
    "ixgbe": _ETHERNET | {"state"},
    "ipoib": {"state", "guid"},
}
"""Driver → the ndo_set_vf_* it has. IPoIB PFs take nothing but state and GUIDs
(ipoib_main.c:ipoib_netdev_ops_pf); GUIDs mean nothing on Ethernet (rtnetlink.c:handle_vf_guid)."""


class Refused(Exception):
    """`ip` exits with this code and message."""

    def __init__(self, rc: int, message: str) -> None:
        super().__init__(message)
        self.rc = rc
        self.message = message


def kernel_says(code: int) -> NoReturn:
    """A netlink error without an extended message."""
    raise Refused(2, f"RTNETLINK answers: {os.strerror(code)}")


def wrong(value: str, name: str) -> NoReturn:
    """iproute2 lib/utils.c:invarg."""
    raise Refused(255, f'Error: argument "{value}" is wrong: Invalid "{name}" value\n')


def _number(value: str, name: str, top: int = 2**32 - 1) -> int:
    try:
        number = int(value, 0)
    except ValueError:
        wrong(value, name)
    if not 0 <= number <= top:
        wrong(value, name)
    return number


def _switch(value: str, name: str) -> bool:
    if value not in ("on", "off"):
        raise Refused(1, f'Error: argument of "{name}" must be one of "off", "on", not "{value}"')
    return value == "on"


def set_link(host: TwinHost, argv: Sequence[str], words: list[str]) -> Ran:
    """`ip link set [dev] NAME …`."""
    rest = words[1:] if words[:1] == ["dev"] else words
    try:
        if len(rest) < 2:
            raise Refused(255, 'Not enough of information: "dev" argument is required.')
        netdev = host.netdevs.get(rest[0])
        if netdev is None:
            raise Refused(1, f'Cannot find device "{rest[0]}"')
        done = _set_vf(host, netdev, rest[2:]) if rest[1] == "vf" else _set(host, netdev, rest[1:])
    except Refused as no:
        return refused(argv, no.rc, no.message)
    return said(argv, "") if done else not_modelled(argv)


def _set(host: TwinHost, netdev: Netdev, words: list[str]) -> bool:
    match words:
        case ["up" | "down" as way]:
            net.set_up(host, netdev, way == "up")
        case ["mtu", value]:
            if complaint := net.set_mtu(host, netdev, _number(value, "mtu")):
                raise Refused(2, f"Error: {complaint}.")
        case ["name", new]:
            _rename(host, netdev, new)
        case ["address", mac]:
            _set_address(host, netdev, mac)
        case _:
            return False
    verbs.follow(host, netdev)
    return True


def _rename(host: TwinHost, netdev: Netdev, new: str) -> None:
    """net/core/dev.c:dev_change_name; since 6.2 also while it is up."""
    taken = {name for n in host.netdevs.values() for name in (n.name, *n.altnames)}
    if net.flags(host, netdev) & net.UP and host.kernel < (6, 2):
        kernel_says(errno.EBUSY)
    if new in taken:
        kernel_says(errno.EEXIST)
    net.rename(host, netdev, new)


def _set_address(host: TwinHost, netdev: Netdev, mac: str) -> None:
    """A VF that is not trusted keeps the MAC its administrator gave it."""
    if not _MAC.match(mac):
        raise Refused(1, f'"{mac}" is invalid lladdr.')
    mac, born = mac.lower(), netdev.permanent or host.text(netdev.attribute("address"))
    function = host.functions.get(netdev.pci or "")
    if function and function.physfn and drivers.heard(host, function):
        vf = function.physfn.settings[function.index]
        if vf.admin_mac and mac != vf.mac and not vf.trust:
            kernel_says(errno.EADDRNOTAVAIL)
        vf.mac = mac
    netdev.permanent = born if mac != born else None
    host.put(netdev.attribute("address"), f"{mac}\n")
    host.put(netdev.attribute("addr_assign_type"), "3\n")  # NET_ADDR_SET


# --- vf N … -----------------------------------------------------------------------------------


def _kind(host: TwinHost, function: PciFunction) -> str:
    driver = host.driver(function) or ""
    port = function.spec.port
    return "ipoib" if port and port.infiniband else driver


def _set_vf(host: TwinHost, netdev: Netdev, words: list[str]) -> bool:
    if len(words) < 3:
        raise Refused(255, 'Command line is not complete. Try option "help"')
    index = _number(words[0], "vf")
    function = host.functions.get(netdev.pci or "")
    accepts = ACCEPTS.get(_kind(host, function), set()) if function else set[str]()
    changes = _parse_vf(words[1:])
    for group, _ in changes:
        if group not in accepts or function is None:
            kernel_says(errno.EOPNOTSUPP)
    assert function is not None
    if index >= len(function.settings):
        kernel_says(errno.EINVAL)
    for _, change in changes:
        change(host, function, function.settings[index])
    return True


Change = tuple[str, Callable[[TwinHost, PciFunction, VfSettings], None]]


def _parse_vf(words: list[str]) -> list[Change]:
    """iproute2 ip/iplink.c:iplink_parse_vf; VLAN and rates are one netlink attribute each."""
    pairs = dict(zip(words[::2], words[1::2], strict=False))
    changes: list[Change] = []
    for name, value in pairs.items():
        if (name in ("qos", "proto") and "vlan" in pairs) or name in ("max_tx_rate", "min_tx_rate"):
            continue
        changes.append(_change(name, value, pairs))
    if any(name in pairs for name in ("max_tx_rate", "min_tx_rate")):
        changes.append(_rates(pairs))
    return changes


def _change(name: str, value: str, pairs: dict[str, str]) -> Change:
    match name:
        case "mac":
            return _mac(value)
        case "vlan":
            return _vlan(value, pairs)
        case "rate":
            return _rates({"max_tx_rate": value})
        case "spoofchk" | "trust":
            return _toggle(name, _switch(value, name))
        case "state":
            if value not in _STATES:
                wrong(value, "state")
            return _toggle("state", value)
        case "node_guid" | "port_guid":
            if not _GUID.match(value):
                raise Refused(255, f'Error: argument "{value}" is wrong: Invalid GUID format\n')
            return "guid", _toggle(name, value.lower())[1]
    raise Refused(255, 'Command line is not complete. Try option "help"')


def _toggle(name: str, value: bool | str) -> Change:
    def change(host: TwinHost, pf: PciFunction, vf: VfSettings) -> None:
        setattr(vf, name, value)

    return name, change


def _mac(value: str) -> Change:
    if not _MAC.match(value):
        raise Refused(1, f'"{value}" is invalid lladdr.')

    def change(host: TwinHost, pf: PciFunction, vf: VfSettings) -> None:
        if int(value.split(":")[0], 16) & 1:  # igb_ndo_set_vf_mac: is_valid_ether_addr
            kernel_says(errno.EINVAL)
        vf.mac, vf.admin_mac = value.lower(), value != "00:00:00:00:00:00"

    return "mac", change


def _vlan(value: str, pairs: dict[str, str]) -> Change:
    vlan = _number(value, "vlan", 4095)
    qos = _number(pairs.get("qos", "0"), "qos")
    proto = pairs.get("proto", "802.1Q")

    def change(host: TwinHost, pf: PciFunction, vf: VfSettings) -> None:
        if qos > 7:
            kernel_says(errno.EINVAL)
        if proto.lower() != "802.1q":  # igb_ndo_set_vf_vlan, mlx5e_set_vf_vlan
            kernel_says(errno.EPROTONOSUPPORT)
        vf.vlan, vf.qos = vlan, qos

    return "vlan", change


def _rates(pairs: dict[str, str]) -> Change:
    top = _number(pairs["max_tx_rate"], "max_tx_rate") if "max_tx_rate" in pairs else None
    low = _number(pairs["min_tx_rate"], "min_tx_rate") if "min_tx_rate" in pairs else None

    def change(host: TwinHost, pf: PciFunction, vf: VfSettings) -> None:
        most = vf.max_tx if top is None else top
        least = vf.min_tx if low is None else low
        if most and least > most:  # net/core/rtnetlink.c:rtnl_set_vf_rate
            kernel_says(errno.EINVAL)
        if host.driver(pf) == "igb":
            _igb_rate(host, pf, most, least)
        vf.max_tx, vf.min_tx = most, least

    return "rate", change


def _igb_rate(host: TwinHost, pf: PciFunction, most: int, least: int) -> None:
    """igb_main.c:igb_ndo_set_vf_bw: no minimum, a link, and not more than it carries."""
    place = f"{pf.path}/net/{pf.netdev}"
    speed = int(host.text(f"{place}/speed", "-1"))
    if least or host.text(f"{place}/carrier") != "1" or most > speed:
        kernel_says(errno.EINVAL)
