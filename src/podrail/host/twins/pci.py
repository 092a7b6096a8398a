"""The PCI tree of a twin in sysfs: functions, their links, IOMMU groups, going away."""

from __future__ import annotations

from collections.abc import Iterable

from podrail.host.twin import PciFunction, TwinHost
from podrail.host.twins import config_space as cs
from podrail.host.twins import spec

_NO_RESOURCE = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
_LINES = 13  # six BARs, the ROM and, with CONFIG_PCI_IOV, six VF BARs
_PREFETCHABLE = 0x14220C
_REQUIRED_ACS = 0x1D  # drivers/iommu/iommu.c:REQ_ACS_FLAGS


def up(path: str) -> str:
    """`../` as many times as lead from a directory below /sys to /sys."""
    return "../" * (path.count("/") - 1)


def bus_of(address: str) -> int:
    return int(address.split(":")[1], 16)


def _buses(function: spec.Function) -> Iterable[int]:
    """Every bus below a bridge, with those its VFs spill over to."""
    for child in function.below:
        yield bus_of(child.address)
        if child.sriov:
            last = child.sriov.offset + child.sriov.stride * (child.sriov.capability - 1)
            yield bus_of(child.address) + (int(child.address[-1]) + last) // 256
        yield from _buses(child)


def config(function: spec.Function, enabled_vfs: int = 0, *, virtual: bool = False) -> bytes:
    """The configuration space of a function; a VF's ids read ffff (PCIe 6.0 §9.3.4.1.1)."""
    header = cs.Header(
        vendor=0xFFFF if virtual else function.vendor,
        device=0xFFFF if virtual else function.device,
        class_=function.class_,
        revision=function.revision,
        subsystem=function.subsystem,
        buses=_bridge_buses(function),
    )
    return cs.encode(header, _express(function), _extended(function, enabled_vfs))


def _bridge_buses(function: spec.Function) -> tuple[int, int, int] | None:
    if function.class_ >> 8 != 0x0604:
        return None
    below = sorted(set(_buses(function)))
    return (bus_of(function.address), below[0], below[-1]) if below else (0, 0, 0)


def _express(function: spec.Function) -> cs.Express | None:
    link = function.link
    if link is None or function.kind == "conventional":
        return None
    return cs.Express(
        port=cs.PORT_TYPES[function.kind],
        speed=link.speed,
        width=link.width,
        max_speed=link.max_speed or link.speed,
        max_width=_max_width(link),
        payload=function.payload,
        read_request=function.read_request,
        relaxed_ordering=function.relaxed_ordering,
    )


def _extended(function: spec.Function, enabled_vfs: int) -> list[cs.Extended]:
    found = [cs.aer()]
    if function.sriov:
        iov = function.sriov
        found.append(cs.ari())
        found.append(
            cs.sriov(cs.Iov(iov.capability, iov.offset, iov.stride, iov.vf_device, enabled_vfs))
        )
    if function.acs is not None:
        found.append(cs.acs(function.acs, offered=0x5F if function.below else 0))
    if function.ats is not None:
        found.append(cs.ats(function.ats))
    return found


def _ids(function: spec.Function) -> dict[str, str]:
    return {
        "class": f"0x{function.class_:06x}\n",
        "vendor": f"0x{function.vendor:04x}\n",
        "device": f"0x{function.device:04x}\n",
        "subsystem_vendor": f"0x{function.subsystem[0]:04x}\n",
        "subsystem_device": f"0x{function.subsystem[1]:04x}\n",
        "revision": f"0x{function.revision:02x}\n",
        "driver_override": "(null)\n",
        "power_state": "D0\n",
    }


def _max_width(link: spec.PcieLink) -> int:
    return link.max_width or (link.width if link.max_speed != "Unknown" else 0)


def _speed(speed: str) -> str:
    """drivers/pci/probe.c:pci_speed_string."""
    return speed if speed == "Unknown" else f"{speed} GT/s PCIe"


def _link(link: spec.PcieLink) -> dict[str, str]:
    return {
        "current_link_speed": f"{_speed(link.speed)}\n",
        "current_link_width": f"{link.width}\n",
        "max_link_speed": f"{_speed(link.max_speed or link.speed)}\n",
        "max_link_width": f"{_max_width(link)}\n",
    }


def _sriov(sriov: spec.Sriov) -> dict[str, str]:
    return {
        "sriov_totalvfs": f"{sriov.capability}\n",
        "sriov_numvfs": "0\n",
        "sriov_drivers_autoprobe": "1\n",
        "sriov_offset": f"{sriov.offset}\n",
        "sriov_stride": f"{sriov.stride}\n",
        "sriov_vf_device": f"{sriov.vf_device:x}\n",
        "sriov_vf_total_msix": "0\n",
    }


def _resource(function: spec.Function) -> str:
    """The BARs of a GPU as the H200 of the device tier showed them: 0, 2 and 4, all 64 bit."""
    lines = [_NO_RESOURCE] * _LINES
    if function.gpu:
        base = 0x200000000000 + bus_of(function.address) * (1 << 40)
        sizes = {0: 16 << 20, 2: function.gpu.bar1, 4: 32 << 20}
        for bar, size in sizes.items():
            start = base + (bar << 38)
            lines[bar] = f"0x{start:016x} 0x{start + size - 1:016x} 0x{_PREFETCHABLE:016x}\n"
    return "".join(lines)


def add(host: TwinHost, function: PciFunction, raw: bytes) -> None:
    """Enter a function in sysfs, in its bus and in an IOMMU group; no driver yet."""
    path, s = function.path, function.spec
    attributes = _ids(s)
    attributes["numa_node"] = f"{function.numa}\n"
    attributes["resource"] = _resource(s)
    if s.link and s.kind not in ("conventional", "integrated"):
        attributes.update(_link(s.link))
    if s.sriov and function.physfn is None:
        attributes.update(_sriov(s.sriov))
    host.put_all(path, {**attributes, "config": raw})
    host.put_link(f"{path}/subsystem", f"{up(path)}bus/pci")
    host.put_link(f"/sys/bus/pci/devices/{s.address}", f"../../..{path[4:]}")
    _join_group(host, function)
    host.functions[s.address] = function
    host.uevent("add", path, "pci")


def take_away(host: TwinHost, function: PciFunction) -> None:
    """The function leaves the bus; its driver has let go of it before."""
    _leave_group(host, function)
    host.remove(f"/sys/bus/pci/devices/{function.address}")
    host.remove(function.path)
    del host.functions[function.address]
    host.uevent("remove", function.path, "pci")


# --- IOMMU groups -----------------------------------------------------------------------------


def _isolated(bridge: PciFunction | None) -> bool:
    """drivers/pci/pci.c:pci_acs_path_enabled, for the bridge and all above it."""
    while bridge is not None:
        checked = bridge.spec.kind in ("root-port", "downstream")
        if checked and bridge.spec.acs is None:
            return False
        bridge = bridge.parent
    return True


def _group_of_slot(host: TwinHost, function: PciFunction) -> int | None:
    """get_pci_function_alias_group: functions of one slot without ACS can reach each other."""
    if function.physfn or function.spec.acs is not None or function.spec.below:
        return None
    slot = function.path.rpartition(".")[0]
    for other in host.functions.values():
        if other.path.rpartition(".")[0] == slot and not other.physfn and other.spec.acs is None:
            return other.group
    return None


def _group_of(host: TwinHost, function: PciFunction) -> int | None:
    """drivers/iommu/iommu.c:pci_device_group: behind a port without ACS all share its group."""
    if (shared := _group_of_slot(host, function)) is not None:
        return shared
    above = function.parent
    while above is not None:
        if _isolated(above):
            return None
        if above.group is not None:
            return above.group
        above = above.parent
    return None


def _join_group(host: TwinHost, function: PciFunction) -> None:
    machine = host.machine
    if machine is None or not machine.iommu_units:
        return
    group = _group_of(host, function)
    if group is None:
        group = host.lowest("iommu_group")
        host.put(f"/sys/kernel/iommu_groups/{group}/type", f"{machine.iommu_type}\n")
    function.group = group
    path = function.path
    host.put_link(f"{path}/iommu_group", f"{up(path)}kernel/iommu_groups/{group}")
    host.put_link(
        f"/sys/kernel/iommu_groups/{group}/devices/{function.address}", f"../../../..{path[4:]}"
    )


def _leave_group(host: TwinHost, function: PciFunction) -> None:
    if function.group is None:
        return
    place = f"/sys/kernel/iommu_groups/{function.group}"
    host.remove(f"{place}/devices/{function.address}")
    if not host.names(f"{place}/devices"):
        host.remove(place)
        host.free("iommu_group", function.group)
