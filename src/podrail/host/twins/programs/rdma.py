"""`rdma` and `ibv_devinfo` of a twin (tests/data/lab/rdma-*.json, ibv_devinfo-v-rxe0-on-VF.txt)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from podrail.host.seam import Ran
from podrail.host.twin import TwinHost
from podrail.host.twins import modules
from podrail.host.twins.numbers import words
from podrail.host.twins.programs.answer import compact, not_modelled, refused, said

_CLASS = "/sys/class/infiniband"
_NETNS_MODE = "/sys/module/ib_core/parameters/netns_mode"
_MODPROBE = "/etc/modprobe.d"
_OPTION = re.compile(r"^options\s+ib_core\s+.*\bnetns_mode=(\w)", re.MULTILINE)
_ARGUMENT = re.compile(r"\bib_core\.netns_mode=(\w)")
_STATES = {"1": "DOWN", "2": "INIT", "3": "ARMED", "4": "ACTIVE"}
_PHYSICAL = {"2": "POLLING", "3": "DISABLED", "5": "LINK_UP"}
_DEVICE_CAPS = words(
    "BAD_PKEY_CNTR BAD_QKEY_CNTR AUTO_PATH_MIG CHANGE_PHY_PORT PORT_ACTIVE_EVENT SYS_IMAGE_GUID "
    "RC_RNR_NAK_GEN MEM_WINDOW XRC MEM_MGT_EXTENSIONS MEM_WINDOW_TYPE_2B RAW_IP_CSUM "
    "CROSS_CHANNEL MANAGED_FLOW_STEERING SIGNATURE_HANDOVER ON_DEMAND_PAGING SG_GAPS_REG "
    "RAW_SCATTER_FCS"
)
_PORT_CAPS = words(
    "TRAP SL_MAP SYS_IMAGE_GUID CABLE_INFO EXTENDED_SPEEDS CAP_MASK2 CM VENDOR_CLASS "
    "CAP_MASK_NOTICE CLIENT_REG OTHER_LOCAL_CHANGES MULT_PKER_TRAP HIERARCHY_INFO"
)  # the bits of 0xa651e848
_MTUS = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}
_ROCE_OVERHEAD = 96
"""include/rdma/ib_addr.h:iboe_get_mtu: GRH, UDP, BTH, XRC, AtomicETH and ICRC."""


def _devices(host: TwinHost) -> list[str]:
    return sorted(host.rdma_index, key=lambda name: host.rdma_index[name])


def _is_ib(host: TwinHost, name: str) -> bool:
    return host.text(f"{_CLASS}/{name}/ports/1/link_layer") == "InfiniBand"


def _netdev(host: TwinHost, name: str) -> tuple[str, int] | None:
    """The netdev of a RoCE port; an InfiniBand port has none here (ib_device_get_netdev)."""
    if _is_ib(host, name):
        return None
    address = host.readlink(f"{_CLASS}/{name}").split("/")[-3]
    netdev = host.functions[address].netdev
    return (netdev, host.netdevs[netdev].ifindex) if netdev else None


def _device(host: TwinHost, name: str, details: bool) -> dict[str, Any]:
    at = f"{_CLASS}/{name}"
    out: dict[str, Any] = {"ifindex": host.rdma_index[name], "ifname": name, "node_type": "ca"}
    out |= {"protocol": "ib" if _is_ib(host, name) else "roce"}
    out |= {"fw": host.text(f"{at}/fw_ver"), "node_guid": host.text(f"{at}/node_guid")}
    out["sys_image_guid"] = host.text(f"{at}/sys_image_guid")
    return out | ({"adaptive-moderation": True, "caps": _DEVICE_CAPS} if details else {})


def _link(host: TwinHost, name: str, details: bool) -> dict[str, Any]:
    at = f"{_CLASS}/{name}/ports/1"
    out: dict[str, Any] = {"ifindex": host.rdma_index[name], "ifname": name, "port": 1}
    infiniband = _is_ib(host, name)
    if infiniband:
        out["subnet_prefix"] = host.text(f"{at}/gids/0")[:19]
        out["lid"] = int(host.text(f"{at}/lid", "0"), 16)
        out["sm_lid"] = int(host.text(f"{at}/sm_lid", "0"), 16)
        out["lmc"] = int(host.text(f"{at}/lid_mask_count", "0"))
    out["state"] = _STATES.get(host.text(f"{at}/state")[:1], "NOP")
    out["physical_state"] = _PHYSICAL.get(host.text(f"{at}/phys_state")[:1], "NOP")
    if found := _netdev(host, name):
        out["netdev"], out["netdev_index"] = found
    return out | ({"caps": _PORT_CAPS} if details and infiniband else {})


def _resource(host: TwinHost, name: str) -> dict[str, Any]:
    """Kernel users only: ib_core, IPoIB and NFS (tests/data/lab/nfsordma-client.txt)."""
    out: dict[str, Any] = {"ifindex": host.rdma_index[name], "ifname": name}
    nfs = _nfs_connections(host, name)
    ipoib = 1 if _is_ib(host, name) and host.loaded("ib_ipoib") else 0
    counts = {"pd": 3 + ipoib + nfs, "cq": 5 + 2 * (ipoib + nfs), "qp": 3 + ipoib + nfs}
    counts |= {"cm_id": nfs, "mr": 11 * nfs}
    return out | counts | {"ctx": 0, "srq": 2}


def _nfs_connections(host: TwinHost, name: str) -> int:
    """Connections of the NFS mounts whose client address is on this device's netdev."""
    found = _netdev(host, name)
    if found is None:
        return 0
    own = {address.partition("/")[0] for address in host.netdevs[found[0]].addresses}
    count = 0
    for line in host.text("/proc/mounts").split("\n"):
        options = dict(option.partition("=")[::2] for option in line.replace(" ", ",").split(","))
        if options.get("proto") == "rdma" and options.get("clientaddr") in own:
            count += int(options.get("nconnect", "1"))
    return count


def rdma(host: TwinHost, argv: Sequence[str]) -> Ran:
    """`rdma -j [ -d ] system|dev|link|resource` and `rdma system set netns MODE`."""
    options = [word for word in argv[1:] if word.startswith("-")]
    asked = [word for word in argv[1:] if not word.startswith("-") and word != "show"]
    # net/netlink/af_netlink.c:netlink_create asks for net-pf-16-proto-20, an alias of ib_core
    was_loaded = host.loaded("ib_core")
    if not modules.load(host, "ib_core"):
        return refused(argv, 1, "Failed to open NETLINK_RDMA socket")
    if not was_loaded:
        follow_options(host)
    details = "-d" in options
    match asked:
        case ["system" | "sys"]:
            return said(argv, _system(host))
        case ["system" | "sys", "set", "netns", "shared" | "exclusive" as mode]:
            return _set_mode(host, argv, mode)
        case ["dev"]:
            return said(argv, _lines([_device(host, n, details) for n in _devices(host)]))
        case ["link"]:
            return said(argv, _lines([_link(host, n, details) for n in _devices(host)]))
        case ["resource" | "res"]:
            return said(argv, _lines([_resource(host, n) for n in _devices(host)]))
    return not_modelled(argv)


def _mode(host: TwinHost) -> str:
    return "shared" if host.text(_NETNS_MODE, "Y") == "Y" else "exclusive"


def _set_mode(host: TwinHost, argv: Sequence[str], mode: str) -> Ran:
    """drivers/infiniband/core/device.c:rdma_compatdev_set: only in a machine with one namespace."""
    if mode == _mode(host):
        return said(argv, "")
    if any(host.names(place) for place in ("/run/netns", "/var/run/netns")):
        return refused(argv, 255, "error: Device or resource busy")
    host.put(_NETNS_MODE, "Y\n" if mode == "shared" else "N\n")
    return said(argv, "")


def follow_options(host: TwinHost) -> None:
    """What modprobe.d and the command line say of ib_core's netns_mode when it is loaded."""
    if not host.loaded("ib_core"):
        return
    names = sorted(n for n in host.names(_MODPROBE) if n.endswith(".conf"))
    text = "\n".join(host.text(f"{_MODPROBE}/{name}") for name in names)
    found = _OPTION.findall(text) + _ARGUMENT.findall(host.text("/proc/cmdline"))
    if found:
        host.put(_NETNS_MODE, "Y\n" if found[-1] in "1yY" else "N\n")


def _system(host: TwinHost) -> str:
    mode = _mode(host)
    if host.machine and not host.machine.rdma_json:
        return f"netns {mode} privileged-qkey off monitor on copy-on-fork on\n"
    return compact([{"netns": mode, "copy-on-fork": "on"}]) + "\n"


def _lines(found: list[dict[str, Any]]) -> str:
    return compact(found)[:-1] + ("\n]\n" if found else "]\n")


def active_mtu(host: TwinHost, name: str) -> int:
    """4096 on InfiniBand; on Ethernet what fits into the netdev's MTU."""
    found = _netdev(host, name)
    if found is None:
        return 4096
    room = int(host.text(f"/sys/class/net/{found[0]}/mtu", "1500")) - _ROCE_OVERHEAD
    return max((mtu for mtu in _MTUS if mtu <= room), default=256)


def _devinfo(host: TwinHost, name: str) -> str:
    at = f"{_CLASS}/{name}"
    part = int(host.text(f"{at}/hca_type", "MT0")[2:])
    port = f"{at}/ports/1"
    state = host.text(f"{port}/state")[:1]
    lid, sm_lid = (int(host.text(f"{port}/{f}", "0x0"), 16) for f in ("lid", "sm_lid"))
    mtu = active_mtu(host, name)
    return (
        f"hca_id:\t{name}\n"
        f"\ttransport:\t\t\tInfiniBand (0)\n"
        f"\tfw_ver:\t\t\t\t{host.text(f'{at}/fw_ver')}\n"
        f"\tnode_guid:\t\t\t{host.text(f'{at}/node_guid')}\n"
        f"\tsys_image_guid:\t\t\t{host.text(f'{at}/sys_image_guid')}\n"
        f"\tvendor_id:\t\t\t0x02c9\n"
        f"\tvendor_part_id:\t\t\t{part}\n"
        f"\thw_ver:\t\t\t\t0x0\n"
        f"\tboard_id:\t\t\t{host.text(f'{at}/board_id')}\n"
        f"\tphys_port_cnt:\t\t\t1\n"
        f"\t\tport:\t1\n"
        f"\t\t\tstate:\t\t\tPORT_{_STATES.get(state, 'NOP')} ({state})\n"
        f"\t\t\tmax_mtu:\t\t4096 (5)\n"
        f"\t\t\tactive_mtu:\t\t{mtu} ({_MTUS[mtu]})\n"
        f"\t\t\tsm_lid:\t\t\t{sm_lid}\n"
        f"\t\t\tport_lid:\t\t{lid}\n"
        f"\t\t\tport_lmc:\t\t0x00\n"
        f"\t\t\tlink_layer:\t\t{host.text(f'{port}/link_layer')}\n\n"
    )


def ibv_devinfo(host: TwinHost, argv: Sequence[str]) -> Ran:
    """`ibv_devinfo [-d NAME]`."""
    given = list(argv[1:])
    wanted = [given[1]] if given[:1] == ["-d"] and len(given) > 1 else _devices(host)
    if not wanted:
        return refused(argv, 255, "No IB devices found")
    if not set(wanted) <= set(host.rdma_index):
        return refused(argv, 255, f"IB device '{wanted[0]}' wasn't found")
    return said(argv, "".join(_devinfo(host, name) for name in wanted))
