"""PFs and VFs as the lab's VM shows them, and what changes them."""

from __future__ import annotations

import errno

import pytest

from podrail.inventory import discover
from podrail.inventory.functions import _megabits
from tests.inventory.machines import IP_LINK, bare, function, lab_vm, links, pf, says, vf


def test_the_labs_pf() -> None:
    found = discover(lab_vm()).pf("0000:01:00.0")
    assert found is not None
    assert (found.name, found.mac, found.mtu) == ("eth1", "52:54:00:01:aa:00", 1500)
    assert (found.totalvfs, found.numvfs, found.autoprobe) == (7, 4, True)
    assert (found.firmware, found.link_type, found.fabric) == ("2.1.0", "eth", "eth")
    assert (found.state, found.admin_up, found.management) == ("UP", True, None)


def test_the_labs_vfs() -> None:
    found = discover(lab_vm()).pf("0000:01:00.0")
    assert found is not None
    assert [vf.pci for vf in found.vfs] == [f"0000:01:10.{i}" for i in (0, 2, 4, 6)]
    assert [vf.iommu_group for vf in found.vfs] == [10, 11, 12, 13]
    assert (found.vfs[0].driver, found.vfs[0].vlan, found.vfs[0].trust) == ("igbvf", 100, True)


def test_vfs_are_no_pfs_and_not_in_the_tree() -> None:
    found = discover(lab_vm())
    assert [pf.pci for pf in found.pfs] == ["0000:00:02.0", "0000:01:00.0"]
    assert all(not device.address.startswith("0000:01:10") for device in found.pci)


def test_virtio_is_the_management_nic() -> None:
    found = discover(lab_vm()).pfs[0]
    assert (found.name, found.totalvfs, len(found.vfs)) == ("eth0", 0, 0)
    assert found.management == "the default route leaves through eth0"


def test_virtio_without_a_parent_in_ip() -> None:
    host = bare()
    function(host, "pci0000:00/0000:00:02.0", vendor="1af4", device="1041")
    host.put_dir("/sys/devices/pci0000:00/0000:00:02.0/virtio1/net/eth7")
    assert discover(host).pfs[0].name == "eth7"


def test_speed_of_a_link_that_is_down_is_none_and_not_unknown() -> None:
    host = lab_vm()
    host.put("/sys/class/net/eth1/speed", errno.EINVAL)
    found = discover(host)
    assert found.pfs[1].speed is None
    assert "/sys/class/net/eth1/speed" not in {fact.path for fact in found.unknown}
    host.put("/sys/class/net/eth1/speed", "1000\n")
    assert discover(host).pfs[1].speed == 1000


@pytest.mark.parametrize(
    ("rate", "speed"),
    [("2.5 Gb/sec (1X SDR)", 2500), ("400 Gb/sec (4X NDR)", 400_000), ("fast", None), (None, None)],
)
def test_speed_from_a_verbs_rate(rate: str | None, speed: int | None) -> None:
    assert _megabits(rate) == speed


ESWITCH = ("devlink", "-j", "dev", "eswitch", "show", "pci/0000:01:00.0")


def test_eswitch_mode() -> None:
    host = lab_vm()
    says(host, ESWITCH, {"dev": {"pci/0000:01:00.0": {"mode": "switchdev"}}})
    assert discover(host).pfs[1].eswitch == "switchdev"


@pytest.mark.parametrize(
    ("stderr", "is_unknown"),
    [("kernel answers: No such device\n", False), ("Failed to connect to devlink\n", True)],
)
def test_no_eswitch_is_no_failure(stderr: str, is_unknown: bool) -> None:
    host = lab_vm()
    says(host, ESWITCH, "", rc=1, err=stderr)
    found = discover(host)
    assert found.pfs[1].eswitch is None
    paths = {fact.path for fact in found.unknown}
    assert (f"program:{' '.join(ESWITCH)}" in paths) is is_unknown


def test_an_unreadable_totalvfs_is_unknown() -> None:
    host = lab_vm()
    host.put("/sys/devices/pci0000:00/0000:00:04.0/0000:01:00.0/sriov_totalvfs", errno.EACCES)
    found = discover(host)
    assert found.pfs[1].totalvfs is None
    reasons = {fact.path: fact.reason for fact in found.unknown}
    path = "/sys/bus/pci/devices/0000:01:00.0/sriov_totalvfs"
    assert reasons[path] == "Permission denied (EACCES)"


def test_ipoib_pf() -> None:
    host = bare()
    pf(host, "pci0000:00/0000:3c:00.0", "ibp60s0", class_="020700", vendor="15b3", device="101b")
    address = "00:00:09:e8:fe:80:00:00:00:00:00:00:38:25:f3:03:00:90:85:90"
    says(
        host,
        IP_LINK,
        links(
            {
                "ifname": "ibp60s0",
                "link_type": "infiniband",
                "address": address,
                "altnames": ["ib-rail0"],
            }
        ),
    )
    found = discover(host).pfs[0]
    assert (found.link_type, found.mac, found.altnames) == ("ib", None, ("ib-rail0",))
    assert found.ipoib is not None
    assert found.ipoib.guid == "38:25:f3:03:00:90:85:90"


def test_a_vf_list_cut_short_by_netlink_is_unknown() -> None:
    host = bare()
    at = pf(host, "pci0000:00/0000:01:00.0", "eth1")
    for i in range(3):
        vf(host, at, i, f"0000:01:10.{i}")
    says(host, IP_LINK, links({"ifname": "eth1", "vfinfo_list": [{"vf": 0, "trust": True}]}))
    found = discover(host)
    assert [vf.trust for vf in found.pfs[0].vfs] == [True, None, None]
    assert any("1 of the 3 VFs of eth1" in fact.reason for fact in found.unknown)


def test_upstreams_record() -> None:
    host = lab_vm()
    host.put("/etc/sriov-operator/pci/0000:01:00.0", "{}")
    assert [pf.recorded for pf in discover(host).pfs] == [False, True]
