"""RDMA devices on the lab's real output, and the fabrics they form."""

from __future__ import annotations

import pytest

from podrail.host.memory import MemoryHost
from podrail.inventory import discover, rdma
from podrail.model.inventory import RdmaDevice
from tests.inventory.machines import (
    IP_LINK,
    bare,
    function,
    infiniband,
    lab_text,
    lab_vm,
    links,
    pf,
    says,
    soft_roce,
    vf,
)

DEFAULT = "fe80:0000:0000:0000"


def rxe(host: MemoryHost) -> RdmaDevice:
    (found,) = discover(host).rdma
    return found


def test_soft_roce_of_the_lab() -> None:
    found = rxe(lab_vm())
    assert (found.name, found.parent_pci, found.parent_netdev) == ("rxe0", None, "vf0")
    assert (found.driver, found.protocol, found.users) == ("rdma_rxe", "roce", 0)
    assert found.node_guid == "00:00:00:ff:fe:00:01:10"


def test_its_port() -> None:
    (port,) = rxe(lab_vm()).ports
    assert (port.state, port.phys_state) == ("ACTIVE", "LinkUp")
    assert (port.link_layer, port.rate) == ("Ethernet", "2.5 Gb/sec (1X SDR)")
    assert port.active_mtu == 1024
    assert port.counters["sent_pkts"] == 4048
    assert "lifespan" not in port.counters
    assert (port.lid, port.sm_lid, port.prefix, port.pkeys) == (None, None, None, ())


def test_its_gids() -> None:
    (port,) = rxe(lab_vm()).ports
    assert [(g.index, g.type, g.netdev) for g in port.gids] == [
        (0, "RoCE v2", "vf0"),
        (1, "RoCE v2", "vf0"),
    ]
    assert port.gids[1].gid == "0000:0000:0000:0000:0000:ffff:0a06:0001"


@pytest.mark.parametrize(("index", "seen"), [(17, True), (18, False)])
def test_the_gid_scan_ends_after_sixteen_zeros(index: int, seen: bool) -> None:
    host = lab_vm()
    at = "/sys/devices/virtual/infiniband/rxe0/ports/1"
    host.put(f"{at}/gids/{index}", "0000:0000:0000:0000:0000:ffff:0a06:0002\n")
    assert (index in {gid.index for gid in rxe(host).ports[0].gids}) is seen


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        pytest.param(lab_text("rdma-j-system.json"), "shared", id="lab-prints-text"),
        pytest.param("netns exclusive copy-on-fork on\n", "exclusive", id="text"),
        pytest.param('[{"netns":"shared","copy-on-fork":true}]', "shared", id="array"),
        pytest.param('{"netns":"exclusive"}', "exclusive", id="object"),
        pytest.param("[]", None, id="empty"),
        pytest.param("netns sideways", None, id="garbage"),
    ],
)
def test_netns_mode(text: str, mode: str | None) -> None:
    assert rdma.netns_in(text) == mode


def test_no_netns_mode_is_unknown() -> None:
    host = lab_vm()
    says(host, ("rdma", "-j", "system"), "[7]")
    found = discover(host)
    assert found.rdma_netns is None
    assert "program:rdma -j system" in {fact.path for fact in found.unknown}


def test_active_mtu_from_ibv_devinfo() -> None:
    assert rdma.mtus_in(lab_text("ibv_devinfo-v-rxe0-on-VF.txt")) == {("rxe0", 1): 1024}


@pytest.mark.parametrize(
    ("netdev", "verbs"),
    [(9000, 4096), (4192, 4096), (4191, 2048), (1500, 1024), (1119, 512), (351, None)],
)
def test_roce_mtu_as_the_kernel_computes_it(netdev: int, verbs: int | None) -> None:
    assert rdma.roce_mtu(netdev) == verbs


def test_without_ibv_devinfo_the_mtu_comes_from_the_netdev() -> None:
    host = bare()
    soft_roce(host)
    host.remove_program(("ibv_devinfo",))
    says(host, IP_LINK, links({"ifname": "vf0", "mtu": 9000}))
    assert rxe(host).ports[0].active_mtu == 4096


# --- fabrics ------------------------------------------------------------------------------------


def two_rails(first: tuple[str, int], second: tuple[str, int]) -> MemoryHost:
    host = bare()
    for i, (prefix, sm_lid) in enumerate((first, second)):
        address = f"0000:0{i + 1}:00.0"
        function(host, f"pci0000:00/{address}", class_="020700", vendor="15b3", device="1021")
        infiniband(host, f"mlx5_{i}", address, prefix=prefix, sm_lid=sm_lid)
    return host


def test_one_fabric() -> None:
    found = discover(two_rails((DEFAULT, 1), (DEFAULT, 1)))
    (fabric,) = found.fabrics
    assert (fabric.id, fabric.devices) == ("ib-fe80000000000000-sm1", ("mlx5_0", "mlx5_1"))
    assert {pf.fabric for pf in found.pfs} == {"ib-fe80000000000000-sm1"}


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ((DEFAULT, 7), "ib-fe80000000000000-sm7"),
        (("fec0:0000:0000:0001", 1), "ib-fec0000000000001-sm1"),
        ((DEFAULT, 0), "ib-fe80000000000000-nosm"),
    ],
    ids=["other-sm", "other-prefix", "no-sm"],
)
def test_two_fabrics(second: tuple[str, int], expected: str) -> None:
    found = discover(two_rails((DEFAULT, 1), second))
    assert {fabric.id for fabric in found.fabrics} == {"ib-fe80000000000000-sm1", expected}
    assert found.pfs[1].fabric == expected


def test_an_infiniband_pf_without_a_netdev() -> None:
    found = discover(two_rails((DEFAULT, 1), (DEFAULT, 1))).pfs[0]
    assert (found.name, found.link_type, found.rdma) == ("", "ib", "mlx5_0")
    assert (found.speed, found.mac) == (400_000, None)


def test_a_vf_device_is_read_without_counters_and_not_listed_in_the_fabric() -> None:
    host = bare()
    at = pf(host, "pci0000:00/0000:01:00.0", "ib0", class_="020700")
    vf(host, at, 0, "0000:01:10.0", "mlx5_core")
    infiniband(host, "mlx5_0", "0000:01:00.0", prefix=DEFAULT, sm_lid=1)
    infiniband(host, "mlx5_1", "0000:01:10.0", prefix=DEFAULT, sm_lid=1)
    for name in ("mlx5_0", "mlx5_1"):
        host.put(f"/sys/class/infiniband/{name}/ports/1/counters/link_downed", "3\n")
    found = discover(host)
    assert [device.ports[0].counters for device in found.rdma] == [{"link_downed": 3}, {}]
    assert found.fabrics[0].devices == ("mlx5_0",)
    assert found.pfs[0].vfs[0].guid == "38:25:f3:03:00:90:85:90"
