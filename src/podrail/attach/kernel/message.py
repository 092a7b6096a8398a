"""rtnetlink messages: packing and reading. Layouts from include/uapi/linux/{netlink,rtnetlink,
if_link,if_addr}.h. Pure."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator
from dataclasses import dataclass

NEWLINK, DELLINK, GETLINK, SETLINK = 16, 17, 18, 19
NEWADDR, GETADDR, NEWROUTE = 20, 22, 24
NEWLINKPROP, DELLINKPROP = 108, 109
ERROR, DONE = 2, 3
REQUEST, MULTI, ACK = 0x1, 0x2, 0x4
REPLACE, EXCLUSIVE, CREATE, DUMP = 0x100, 0x200, 0x400, 0x300
_NESTED = 0x8000

IFF_UP = 0x1
_ADDRESS, _IFNAME, _MTU, _VFINFO_LIST, _NET_NS_FD, _EXT_MASK = 1, 3, 4, 22, 28, 29
_PROP_LIST, _ALT_IFNAME, _PARENT = 52, 53, 56
_FILTER_VF = 1
_VF_INFO, _VF_MAC, _VF_VLAN, _VF_SPOOFCHK, _VF_STATE, _VF_RATE, _VF_TRUST = 1, 1, 2, 4, 5, 6, 9
_VF_NODE_GUID, _VF_PORT_GUID, _VF_VLAN_LIST, _VF_VLAN_INFO = 10, 11, 12, 1
_STATES = {"auto": 0, "enable": 1, "disable": 2}
_PROTOCOLS = {"802.1q": 0x8100, "802.1ad": 0x88A8}

_HEADER = struct.Struct("=IHHII")
_LINK = struct.Struct("=BxHiII")
_ADDR = struct.Struct("=BBBBI")
_ROUTE = struct.Struct("=BBBBBBBBI")
_ATTRIBUTE = struct.Struct("=HH")
_ERRNO = struct.Struct("=i")

Network = ipaddress.IPv4Interface | ipaddress.IPv6Interface


@dataclass(frozen=True, slots=True)
class Link:
    """What a link message tells that an attachment needs."""

    index: int
    name: str
    up: bool
    mtu: int
    address: str
    altnames: tuple[str, ...] = ()
    parent: str = ""
    """The device it belongs to, such as a PCI address; since Linux 5.14."""


@dataclass(frozen=True, slots=True)
class VfWords:
    """What a PF's administrator can say of one VF; None is: say nothing."""

    index: int
    mac: str | None = None
    vlan: int | None = None
    qos: int = 0
    proto: str = "802.1q"
    spoofchk: bool | None = None
    trust: bool | None = None
    state: str | None = None
    min_rate: int | None = None
    max_rate: int | None = None
    guid: str | None = None


def attribute(kind: int, payload: bytes) -> bytes:
    padding = b"\0" * (-len(payload) % 4)
    return _ATTRIBUTE.pack(4 + len(payload), kind) + payload + padding


def nested(kind: int, *inside: bytes) -> bytes:
    return attribute(kind | _NESTED, b"".join(inside))


def text(kind: int, value: str) -> bytes:
    return attribute(kind, value.encode() + b"\0")


def number(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=I", value))


def octets(value: str) -> bytes:
    return bytes.fromhex(value.replace(":", ""))


def message(kind: int, flags: int, sequence: int, body: bytes) -> bytes:
    return _HEADER.pack(16 + len(body), kind, flags, sequence, 0) + body


# --- links ------------------------------------------------------------------------------------


def get_link(*, index: int = 0, name: str = "") -> bytes:
    by_name = text(_IFNAME, name) if name else b""
    return _LINK.pack(0, 0, index, 0, 0) + by_name


def set_link(
    index: int, *, up: bool | None = None, name: str | None = None, mtu: int | None = None,
    address: str | None = None, namespace: int | None = None,
) -> bytes:  # fmt: skip
    """What is given is set, in one message; the kernel takes the namespace first
    (net/core/rtnetlink.c:do_setlink)."""
    flags, change = (IFF_UP if up else 0, IFF_UP) if up is not None else (0, 0)
    parts = [_LINK.pack(0, 0, index, flags, change)]
    if namespace is not None:
        parts.append(number(_NET_NS_FD, namespace))
    if name is not None:
        parts.append(text(_IFNAME, name))
    if mtu is not None:
        parts.append(number(_MTU, mtu))
    if address is not None:
        parts.append(attribute(_ADDRESS, octets(address)))
    return b"".join(parts)


def altname(index: int, name: str) -> bytes:
    return _LINK.pack(0, 0, index, 0, 0) + nested(_PROP_LIST, text(_ALT_IFNAME, name))


def set_vf(pf: int, vf: VfWords) -> bytes:
    """`ip link set PF vf N …`, all of it at once."""
    info = nested(_VF_INFO, *_vf_words(vf))
    return _LINK.pack(0, 0, pf, 0, 0) + nested(_VFINFO_LIST, info)


def _vf_words(vf: VfWords) -> Iterator[bytes]:
    if vf.mac is not None:
        yield attribute(_VF_MAC, struct.pack("=I32s", vf.index, octets(vf.mac)))
    if vf.vlan is not None:
        yield _vlan(vf)
    if vf.spoofchk is not None:
        yield attribute(_VF_SPOOFCHK, struct.pack("=II", vf.index, vf.spoofchk))
    if vf.min_rate is not None or vf.max_rate is not None:
        rates = struct.pack("=III", vf.index, vf.min_rate or 0, vf.max_rate or 0)
        yield attribute(_VF_RATE, rates)
    if vf.trust is not None:
        yield attribute(_VF_TRUST, struct.pack("=II", vf.index, vf.trust))
    if vf.state is not None:
        yield attribute(_VF_STATE, struct.pack("=II", vf.index, _STATES[vf.state]))
    if vf.guid is not None:
        guid = struct.pack("=I4xQ", vf.index, int(vf.guid.replace(":", ""), 16))
        yield attribute(_VF_NODE_GUID, guid)
        yield attribute(_VF_PORT_GUID, guid)


def _vlan(vf: VfWords) -> bytes:
    """A plain 802.1q tag has its own attribute, which old kernels know too (ip/iplink.c)."""
    assert vf.vlan is not None
    if vf.proto == "802.1q":
        return attribute(_VF_VLAN, struct.pack("=III", vf.index, vf.vlan, vf.qos))
    packed = struct.pack("=III", vf.index, vf.vlan, vf.qos)
    packed += struct.pack("!H2x", _PROTOCOLS[vf.proto])
    return nested(_VF_VLAN_LIST, attribute(_VF_VLAN_INFO, packed))


# --- addresses and routes -----------------------------------------------------------------------


def add_address(index: int, interface: Network, *, optimistic: bool = False) -> bytes:
    family = 2 if interface.version == 4 else 10  # AF_INET, AF_INET6
    packed = interface.ip.packed
    body = _ADDR.pack(family, interface.network.prefixlen, 0x04 if optimistic else 0, 0, index)
    body += attribute(2, packed) + attribute(1, packed)  # IFA_LOCAL, IFA_ADDRESS
    if interface.version == 4 and interface.network.prefixlen < 31:
        body += attribute(4, interface.network.broadcast_address.packed)
    return body


def add_route(
    index: int, destination: ipaddress.IPv4Network | ipaddress.IPv6Network, gateway: str | None
) -> bytes:
    """A route out of one link; on it, where no gateway is given."""
    family = 2 if destination.version == 4 else 10
    scope = 0 if gateway or family == 10 else 253  # RT_SCOPE_UNIVERSE, RT_SCOPE_LINK
    length = destination.prefixlen
    body = _ROUTE.pack(family, length, 0, 0, 254, 4, scope, 1, 0)  # main, static, unicast
    if length:
        body += attribute(1, destination.network_address.packed)
    if gateway:
        body += attribute(5, ipaddress.ip_address(gateway).packed)
    return body + number(4, index)


# --- reading ------------------------------------------------------------------------------------


def messages(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """(type, flags, sequence, body) of each message; what is cut short is left out."""
    at = 0
    while at + 16 <= len(data):
        length, kind, flags, sequence, _ = _HEADER.unpack_from(data, at)
        if length < 16 or at + length > len(data):
            return
        yield kind, flags, sequence, data[at + 16 : at + length]
        at += length + (-length % 4)


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < 4 or at + length > len(data):
            return
        yield kind & 0x3FFF, data[at + 4 : at + length]
        at += length + (-length % 4)


def error_of(body: bytes) -> int:
    """The errno of an answer, 0 for an acknowledgement."""
    return -int(_ERRNO.unpack_from(body)[0])


def link_of(body: bytes) -> Link:
    _, _, index, flags, _ = _LINK.unpack_from(body)
    found = dict(attributes(body[_LINK.size :]))
    names = attributes(found.get(_PROP_LIST, b""))
    return Link(
        index,
        _string(found.get(_IFNAME, b"")),
        bool(flags & IFF_UP),
        struct.unpack("=I", found.get(_MTU, b"\0" * 4))[0],
        found.get(_ADDRESS, b"").hex(":"),
        tuple(_string(value) for kind, value in names if kind == _ALT_IFNAME),
        _string(found.get(_PARENT, b"")),
    )


def _string(value: bytes) -> str:
    return value.rstrip(b"\0").decode("utf-8", "replace")
