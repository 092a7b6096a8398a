"""bind, unbind, driver_override and drivers_probe, through the host seam only."""

from __future__ import annotations

import errno

import pytest

from podrail.host.seam import exists
from tests.twin.conftest import Pf
from tests.twin.covers import covers

DRIVERS = "/sys/bus/pci/drivers"


def refusal(pf: Pf, path: str, text: str) -> int | None:
    try:
        pf.host.write(path, text)
    except OSError as no:
        return no.errno
    return None


@pytest.fixture
def vf(pf: Pf) -> str:
    pf.write("sriov_numvfs", "2")
    return pf.vf(1)


@covers("unbind", "bind")
def test_unbind_takes_the_netdev_and_bind_brings_it_back(pf: Pf, vf: str) -> None:
    name = pf.vf_netdev(1)
    pf.host.write(f"{DRIVERS}/igbvf/unbind", vf)
    assert pf.driver(vf) is None
    assert not exists(pf.host, f"/sys/class/net/{name}")
    assert vf not in pf.host.entries(f"{DRIVERS}/igbvf")
    pf.host.write(f"{DRIVERS}/igbvf/bind", f"{vf}\n")
    assert pf.driver(vf) == "igbvf"
    assert pf.vf_netdev(1) == name
    assert len(pf.link()["vfinfo_list"]) == 2


@covers("bind-refused")
def test_bind_and_unbind_refuse(pf: Pf, vf: str) -> None:
    assert refusal(pf, f"{DRIVERS}/igbvf/bind", vf) == errno.EBUSY
    assert refusal(pf, f"{DRIVERS}/igb/bind", vf) == errno.ENODEV
    assert refusal(pf, f"{DRIVERS}/igb/unbind", vf) == errno.ENODEV
    assert refusal(pf, f"{DRIVERS}/igbvf/bind", "0000:ff:1f.7") == errno.ENODEV
    assert refusal(pf, "/sys/bus/pci/drivers_probe", "0000:ff:1f.7") == errno.ENODEV


@covers("override", "override-null", "vfio-node")
def test_vfio_pci_and_back(pf: Pf, vf: str) -> None:
    at = f"/sys/bus/pci/devices/{vf}"
    group = pf.host.readlink(f"{at}/iommu_group").rpartition("/")[2]
    assert pf.host.read(f"{at}/driver_override") == "(null)\n"
    pf.host.write(f"{at}/driver/unbind", vf)
    pf.host.write(f"{at}/driver_override", "vfio-pci")
    pf.host.write("/sys/bus/pci/drivers_probe", vf)
    assert pf.driver(vf) == "vfio-pci"
    assert not exists(pf.host, f"{at}/net")
    assert group in pf.host.entries("/dev/vfio")
    pf.host.write(f"{at}/driver_override", "\n")
    assert pf.host.read(f"{at}/driver_override") == "(null)\n"
    pf.host.write(f"{DRIVERS}/vfio-pci/unbind", vf)
    pf.host.write("/sys/bus/pci/drivers_probe", vf)
    assert pf.driver(vf) == "igbvf"
    assert not exists(pf.host, f"/dev/vfio/{group}")


@covers("override")
def test_an_override_keeps_other_drivers_off(pf: Pf, vf: str) -> None:
    at = f"/sys/bus/pci/devices/{vf}"
    pf.host.write(f"{DRIVERS}/igbvf/unbind", vf)
    pf.host.write(f"{at}/driver_override", "nobody")
    pf.host.write("/sys/bus/pci/drivers_probe", vf)
    assert pf.driver(vf) is None
    assert refusal(pf, f"{DRIVERS}/igbvf/bind", vf) == errno.ENODEV


@covers("autoprobe-bind")
def test_without_autoprobe_bind_needs_an_override(pf: Pf) -> None:
    pf.write("sriov_drivers_autoprobe", "0")
    pf.write("sriov_numvfs", "1")
    vf = pf.vf(0)
    assert refusal(pf, f"{DRIVERS}/igbvf/bind", vf) == errno.ENODEV
    pf.host.write("/sys/bus/pci/drivers_probe", vf)
    assert pf.driver(vf) is None
    pf.host.write(f"/sys/bus/pci/devices/{vf}/driver_override", "igbvf")
    pf.host.write(f"{DRIVERS}/igbvf/bind", vf)
    assert pf.driver(vf) == "igbvf"


@covers("pf-unbind", "numvfs-enoent", "totalvfs-no-driver")
def test_a_pf_without_driver_has_no_vfs_and_makes_none(pf: Pf) -> None:
    pf.write("sriov_numvfs", "3")
    pf.host.write(f"{DRIVERS}/igb/unbind", pf.address)
    assert pf.read("sriov_numvfs") == "0"
    assert pf.read("sriov_totalvfs") == "8"
    assert refusal(pf, f"{pf.path}/sriov_numvfs", "2") == errno.ENOENT
    pf.host.write(f"{DRIVERS}/igb/bind", pf.address)
    assert pf.host.entries(f"{pf.path}/net") == (pf.name,)
