"""RDMA devices of a twin: what mlx5_ib registers with the RDMA core, as sysfs shows it."""

from __future__ import annotations

import errno
from functools import partial

from podrail.host.memory import Content
from podrail.host.twin import Netdev, PciFunction, TwinHost
from podrail.host.twins import spec
from podrail.host.twins.numbers import words
from podrail.host.twins.pci import up

IB_GIDS, ROCE_GIDS = 8, 256
IB_PKEYS = 128
_IB_INDEXES, _ROCE_INDEXES = (tuple(map(str, range(count))) for count in (IB_GIDS, ROCE_GIDS))
IB_CAPABILITIES = 0xA651E848
NO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"
NO_LID = 0xFFFF

RATES = {
    400000: "400 Gb/sec (4X NDR)",
    200000: "200 Gb/sec (4X HDR)",
    100000: "100 Gb/sec (4X EDR)",
    25000: "25 Gb/sec (1X EDR)",
}
NO_RATE = {True: "10 Gb/sec (4X SDR)", False: "40 Gb/sec (4X QDR)"}

# drivers/infiniband/core/sysfs.c
COUNTERS = words(
    "VL15_dropped excessive_buffer_overrun_errors link_downed link_error_recovery "
    "local_link_integrity_errors multicast_rcv_packets multicast_xmit_packets "
    "port_rcv_constraint_errors port_rcv_data port_rcv_errors port_rcv_packets "
    "port_rcv_remote_physical_errors port_rcv_switch_relay_errors port_xmit_constraint_errors "
    "port_xmit_data port_xmit_discards port_xmit_packets port_xmit_wait symbol_error "
    "unicast_rcv_packets unicast_xmit_packets"
)
# drivers/infiniband/hw/mlx5/counters.c
HW_COUNTERS = words(
    "duplicate_request implied_nak_seq_err lifespan local_ack_timeout_err out_of_buffer "
    "out_of_sequence packet_seq_err req_cqe_error req_cqe_flush_error req_remote_access_errors "
    "req_remote_invalid_request resp_cqe_error resp_cqe_flush_error resp_local_length_error "
    "resp_remote_access_errors rnr_nak_retry_err rx_atomic_requests rx_read_requests "
    "rx_write_requests"
)
ROCE_COUNTERS = words(
    "np_cnp_sent np_ecn_marked_roce_packets roce_adp_retrans roce_adp_retrans_to "
    "roce_slow_restart roce_slow_restart_cnps roce_slow_restart_trans rp_cnp_handled "
    "rp_cnp_ignored rx_icrc_encapsulated"
)


def eui64(mac: str) -> str:
    """The modified EUI-64 of a MAC, as four groups of hex."""
    octets = bytes.fromhex(mac.replace(":", ""))
    wide = bytes([octets[0] ^ 2, *octets[1:3], 0xFF, 0xFE, *octets[3:]])
    return groups(wide)


def groups(octets: bytes) -> str:
    """Octets in groups of two, the way sysfs prints GUIDs and GIDs."""
    return octets.hex(":", -2)


def guid_of(colons: str) -> str:
    """`00:11:22:…` of iproute2 as sysfs prints the same GUID."""
    return groups(bytes.fromhex(colons.replace(":", "")))


def mapped_gid(address: str) -> str | None:
    """The GID of an IPv4 address (::ffff:a.b.c.d); IPv6 ones are not modelled."""
    host = address.partition("/")[0]
    if ":" in host:
        return None
    return "0000:0000:0000:0000:0000:ffff:" + groups(bytes(map(int, host.split("."))))


def port_guid(function: PciFunction, rdma: spec.Rdma) -> str:
    """On InfiniBand a VF has the GUID its administrator gave it before it was probed."""
    if function.physfn is None:
        return rdma.guid
    return guid_of(function.physfn.settings[function.index].port_guid)


def add(host: TwinHost, function: PciFunction, rdma: spec.Rdma, netdev: Netdev | None) -> str:
    """Register a verbs device for a function; on Ethernet it stands on `netdev`."""
    number = host.lowest("mlx5")
    name = f"mlx5_{number}"
    path = f"{function.path}/infiniband/{name}"
    host.put_all(path, _device(function, rdma, netdev))
    host.put_link(f"{path}/device", f"../../../{function.address}")
    host.put_link(f"{path}/subsystem", f"{up(path)}class/infiniband")
    host.put_link(f"/sys/class/infiniband/{name}", f"../..{path[4:]}")
    host.put(f"/dev/infiniband/uverbs{number}", "")
    _add_port(host, function, rdma, netdev, f"{path}/ports/1")
    host.rdma_index[name] = host.serial("rdma")
    function.rdma = name
    return name


def _device(function: PciFunction, rdma: spec.Rdma, netdev: Netdev | None) -> dict[str, str]:
    pf = function.physfn or function
    port = pf.spec.port
    own = guid_of(pf.settings[function.index].node_guid) if function.physfn else rdma.guid
    return {
        "node_guid": f"{eui64_guid(netdev) if function.physfn and netdev else own}\n",
        "sys_image_guid": f"{rdma.guid}\n",
        "node_type": "1: CA\n",
        "node_desc": f"{function.address} mlx5\n",
        "fw_ver": f"{port.firmware.split(' ')[0] if port else ''}\n",
        "board_id": f"{rdma.board}\n",
        "hca_type": f"MT{function.spec.device}\n",
        "hw_rev": "0\n",
    }


def eui64_guid(netdev: Netdev) -> str:
    """RoCE VFs get a node GUID from the firmware; any unique one will do."""
    return groups(bytes.fromhex(f"{netdev.ifindex:04x}".rjust(16, "0")))


def _add_port(
    host: TwinHost, function: PciFunction, rdma: spec.Rdma, netdev: Netdev | None, path: str
) -> None:
    ethernet = netdev is not None
    host.put(f"{path}/link_layer", "Ethernet\n" if ethernet else "InfiniBand\n")
    host.put(f"{path}/cap_mask", f"0x{0x00010000 if ethernet else IB_CAPABILITIES:08x}\n")
    host.put(f"{path}/lid_mask_count", "0\n")
    host.put(f"{path}/sm_sl", "0\n")
    show_port(host, function, rdma, netdev, path)
    _show_gids(host, function, rdma, netdev, path)
    host.put_later(f"{path}/pkeys", partial(_pkeys, host, path, 1 if ethernet else IB_PKEYS))
    names = [*HW_COUNTERS, *ROCE_COUNTERS] if ethernet else HW_COUNTERS
    host.put_later(f"{path}/counters", partial(_zeros, host, f"{path}/counters", COUNTERS))
    host.put_later(f"{path}/hw_counters", partial(_zeros, host, f"{path}/hw_counters", names))


def _show_gids(
    host: TwinHost, function: PciFunction, rdma: spec.Rdma, netdev: Netdev | None, path: str
) -> None:
    host.remove(f"{path}/gids")
    host.remove(f"{path}/gid_attrs")
    host.put_later(f"{path}/gids", partial(_gids, host, function, rdma, netdev, path))
    host.put_later(f"{path}/gid_attrs", partial(_gid_attrs, host, function, rdma, netdev, path))


def follow(host: TwinHost, netdev: Netdev) -> None:
    """A RoCE port and its GIDs follow the netdev they stand on."""
    function = host.functions.get(netdev.pci or "")
    if (
        function is None
        or function.rdma is None
        or len(host.text(netdev.attribute("address"))) > 17
    ):
        return
    port = (function.physfn or function).spec.port
    assert port is not None
    assert port.rdma is not None
    path = f"{function.path}/infiniband/{function.rdma}/ports/1"
    show_port(host, function, port.rdma, netdev, path)
    _show_gids(host, function, port.rdma, netdev, path)


def active(host: TwinHost, function: PciFunction, netdev: Netdev | None) -> bool:
    """A RoCE port follows its netdev, an InfiniBand VF the policy set on it."""
    pf = function.physfn or function
    assert pf.spec.port is not None
    if netdev is not None:
        return host.text(netdev.attribute("carrier")) == "1"
    if function.physfn is None:
        return pf.spec.port.speed > 0
    policy = pf.settings[function.index]
    has_guid = set(policy.port_guid) - {"0", ":"}
    return pf.spec.port.speed > 0 and policy.state != "disable" and bool(has_guid)


def show_port(
    host: TwinHost, function: PciFunction, rdma: spec.Rdma, netdev: Netdev | None, path: str
) -> None:
    """state, rate and LIDs of a port as they are now."""
    ethernet, alive = netdev is not None, active(host, function, netdev)
    port = (function.physfn or function).spec.port
    assert port is not None
    physical = "5: LinkUp" if port.speed and (alive or not ethernet) else "3: Disabled"
    rate = RATES.get(port.speed, NO_RATE[not ethernet]) if alive else NO_RATE[not ethernet]
    lid = 0 if ethernet else rdma.lid if alive else NO_LID
    host.put(f"{path}/state", "4: ACTIVE\n" if alive else "1: DOWN\n")
    host.put(f"{path}/phys_state", f"{physical}\n")
    host.put(f"{path}/rate", f"{rate}\n")
    host.put(f"{path}/lid", f"0x{lid:x}\n")
    host.put(f"{path}/sm_lid", f"0x{rdma.sm_lid if alive and not ethernet else 0:x}\n")


def gid_table(
    host: TwinHost, function: PciFunction, rdma: spec.Rdma, netdev: Netdev | None
) -> list[tuple[str, str]]:
    """(GID, type) of every entry in use, RoCE v1 before v2 as ib_cache fills them."""
    if netdev is None:
        return [(f"{rdma.prefix}:{port_guid(function, rdma)}", "IB/RoCE v1")]
    mac = host.text(netdev.attribute("address"))
    gids = [f"fe80:0000:0000:0000:{eui64(mac)}", *map(mapped_gid, netdev.addresses)]
    return [(gid, kind) for gid in gids if gid for kind in ("IB/RoCE v1", "RoCE v2")]


def _gids(
    host: TwinHost, function: PciFunction, rdma: spec.Rdma, netdev: Netdev | None, path: str
) -> None:
    table = [f"{gid}\n" for gid, _ in gid_table(host, function, rdma, netdev)]
    _entries(host, f"{path}/gids", table, f"{NO_GID}\n", netdev)


def _entries(
    host: TwinHost, path: str, used: list[str], unused: Content, netdev: Netdev | None
) -> None:
    """A GID table of the port's length, by index."""
    host.put_alike(path, _ROCE_INDEXES if netdev else _IB_INDEXES, unused)
    host.put_all(path, {str(index): text for index, text in enumerate(used)})


def _gid_attrs(
    host: TwinHost, function: PciFunction, rdma: spec.Rdma, netdev: Netdev | None, path: str
) -> None:
    """An entry that is not in use cannot be read: EINVAL (sysfs.c:_show_port_gid_attr)."""
    table = gid_table(host, function, rdma, netdev)
    types = [f"{kind}\n" for _, kind in table]
    ndevs = [f"{netdev.name}\n" for _ in table] if netdev else []
    _entries(host, f"{path}/gid_attrs/types", types, errno.EINVAL, netdev)
    _entries(host, f"{path}/gid_attrs/ndevs", ndevs, errno.EINVAL, netdev)


def _pkeys(host: TwinHost, path: str, count: int) -> None:
    keys: dict[str, Content] = {str(i): "0x0000\n" if i else "0xffff\n" for i in range(count)}
    host.put_all(f"{path}/pkeys", keys)


def _zeros(host: TwinHost, path: str, names: list[str]) -> None:
    host.put_all(path, {name: "12\n" if name == "lifespan" else "0\n" for name in names})


def forget(host: TwinHost, function: PciFunction) -> None:
    """Unregister the verbs device of a function."""
    name = function.rdma
    if name is None:
        return
    number = int(name.rpartition("_")[2])
    host.remove(f"/sys/class/infiniband/{name}")
    host.remove(f"/dev/infiniband/uverbs{number}")
    host.remove(f"{function.path}/infiniband")
    host.free("mlx5", number)
    del host.rdma_index[name]
    function.rdma = None
