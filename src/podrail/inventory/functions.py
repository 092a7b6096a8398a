"""Physical functions and their virtual functions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from podrail.inventory.holders import VFIO, Holders
from podrail.inventory.links import Link, Links, VfInfo, ipoib_of, pick
from podrail.inventory.pci import ADDRESS, DEVICES, Tree, group_of, hex_id, is_nic
from podrail.inventory.reader import Reader, as_dict, as_str, mac_of
from podrail.inventory.stack import Stack
from podrail.model.inventory import PciDevice, Pf, RdmaDevice
from podrail.model.vf import Vf, VfTable

_UPSTREAM_RECORD = "/etc/sriov-operator/pci"
_NO_DEVLINK = ("No such device", "not supported")


@dataclass(frozen=True, slots=True)
class Around:
    """What the functions are described with."""

    tree: Tree
    links: Links
    stack: Stack
    rdma: Mapping[str, RdmaDevice]
    """PCI address → RDMA device, Soft-RoCE on its netdev included."""
    holders: Holders
    recorded: frozenset[str]


def recorded_by_upstream(reader: Reader) -> frozenset[str]:
    """PCI addresses the SR-IOV operator's config daemon keeps a record of."""
    return frozenset(reader.names(_UPSTREAM_RECORD))


def read_pfs(reader: Reader, around: Around) -> tuple[Pf, ...]:
    """Every network function that is no VF, SR-IOV or not: the uplink must be known too."""
    return tuple(_pf(reader, device, around) for device in around.tree.devices if is_nic(device))


def _pf(reader: Reader, device: PciDevice, around: Around) -> Pf:
    at = f"{DEVICES}/{device.address}"
    has = around.tree.names[device.address]
    name = pick(around.links, _netdevs(reader, device.address, around)) or ""
    link = around.links.by_name.get(name, Link(name, 0, ""))
    rdma = around.rdma.get(device.address)
    total = reader.integer(f"{at}/sriov_totalvfs") if "sriov_totalvfs" in has else 0
    vfs = VfTable(_vfs(reader, device, link, around))
    infiniband = _is_infiniband(device, link, rdma)
    return Pf(
        pci=device.address,
        name=name,
        vendor=device.vendor,
        device=device.device,
        altnames=link.altnames,
        subsystem=_subsystem(reader, at),
        driver=device.driver,
        firmware=_firmware(reader, name) or (rdma.firmware if rdma else None),
        mac=mac_of(link.address),
        link_type="ib" if infiniband else "eth",
        fabric=(rdma.fabric if rdma else None) or (None if infiniband else "eth"),
        state=link.state,
        admin_up=link.admin_up,
        speed=_speed(reader, name, rdma),
        mtu=link.mtu,
        max_mtu=link.max_mtu or None,
        totalvfs=total,
        numvfs=reader.integer(f"{at}/sriov_numvfs") if "sriov_numvfs" in has else 0,
        autoprobe=_autoprobe(reader, at) if "sriov_drivers_autoprobe" in has else None,
        vf_device=hex_id(reader, f"{at}/sriov_vf_device", 4) or None if total else None,
        vf_offset=reader.integer(f"{at}/sriov_offset", quiet=True) if total else None,
        vf_stride=reader.integer(f"{at}/sriov_stride", quiet=True) if total else None,
        eswitch=_eswitch(reader, device.address) if total else None,
        ipoib=ipoib_of(link.address),
        numa=device.numa,
        link=device.link,
        rdma=rdma.name if rdma else None,
        addresses=around.links.addresses.get(name, ()),
        uplink_of=around.stack.over(name) if name else (),
        management=around.stack.management(filter(None, [name, *vfs.column("netdev")])),
        recorded=device.address in around.recorded,
        vfs=vfs,
    )


def _netdevs(reader: Reader, address: str, around: Around) -> list[str]:
    """The names under `net`; a virtio NIC has its netdev one level deeper."""
    if around.tree.has(address, "net"):
        return reader.names(f"{DEVICES}/{address}/net")
    virtio = next((n for n in around.tree.names[address] if re.fullmatch(r"virtio\d+", n)), None)
    if virtio is None:
        return []
    named = [link.name for link in around.links.by_name.values() if link.parent == virtio]
    return named or reader.names(f"{DEVICES}/{address}/{virtio}/net")


def _is_infiniband(device: PciDevice, link: Link, rdma: RdmaDevice | None) -> bool:
    layers = {port.link_layer for port in rdma.ports} if rdma else set()
    if link.link_type:
        return link.link_type == "infiniband"
    return "InfiniBand" in layers or (not layers and device.class_.startswith("0207"))


def _subsystem(reader: Reader, at: str) -> str | None:
    vendor = hex_id(reader, f"{at}/subsystem_vendor", 4)
    device = hex_id(reader, f"{at}/subsystem_device", 4)
    return f"{vendor}:{device}" if vendor and device else None


def _autoprobe(reader: Reader, at: str) -> bool | None:
    value = reader.integer(f"{at}/sriov_drivers_autoprobe")
    return None if value is None else value != 0


def _firmware(reader: Reader, name: str) -> str | None:
    text = reader.output(("ethtool", "-i", name)) if name else None
    found = re.search(r"^firmware-version:[ \t]*(\S.*)$", text or "", re.MULTILINE)
    return found[1].strip() if found else None


def _speed(reader: Reader, name: str, rdma: RdmaDevice | None) -> int | None:
    # EINVAL while the link is down, -1 where the driver cannot tell
    speed = reader.integer(f"/sys/class/net/{name}/speed", quiet=True) if name else None
    if speed is not None and 0 < speed < 0xFFFFFFFF:
        return speed
    own = rdma if rdma and rdma.parent_pci else None  # Soft-RoCE always says 2.5 Gb/s
    active = [port for port in own.ports if port.state == "ACTIVE"] if own else []
    return _megabits(active[0].rate) if active else None


def _megabits(rate: str | None) -> int | None:
    """`2.5 Gb/sec (1X SDR)` in Mb/s."""
    found = re.match(r"([0-9]{1,6})(?:\.([0-9]))?[0-9]* Gb/sec", rate or "")
    return int(found[1]) * 1000 + int(found[2] or 0) * 100 if found else None


def _eswitch(reader: Reader, address: str) -> str | None:
    """The e-switch mode; a driver without devlink has none, and that is no failure."""
    argv = ("devlink", "-j", "dev", "eswitch", "show", f"pci/{address}")
    ran = reader.run(argv)
    if ran is None:
        return None
    if ran.rc and any(text in ran.stderr for text in _NO_DEVLINK):
        return None
    if ran.rc:
        reader.note(f"program:{' '.join(argv)}", f"exit {ran.rc}: {ran.stderr.strip()[:120]}")
        return None
    shown = as_dict(reader.parse(ran.stdout, f"program:{' '.join(argv)}")).get("dev")
    return as_str(as_dict(as_dict(shown).get(f"pci/{address}")).get("mode"))


# --- virtual functions --------------------------------------------------------------------------


def _vfs(reader: Reader, pf: PciDevice, link: Link, around: Around) -> list[Vf]:
    found = []
    for file in around.tree.names[pf.address]:
        if not re.fullmatch(r"virtfn[0-9]{1,5}", file):
            continue
        address = reader.link(f"{DEVICES}/{pf.address}/{file}")
        if address and ADDRESS.fullmatch(address):
            found.append(_vf(reader, int(file[6:]), address, pf, link, around))
    if link.vfs and len(link.vfs) < len(found):
        # one netlink message holds 64 KiB; the kernel drops the whole list or the tail of it
        reader.note(
            f"{DEVICES}/{pf.address}/vfinfo",
            f"`ip` tells of {len(link.vfs)} of the {len(found)} VFs of {link.name}",
        )
    return found


_NOTHING_TOLD = VfInfo(None, None, None, None, None, None, None, None, None, None)


def _vf(reader: Reader, index: int, address: str, pf: PciDevice, link: Link, around: Around) -> Vf:
    at = f"{DEVICES}/{address}"
    has = around.tree.names.get(address, frozenset())
    driver = reader.link(f"{at}/driver") if "driver" in has else None
    netdevs = reader.names(f"{at}/net") if "net" in has else []
    netdev = pick(around.links, netdevs)
    own = around.links.by_name.get(netdev or "", Link("", 0, ""))
    rdma = around.rdma.get(address)
    group = group_of(reader, at) if "iommu_group" in has else None
    info = link.vfs.get(index, _NOTHING_TOLD)
    ipoib = ipoib_of(own.address)
    device = next(iter(reader.names(f"{at}/vfio-dev")), None) if "vfio-dev" in has else None
    who = around.holders
    return Vf(
        index=index,
        pci=address,
        driver=driver,
        netdev=netdev,
        rdma=rdma.name if rdma else None,
        mac=info.mac or mac_of(own.address),
        guid=_guid(info.guid, ipoib.guid if ipoib else None, _ib_guid(rdma)),
        mtu=own.mtu,
        vlan=info.vlan,
        qos=info.qos,
        vlan_proto=info.vlan_proto,
        trust=info.trust,
        spoofchk=info.spoofchk,
        link_state=info.link_state,
        min_tx_rate=info.min_tx_rate,
        max_tx_rate=info.max_tx_rate,
        numa=pf.numa,
        iommu_group=group,
        holder=who.pod(address)
        or who.namespace(address, driver, moved=_moved(reader, at, has, netdevs, rdma))
        or (who.userspace(group, device) if driver == VFIO else None)
        or who.verbs(rdma.name if rdma else None),
    )


def _moved(
    reader: Reader, at: str, has: frozenset[str], netdevs: list[str], rdma: RdmaDevice | None
) -> bool:
    """The class directory stays under the function and looks empty from any other namespace."""
    if "net" in has and not netdevs:
        return True
    return "infiniband" in has and rdma is None and not reader.names(f"{at}/infiniband")


def _guid(*told: str | None) -> str | None:
    """The first that was set; zeros where only zeros are told."""
    known = [guid for guid in told if guid]
    return next((guid for guid in known if guid.strip("0:")), known[0] if known else None)


def _ib_guid(rdma: RdmaDevice | None) -> str | None:
    infiniband = rdma is not None and any(p.link_layer == "InfiniBand" for p in rdma.ports)
    return rdma.node_guid if rdma and infiniband else None
