"""RDMA devices, their ports and GIDs, and the fabrics they belong to."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from podrail.inventory.links import Links
from podrail.inventory.pci import ADDRESS, DEVICES, Tree
from podrail.inventory.reader import Reader, as_dict, as_dicts, as_int, as_str, guid_of, number
from podrail.model.inventory import Fabric, Gid, RdmaDevice, RdmaPort

_CLASS = "/sys/class/infiniband"
_ZERO_GIDS = 16
_ZERO_PKEYS = 4
_TABLE = 1024
_IB_MTUS = (4096, 2048, 1024, 512, 256)
# iboe_get_mtu() in include/rdma/ib_addr.h: GRH 40, UDP 8, BTH 12, XRC 4, AtomicETH 28, ICRC 4
_ROCE_HEADERS = 40 + 8 + 12 + 4 + 28 + 4


@dataclass(frozen=True, slots=True)
class Told:
    """What the programs tell of all devices at once, so that a VF costs few reads."""

    devices: Mapping[str, dict[str, Any]]
    ports: Mapping[tuple[str, int], dict[str, Any]]
    resources: Mapping[str, dict[str, Any]]
    mtus: Mapping[tuple[str, int], int]


def read_devices(reader: Reader, tree: Tree, links: Links, told: Told) -> tuple[RdmaDevice, ...]:
    """Every device of /sys/class/infiniband."""
    return tuple(_device(reader, name, tree, links, told) for name in reader.names(_CLASS))


def netns_mode(reader: Reader) -> str | None:
    """`shared` or `exclusive`."""
    text = reader.output(("rdma", "-j", "system"))
    mode = netns_in(text) if text is not None else None
    if text is not None and mode is None:
        reader.note("program:rdma -j system", f"no netns mode in {text.strip()[:60]!r}")
    return mode


def netns_in(text: str) -> str | None:
    """The mode; `rdma -j system` of some releases prints its text form all the same."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        found = re.search(r"\bnetns (shared|exclusive)\b", text)
        return found[1] if found else None
    objects = as_dicts(parsed) or [as_dict(parsed)]
    mode = as_str(objects[0].get("netns"))
    return mode if mode in ("shared", "exclusive") else None


def mtus_in(text: str) -> dict[tuple[str, int], int]:
    """`ibv_devinfo` as (device, port) → active MTU."""
    found: dict[tuple[str, int], int] = {}
    device, port = "", 0
    for line in text.splitlines():
        key, _, value = (part.strip() for part in line.partition(":"))
        if key == "hca_id":
            device, port = value, 0
        elif key == "port":
            port = number(value) or 0
        elif key == "active_mtu":
            mtu = number(value.partition(" ")[0])
            if mtu is not None:
                found[device, port] = mtu
    return found


def roce_mtu(netdev_mtu: int) -> int | None:
    """The RDMA MTU that fits a netdev's, as the kernel computes it."""
    return next((mtu for mtu in _IB_MTUS if mtu <= netdev_mtu - _ROCE_HEADERS), None)


def tell(reader: Reader) -> Told:
    """What `rdma` and `ibv_devinfo` say; not run where the kernel shows no RDMA device."""
    if not reader.names(_CLASS):
        return Told({}, {}, {}, {})
    devices = as_dicts(reader.json(("rdma", "-j", "-d", "dev")))
    ports = as_dicts(reader.json(("rdma", "-j", "-d", "link")))
    resources = as_dicts(reader.json(("rdma", "-j", "resource")))
    return Told(
        devices={str(item.get("ifname")): item for item in devices},
        ports={(str(i.get("ifname")), as_int(i.get("port")) or 0): i for i in ports},
        resources={str(item.get("ifname")): item for item in resources},
        mtus=mtus_in(reader.output(("ibv_devinfo",)) or ""),
    )


def _device(reader: Reader, name: str, tree: Tree, links: Links, told: Told) -> RdmaDevice:
    at = f"{_CLASS}/{name}"
    pci = reader.link(f"{at}/device")
    pci = pci if pci and ADDRESS.fullmatch(pci) else None
    is_vf = pci is not None and tree.has(pci, "physfn")
    netdev = None if pci else reader.text(f"{at}/parent") or None
    said = told.devices.get(name, {})
    protocol = as_str(said.get("protocol"))
    numbers = sorted(filter(str.isdecimal, reader.names(f"{at}/ports")), key=int)
    read = _vf_port if is_vf else _port
    ports = tuple(read(reader, name, int(n), links, told) for n in numbers)
    return RdmaDevice(
        name=name,
        parent_pci=pci,
        parent_netdev=netdev,
        driver=_driver(reader, pci, protocol, netdev),
        protocol=protocol,
        node_guid=guid_of(said.get("node_guid")) or guid_of(reader.text(f"{at}/node_guid")),
        firmware=None if is_vf else reader.text(f"{at}/fw_ver") or None,
        board_id=None if is_vf else reader.text(f"{at}/board_id") or None,
        fabric=next((fabric for fabric in map(fabric_id, ports) if fabric), None),
        users=as_int(told.resources.get(name, {}).get("ctx")),
        ports=ports,
    )


def _driver(
    reader: Reader, pci: str | None, protocol: str | None, netdev: str | None
) -> str | None:
    if pci:
        return reader.link(f"{DEVICES}/{pci}/driver")
    soft = {"roce": "rdma_rxe", "iwarp": "siw"}
    return soft.get(protocol or "") if netdev else None


def _port(reader: Reader, name: str, n: int, links: Links, told: Told) -> RdmaPort:
    at = f"{_CLASS}/{name}/ports/{n}"
    return replace(
        _vf_port(reader, name, n, links, told),
        state=_after_colon(reader.text(f"{at}/state")),
        phys_state=_after_colon(reader.text(f"{at}/phys_state")),
        counters=_counters(reader, at),
    )


def _vf_port(reader: Reader, name: str, n: int, links: Links, told: Told) -> RdmaPort:
    """A port without its counters; its state comes from `rdma link`, which asks once for all."""
    at = f"{_CLASS}/{name}/ports/{n}"
    said = told.ports.get((name, n), {})
    layer = reader.text(f"{at}/link_layer") or ""
    infiniband = layer == "InfiniBand"
    gids = tuple(_gids(reader, at, infiniband))
    return RdmaPort(
        number=n,
        link_layer=layer,
        state=as_str(said.get("state")) or _after_colon(reader.text(f"{at}/state")),
        phys_state=as_str(said.get("physical_state")),
        rate=reader.text(f"{at}/rate") or None,
        active_mtu=told.mtus.get((name, n)) or _derived_mtu(layer, said, gids, links),
        lid=number(reader.text(f"{at}/lid"), 0) if infiniband else None,
        sm_lid=number(reader.text(f"{at}/sm_lid"), 0) if infiniband else None,
        prefix=gids[0].gid.replace(":", "")[:16] if infiniband and gids else None,
        gids=gids,
        pkeys=tuple(_pkeys(reader, at)) if infiniband else (),
    )


def _after_colon(text: str | None) -> str | None:
    """`4: ACTIVE` as `ACTIVE`."""
    return text.rpartition(":")[2].strip() or None if text else None


def _derived_mtu(
    layer: str, said: Mapping[str, Any], gids: tuple[Gid, ...], links: Links
) -> int | None:
    if layer != "Ethernet":
        return None
    names = [as_str(said.get("netdev")), *(gid.netdev for gid in gids)]
    mtus = (links.by_name[name].mtu for name in names if name in links.by_name)
    return next((roce_mtu(mtu) for mtu in mtus if mtu), None)


def _gids(reader: Reader, at: str, infiniband: bool) -> Iterable[Gid]:
    for index, gid in _table(reader, f"{at}/gids", _ZERO_GIDS, lambda t: t.strip("0:") == ""):
        attrs = f"{at}/gid_attrs"
        yield Gid(
            index=index,
            gid=gid,
            type="IB" if infiniband else reader.text(f"{attrs}/types/{index}", quiet=True) or None,
            # EINVAL where the netdev is in another namespace
            netdev=None
            if infiniband
            else reader.text(f"{attrs}/ndevs/{index}", quiet=True) or None,
        )


def _pkeys(reader: Reader, at: str) -> Iterable[str]:
    zero = {"0x0000", "0x0", "0"}
    return (key for _, key in _table(reader, f"{at}/pkeys", _ZERO_PKEYS, zero.__contains__))


def _table(
    reader: Reader, at: str, gap: int, empty: Callable[[str], bool]
) -> Iterable[tuple[int, str]]:
    """The used entries of a numbered table, until `gap` empty ones in a row or its end."""
    idle = 0
    for index in range(_TABLE):
        text = reader.text(f"{at}/{index}", quiet=True)
        if text is None or idle >= gap:
            return
        idle = idle + 1 if empty(text) else 0
        if not idle:
            yield index, text


def _counters(reader: Reader, at: str) -> dict[str, int]:
    found = {}
    for kind in ("counters", "hw_counters"):
        for name in reader.names(f"{at}/{kind}"):
            value = reader.integer(f"{at}/{kind}/{name}", quiet=True)
            if value is not None and name != "lifespan":
                found[name] = value
    return found


def by_function(devices: Iterable[RdmaDevice], links: Links, told: Told) -> dict[str, RdmaDevice]:
    """PCI address → its RDMA device: its own, or a software one (Soft-RoCE) on its netdev."""
    found: dict[str, RdmaDevice] = {}
    for device in sorted(devices, key=lambda device: device.parent_pci is None):
        place = device.parent_pci or _below(device, links, told)
        if place:
            found.setdefault(place, device)
    return found


def _below(device: RdmaDevice, links: Links, told: Told) -> str | None:
    """The function a software device stands on, where its netdev is in the host's namespace.

    Only `rdma link` knows: `parent` in sysfs names the netdev as it is called in its own
    namespace, and a netdev of the host may have the same name.
    """
    for port in device.ports:
        name = as_str(told.ports.get((device.name, port.number), {}).get("netdev"))
        place = links.by_name[name].parent if name in links.by_name else None
        if place and ADDRESS.fullmatch(place):
            return place
    return None


# --- fabrics ------------------------------------------------------------------------------------


def fabric_id(port: RdmaPort) -> str | None:
    """Which fabric a port belongs to, as far as the host itself can tell.

    Every InfiniBand subnet starts with the default prefix fe80::/64, so the prefix alone joins
    fabrics that are not connected; the LID of the subnet manager tells most of those apart. Two
    fabrics with the default prefix and the same SM LID cannot be told apart from the host (the
    SM's GUID is known only to `sminfo`): give each subnet manager its own `subnet_prefix`.
    """
    if port.link_layer == "Ethernet":
        return "eth"
    if port.link_layer != "InfiniBand" or not port.prefix:
        return None
    return f"ib-{port.prefix}-sm{port.sm_lid}" if port.sm_lid else f"ib-{port.prefix}-nosm"


def fabrics_of(devices: Iterable[RdmaDevice], tree: Tree) -> tuple[Fabric, ...]:
    """The fabrics with their devices; VFs follow their PF and are not listed."""
    members: dict[str, list[str]] = {}
    ports: dict[str, RdmaPort] = {}
    for device in devices:
        if device.parent_pci and tree.has(device.parent_pci, "physfn"):
            continue
        for port in device.ports:
            fabric = fabric_id(port)
            if fabric and device.name not in members.setdefault(fabric, []):
                members[fabric].append(device.name)
                ports.setdefault(fabric, port)
    return tuple(
        Fabric(
            id=fabric,
            link_layer=ports[fabric].link_layer,
            prefix=ports[fabric].prefix,
            sm_lid=ports[fabric].sm_lid,
            devices=tuple(names),
        )
        for fabric, names in sorted(members.items())
    )
