"""What mlx5 does; no lab has one, so each behaviour here is unproven."""

from __future__ import annotations

import json

import pytest

from podrail.host.seam import exists
from tests.twin.conftest import Pf
from tests.twin.covers import covers


@covers("mlx5-accepts")
@pytest.mark.parametrize(
    ("words", "rc"),
    [
        (("mac", "02:00:00:00:00:10"), 0),
        (("vlan", "100", "qos", "3"), 0),
        (("vlan", "100", "proto", "802.1ad"), 2),
        (("spoofchk", "on"), 0),
        (("trust", "on"), 0),
        (("state", "enable"), 0),
        (("min_tx_rate", "100", "max_tx_rate", "200"), 0),
        (("min_tx_rate", "300", "max_tx_rate", "200"), 2),
        (("node_guid", "00:11:22:33:44:55:66:77"), 2),
    ],
)
def test_an_ethernet_pf(roce: Pf, words: tuple[str, ...], rc: int) -> None:
    roce.write("sriov_numvfs", "2")
    assert roce.ip("vf", "1", *words)[0] == rc


@covers("mlx5-accepts")
def test_rates_are_kept_apart(roce: Pf) -> None:
    roce.write("sriov_numvfs", "1")
    roce.ip("vf", "0", "max_tx_rate", "200")
    roce.ip("vf", "0", "min_tx_rate", "100")
    assert roce.vf_info(0)["rate"] == {"max_tx": 200, "min_tx": 100}


@covers("mlx5-ib-accepts")
@pytest.mark.parametrize(
    ("words", "rc"),
    [
        (("node_guid", "00:11:22:33:44:55:66:77"), 0),
        (("port_guid", "00:11:22:33:44:55:66:77"), 0),
        (("state", "auto"), 0),
        (("mac", "02:00:00:00:00:10"), 2),
        (("vlan", "100"), 2),
        (("trust", "on"), 2),
        (("max_tx_rate", "10"), 2),
        (("node_guid", "zz"), 255),
    ],
)
def test_an_ipoib_pf(ib: Pf, words: tuple[str, ...], rc: int) -> None:
    ib.write("sriov_numvfs", "1")
    assert ib.ip("vf", "0", *words)[0] == rc


@covers("ib-vf-down")
def test_an_infiniband_vf_comes_up_with_guid_and_state(ib: Pf) -> None:
    ib.write("sriov_numvfs", "1")
    assert ib.vf_info(0)["link_state"] == "disable"
    port = f"{ib.path}/virtfn0/infiniband/mlx5_6/ports/1"
    assert ib.host.read(f"{port}/state") == "1: DOWN\n"
    for name in ("node_guid", "port_guid"):
        assert ib.ip("vf", "0", name, "7c:8c:09:03:00:ae:4c:20")[0] == 0
    ib.ip("vf", "0", "state", "auto")
    for way in ("unbind", "bind"):
        ib.host.write(f"/sys/bus/pci/drivers/mlx5_core/{way}", ib.vf(0))
    assert ib.host.read(f"{port}/state") == "4: ACTIVE\n"
    assert ib.host.read(f"{ib.path}/virtfn0/infiniband/mlx5_6/node_guid") == "7c8c:0903:00ae:4c20\n"
    assert ib.vf_info(0)["node guid"] == "7c:8c:09:03:00:ae:4c:20"
    gid = ib.host.read(f"{port}/gids/0")
    assert gid == "fe80:0000:0000:0000:7c8c:0903:00ae:4c20\n"


@covers("mlx5-rdma", "vf-name-udev")
def test_every_vf_has_a_netdev_and_an_rdma_device(roce: Pf) -> None:
    roce.write("sriov_numvfs", "3")
    at = [f"{roce.path}/virtfn{i}" for i in range(3)]
    assert [roce.host.entries(f"{p}/net") for p in at] == [(f"ens8f0v{i}",) for i in range(3)]
    assert [roce.host.entries(f"{p}/infiniband") for p in at] == [(f"mlx5_{i}",) for i in (2, 3, 4)]
    links = json.loads(roce.host.run(["rdma", "-j", "-d", "link"]).stdout)
    assert [n["netdev"] for n in links] == ["ens8f0", "ens8f1", "ens8f0v0", "ens8f0v1", "ens8f0v2"]


@covers("roce-port")
def test_a_roce_port_follows_its_netdev(roce: Pf) -> None:
    state = "/sys/class/infiniband/mlx5_0/ports/1/state"
    assert roce.host.read(state) == "4: ACTIVE\n"
    roce.ip("down")
    assert roce.host.read(state) == "1: DOWN\n"
    roce.ip("up")
    assert roce.host.read(state) == "4: ACTIVE\n"


@covers("roce-mtu")
@pytest.mark.parametrize(("mtu", "active"), [("1500", 1024), ("9000", 4096), ("4200", 4096)])
def test_the_active_mtu_is_what_fits(roce: Pf, mtu: str, active: int) -> None:
    roce.host.write("/sys/class/net/ens8f0/mtu", mtu)
    said = roce.host.run(["ibv_devinfo", "-d", "mlx5_0"]).stdout
    assert f"active_mtu:\t\t{active} (" in said


@covers("ib-eswitch")
def test_eswitch_modes(roce: Pf, ib: Pf) -> None:
    ran = roce.host.run(["devlink", "-j", "dev", "eswitch", "show", f"pci/{roce.address}"])
    assert json.loads(ran.stdout)["dev"][f"pci/{roce.address}"]["mode"] == "legacy"
    ran = ib.host.run(["devlink", "-j", "dev", "eswitch", "show", f"pci/{ib.address}"])
    assert (ran.rc, ran.stderr) == (1, "kernel answers: Operation not supported\n")


@covers("gid-unused")
def test_an_unused_gid_is_zero_and_has_no_type(roce: Pf) -> None:
    port = "/sys/class/infiniband/mlx5_1/ports/1"
    assert len(roce.host.entries(f"{port}/gids")) == 256
    assert roce.host.read(f"{port}/gids/3").endswith("ffff:c0a8:c80b\n")
    assert roce.host.read(f"{port}/gid_attrs/types/3") == "RoCE v2\n"
    assert roce.host.read(f"{port}/gid_attrs/ndevs/3") == "ens8f1\n"
    assert not set(roce.host.read(f"{port}/gids/4").strip()) - {"0", ":"}
    with pytest.raises(OSError, match="Invalid argument"):
        roce.host.read(f"{port}/gid_attrs/types/4")


@covers("ip-rename")
def test_before_6_2_only_a_netdev_that_is_down_is_renamed(roce: Pf) -> None:
    assert roce.host.read("/proc/sys/kernel/osrelease").startswith("5.14.")
    assert roce.ip("name", "net1") == (2, "RTNETLINK answers: Device or resource busy")
    roce.ip("down")
    assert roce.ip("name", "net1") == (0, "")
    assert "net1" in roce.host.entries("/sys/class/net")


def test_mtu_of_a_vf_is_its_own(roce: Pf) -> None:
    roce.write("sriov_numvfs", "1")
    roce.host.write("/sys/class/net/ens8f0v0/mtu", "9000")
    assert roce.read("net/ens8f0/mtu") == "1500"
    assert not exists(roce.host, "/sys/class/net/ens8f0v1")
