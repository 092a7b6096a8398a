"""Machines held in memory for these tests, built from what the lab recorded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from podrail.host.memory import MemoryHost
from podrail.host.seam import Ran

LAB = Path(__file__).parent.parent / "data" / "lab"
PCI = "/sys/bus/pci/devices"

IP_LINK = ("ip", "-d", "-j", "link", "show")
IP_ADDR = ("ip", "-j", "addr", "show")
IP_ROUTE = ("ip", "-j", "route", "show", "table", "all")
IP_ROUTE6 = ("ip", "-6", "-j", "route", "show", "table", "all")


def lab_text(name: str) -> str:
    return (LAB / name).read_text()


def lab_config() -> bytes:
    """The igb PF's config space, from `lspci -xxxx`."""
    lines = lab_text("lspci-xxxx-PF.txt").splitlines()[1:]
    return b"".join(bytes.fromhex(line.partition(":")[2]) for line in lines if line)


def says(host: MemoryHost, argv: tuple[str, ...], out: Any, rc: int = 0, err: str = "") -> None:
    text = out if isinstance(out, str) else json.dumps(out)
    host.put_program(argv, Ran(argv, rc, text, err))


def bare() -> MemoryHost:
    """A machine whose `ip` knows the loopback only."""
    host = MemoryHost("test")
    host.put("/proc/sys/kernel/hostname", "n1\n")
    host.put("/proc/sys/kernel/osrelease", "6.12.107\n")
    says(host, IP_LINK, [{"ifindex": 1, "ifname": "lo", "link_type": "loopback"}])
    says(host, IP_ADDR, [])
    says(host, IP_ROUTE, [])
    says(host, IP_ROUTE6, [])
    return host


def function(
    host: MemoryHost,
    path: str,
    *,
    class_: str = "020000",
    vendor: str = "8086",
    device: str = "10c9",
    numa: int = -1,
    files: Mapping[str, str] | None = None,
) -> str:
    """A PCI function at `path` below /sys/devices, such as `pci0000:00/0000:00:04.0`."""
    address = path.rpartition("/")[2]
    at = f"/sys/devices/{path}"
    facts = {"class": f"0x{class_}", "vendor": f"0x{vendor}", "device": f"0x{device}"}
    for name, text in {**facts, "numa_node": str(numa), **(files or {})}.items():
        host.put(f"{at}/{name}", f"{text}\n")
    host.put(f"{at}/config", lab_config())
    host.put_link(f"{PCI}/{address}", f"../../../devices/{path}")
    return at


def pf(host: MemoryHost, path: str, name: str, *, total: int = 8, **more: Any) -> str:
    """A PF with a netdev and no VFs."""
    files = {"sriov_totalvfs": str(total), "sriov_numvfs": "0", "sriov_drivers_autoprobe": "1"}
    at = function(host, path, files=files, **more)
    host.put_dir(f"{at}/net/{name}")
    return at


def vf(host: MemoryHost, pf_at: str, index: int, address: str, driver: str | None = None) -> str:
    """A VF of a PF, in IOMMU group 10 + index."""
    parent, _, own = pf_at.removeprefix("/sys/devices/").rpartition("/")
    at = function(host, f"{parent}/{address}", device="10ca")
    host.put_link(f"{at}/physfn", f"../{own}")
    host.put_link(f"{at}/iommu_group", f"../../../../kernel/iommu_groups/{10 + index}")
    host.put_link(f"{pf_at}/virtfn{index}", f"../{address}")
    if driver:
        host.put_link(f"{at}/driver", f"../../../../bus/pci/drivers/{driver}")
    host.put(f"{pf_at}/sriov_numvfs", f"{index + 1}\n")
    return at


def lab_vm() -> MemoryHost:
    """The lab's VM: one igb PF with four VFs, virtio for management, Soft-RoCE on vf0."""
    host = bare()
    function(host, "pci0000:00/0000:00:02.0", vendor="1af4", device="1000")
    host.put_dir("/sys/devices/pci0000:00/0000:00:02.0/virtio1")
    function(host, "pci0000:00/0000:00:04.0", class_="060400", vendor="1b36", device="000c")
    at = pf(host, "pci0000:00/0000:00:04.0/0000:01:00.0", "eth1", total=7)
    for i in range(4):
        vf(host, at, i, f"0000:01:10.{2 * i}", "igbvf")
    says(host, IP_LINK, lab_text("ip-d-j-link-rootns.json"))
    says(host, IP_ROUTE, [{"dst": "default", "gateway": "10.0.2.2", "dev": "eth0"}])
    says(host, ("ethtool", "-i", "eth1"), lab_text("ethtool-i-PF.txt"))
    soft_roce(host)
    return host


def soft_roce(host: MemoryHost) -> None:
    """rxe0 as its sysfs files and the rdma programs showed it."""
    at = "/sys/devices/virtual/infiniband/rxe0"
    host.put_link("/sys/class/infiniband/rxe0", "../../devices/virtual/infiniband/rxe0")
    for line in lab_text("sysfs-infiniband-rxe0.txt").splitlines():
        if line.startswith("./"):
            name, _, value = line[2:].partition(":")
            host.put(f"{at}/{name}", f"{value.strip()}\n")
        else:
            _gid(host, f"{at}/ports/1", line)
    for index in range(2, 40):
        host.put(f"{at}/ports/1/gids/{index}", ":".join(["0000"] * 8) + "\n")
    says(host, ("rdma", "-j", "-d", "dev"), lab_text("rdma-j-d-dev.json"))
    says(host, ("rdma", "-j", "-d", "link"), lab_text("rdma-j-d-link.json"))
    says(host, ("rdma", "-j", "resource"), lab_text("rdma-j-resource.json"))
    says(host, ("rdma", "-j", "system"), lab_text("rdma-j-system.json"))
    says(host, ("ibv_devinfo",), lab_text("ibv_devinfo-v-rxe0-on-VF.txt"))


def _gid(host: MemoryHost, at: str, line: str) -> None:
    """`gid0 fe80:… type=RoCE v2 ndev=vf0`."""
    name, gid, rest = line.split(" ", 2)
    kind, _, ndev = rest.removeprefix("type=").partition(" ndev=")
    index = name.removeprefix("gid")
    host.put(f"{at}/gids/{index}", f"{gid}\n")
    if kind:
        host.put(f"{at}/gid_attrs/types/{index}", f"{kind}\n")
        host.put(f"{at}/gid_attrs/ndevs/{index}", f"{ndev}\n")


def infiniband(
    host: MemoryHost, name: str, pci: str, *, prefix: str, sm_lid: int, mtu: str = ""
) -> None:
    """An InfiniBand device with one active port."""
    at = f"/sys/class/infiniband/{name}"
    host.put_link(f"{at}/device", f"../../../{pci}")
    files = {
        "node_guid": "3825:f303:0090:8590",
        "ports/1/link_layer": "InfiniBand",
        "ports/1/state": "4: ACTIVE",
        "ports/1/rate": "400 Gb/sec (4X NDR)",
        "ports/1/sm_lid": hex(sm_lid),
        "ports/1/gids/0": f"{prefix}:3825:f303:0090:8590",
    }
    for file, text in files.items():
        host.put(f"{at}/{file}", f"{text}\n")


def links(*items: Mapping[str, Any]) -> list[dict[str, Any]]:
    """`ip -d -j link show` of these, with the fields every link has."""
    return [
        {
            "ifindex": i,
            "link_type": "ether",
            "operstate": "UP",
            "flags": ["UP"],
            "mtu": 1500,
            **item,
        }
        for i, item in enumerate(items, 1)
    ]


def default_by(device: str) -> list[dict[str, str]]:
    return [{"dst": "default", "gateway": "10.0.0.1", "dev": device}]


def unknown_paths(found: Iterable[Any]) -> set[str]:
    return {fact.path for fact in found}
