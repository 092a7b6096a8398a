"""Netdevs of a twin: their sysfs attributes, and what happens to them."""

from __future__ import annotations

import errno
import ipaddress
import re
import zlib

from podrail.host.memory import Content
from podrail.host.twin import Netdev, PciFunction, TwinHost, fail
from podrail.host.twins.numbers import kstrtoul
from podrail.host.twins.pci import up

UP, BROADCAST, LOOPBACK, MASTER, SLAVE, MULTICAST = 0x1, 0x2, 0x8, 0x400, 0x800, 0x1000  # IFF_*

ETHER_BROADCAST = "ff:ff:ff:ff:ff:ff"
IB_BROADCAST = "00:ff:ff:ff:ff:12:40:1b:ff:ff:00:00:00:00:00:00:ff:ff:ff:ff"
TYPES = {"loopback": "772", "infiniband": "32", "ether": "1"}  # ARPHRD_*


def invented_mac(seed: str) -> str:
    """A locally administered address, as eth_random_addr() makes one, but the same every run."""
    first, second = zlib.crc32(seed.encode()), zlib.adler32(seed.encode())
    octets = first.to_bytes(4, "big") + (second & 0xFFFF).to_bytes(2, "big")
    return bytes([octets[0] & 0xFE | 0x02, *octets[1:]]).hex(":")


def link_type(address: str) -> str:
    if len(address) > 17:
        return "infiniband"
    return "ether"


def _flags(netdev: Netdev, is_up: bool) -> int:
    if netdev.name == "lo":
        return LOOPBACK | (UP if is_up else 0)
    flags = BROADCAST | MULTICAST | (UP if is_up else 0)
    flags |= SLAVE if netdev.master and netdev.master.startswith("bond") else 0
    return flags | (MASTER if netdev.kind == "bond" else 0)


def _attributes(netdev: Netdev, address: str, mtu: int, is_up: bool) -> dict[str, Content]:
    kind = "loopback" if netdev.name == "lo" else link_type(address)
    brd = {"infiniband": IB_BROADCAST, "ether": ETHER_BROADCAST}.get(kind, address)
    return {
        "address": f"{address}\n",
        "addr_assign_type": f"{3 if netdev.permanent else 0}\n",  # NET_ADDR_SET: udev's
        "addr_len": f"{len(address.split(':'))}\n",
        "broadcast": f"{brd}\n",
        "dev_id": "0x0\n",
        "dev_port": "0\n",
        "flags": f"0x{_flags(netdev, is_up):x}\n",
        "ifindex": f"{netdev.ifindex}\n",
        "iflink": f"{netdev.ifindex}\n",
        "mtu": f"{mtu}\n",
        "tx_queue_len": "256\n" if kind == "infiniband" else "1000\n",
        "type": f"{TYPES[kind]}\n",
    }


def add(host: TwinHost, netdev: Netdev, address: str, mtu: int, *, is_up: bool) -> None:
    """Register a netdev: its directory, its place in /sys/class/net, its state."""
    host.put_all(netdev.path, _attributes(netdev, address, mtu, is_up))
    host.put_link(netdev.attribute("subsystem"), f"{up(netdev.path)}class/net")
    if netdev.pci:
        host.put_link(netdev.attribute("device"), f"../../../{netdev.pci}")
    elif netdev.bus:
        host.put_link(netdev.attribute("device"), f"../../../{netdev.bus[1]}")
    host.put_link(f"/sys/class/net/{netdev.name}", f"../..{netdev.path[4:]}")
    host.netdevs[netdev.name] = netdev
    netdev.qdisc = is_up
    show_carrier(host, netdev)
    _announce(host, netdev)


def _announce(host: TwinHost, netdev: Netdev) -> None:
    """net/core/dev.c:register_netdevice: the kobject, then the link, under the kernel's name."""
    if not host.watched:
        return
    name = _born(host, netdev)
    host.uevent("add", f"{netdev.path.rpartition('/')[0]}/{name}", "net", name)
    host.link_event("new", name)


def _born(host: TwinHost, netdev: Netdev) -> str:
    """The name a netdev has until udev has been there (tests/data/lab/udev-4-vfs.txt)."""
    if netdev.pci is None or host.machine is None or not host.machine.predictable_names:
        return netdev.name
    infiniband = host.text(netdev.attribute("type")) == TYPES["infiniband"]
    return free_name(host, "ib" if infiniband else "eth")


def tell_name(host: TwinHost, netdev: Netdev) -> None:
    """udev's rename after the driver is bound; a twin's netdev has the name from the start."""
    if host.watched and _born(host, netdev) != netdev.name:
        _tell_move(host, netdev)


def _tell_move(host: TwinHost, netdev: Netdev) -> None:
    """net/core/dev.c:dev_change_name: device_rename, then NETDEV_CHANGENAME."""
    host.uevent("move", netdev.path, "net", netdev.name)
    host.link_event("new", netdev.name)


def show_carrier(host: TwinHost, netdev: Netdev) -> None:
    """carrier, operstate and speed as net/core/net-sysfs.c shows them for this state."""
    running = bool(flags(host, netdev) & UP)
    carrier = running and (netdev.speed != 0 or netdev.pci is None)
    software = netdev.name == "lo" or netdev.kind == "openvswitch"
    state = "unknown" if carrier and software else "up" if carrier else "down"
    speed: Content = f"{netdev.speed or -1}\n"
    host.put(netdev.attribute("carrier"), f"{int(carrier)}\n" if running else errno.EINVAL)
    host.put(netdev.attribute("operstate"), f"{state}\n")
    host.put(netdev.attribute("speed"), errno.EINVAL if software or not running else speed)
    if running and not carrier:
        host.put(netdev.attribute("speed"), "-1\n")


def flags(host: TwinHost, netdev: Netdev) -> int:
    return int(host.text(netdev.attribute("flags"), "0x0"), 16)


def addresses(host: TwinHost, netdev: Netdev) -> tuple[str, ...]:
    """Those given to it, and the link-local one of a link that carries (addrconf_dad_start)."""
    mac = host.text(netdev.attribute("address"))
    without = netdev.name == "lo" or netdev.master is not None or link_type(mac) != "ether"
    if without or host.text(netdev.attribute("carrier")) != "1":
        return netdev.addresses
    octets = bytes.fromhex(mac.replace(":", ""))
    suffix = bytes([octets[0] ^ 2, *octets[1:3], 0xFF, 0xFE, *octets[3:]])
    own = ipaddress.IPv6Address(bytes.fromhex("fe80000000000000") + suffix)
    return (*netdev.addresses, f"{own}/64")


def set_up(host: TwinHost, netdev: Netdev, is_up: bool) -> None:
    """`ip link set NAME up|down`."""
    now = flags(host, netdev)
    netdev.qdisc = netdev.qdisc or is_up
    if now & UP and not is_up:  # igbvf_reset makes the address it has its permanent one
        netdev.permanent = None
    host.put(netdev.attribute("flags"), f"0x{now | UP if is_up else now & ~UP:x}\n")
    show_carrier(host, netdev)
    if bool(now & UP) != is_up:  # net/core/dev.c:__dev_notify_flags
        host.link_event("new", netdev.name)


def forget(host: TwinHost, name: str) -> None:
    """Unregister a netdev."""
    netdev = host.netdevs.pop(name)
    host.remove(f"/sys/class/net/{name}")
    host.remove(netdev.path)
    above = netdev.path.rpartition("/")[0]
    if above.endswith("/net") and not host.names(above):
        host.remove(above)
    # net/core/dev.c:unregister_netdevice_many_notify
    host.link_event("del", name)
    host.uevent("remove", netdev.path, "net", name)


def rename(host: TwinHost, netdev: Netdev, new: str) -> None:
    """net/core/dev.c:dev_change_name, without the checks."""
    old = netdev.path
    place = f"{old.rpartition('/')[0]}/{new}"
    for name in tuple(host.names(old)):
        host.move(f"{old}/{name}", f"{place}/{name}")
    host.remove(f"/sys/class/net/{netdev.name}")
    host.remove(old)
    host.put_link(f"/sys/class/net/{new}", f"../..{place[4:]}")
    del host.netdevs[netdev.name]
    host.netdevs[new] = netdev
    owner = host.functions.get(netdev.pci or "")
    if owner and owner.netdev == netdev.name:
        owner.netdev = new
    netdev.name, netdev.path = new, place
    _tell_move(host, netdev)


def set_mtu(host: TwinHost, netdev: Netdev, mtu: int) -> str | None:
    """net/core/dev.c:dev_validate_mtu; the message is its netlink extack, None when accepted."""
    if mtu < netdev.min_mtu:
        return "mtu less than device minimum"
    if netdev.max_mtu and mtu > netdev.max_mtu:
        return "mtu greater than device maximum"
    if host.text(netdev.attribute("mtu")) != str(mtu):  # net/core/dev.c:dev_set_mtu
        host.put(netdev.attribute("mtu"), f"{mtu}\n")
        host.link_event("new", netdev.name)
    return None


def store_mtu(host: TwinHost, real: str, text: str) -> None:
    """net/core/net-sysfs.c:mtu_store."""
    netdev = host.netdevs.get(real.rsplit("/", 2)[1])
    mtu = kstrtoul(text)
    if netdev is None or mtu is None or set_mtu(host, netdev, mtu) is not None:
        raise fail(errno.EINVAL, real)


def free_name(host: TwinHost, pattern: str) -> str:
    """net/core/dev.c:__dev_alloc_name: the lowest number that is free."""
    number = 0
    while f"{pattern}{number}" in host.netdevs:
        number += 1
    return f"{pattern}{number}"


def vf_name(host: TwinHost, function: PciFunction) -> str:
    """The PF's name and `vN` (systemd.net-naming-scheme(7), v239), or the kernel's own."""
    pf = function.physfn
    assert pf is not None
    machine = host.machine
    if machine is None or not machine.predictable_names or pf.spec.port is None:
        return free_name(host, "eth")
    return _of_vf(pf.spec.port.name, function)


def _of_vf(name: str, function: PciFunction) -> str:
    """A PF's name without its port (`npN`), and the VF's number."""
    return f"{re.sub(r'np[0-9]+$', '', name)}v{function.index}"


def vf_altnames(host: TwinHost, function: PciFunction, own: str | None) -> tuple[str, ...]:
    """The PF's other names and `vN`; that of the MAC only where it is not a random one."""
    pf, machine = function.physfn, host.machine
    if machine is None or not machine.predictable_names or pf is None or pf.spec.port is None:
        return ()
    names = (name for name in pf.spec.port.altnames if not name.startswith("enx"))
    found = [_of_vf(name, function) for name in names]
    if own and machine.mac_altnames:
        found.append(f"enx{own.replace(':', '')}")
    return tuple(found)
