"""bind, unbind, driver_override, drivers_probe and modprobe, through the host seam only."""

from __future__ import annotations

import errno

from podrail.host.seam import exists
from tests.twin.conftest import Pf
from tests.twin.covers import covers

DRIVERS = "/sys/bus/pci/drivers"
PROBE = "/sys/bus/pci/drivers_probe"


def refusal(pf: Pf, path: str, text: str) -> int | None:
    try:
        pf.host.write(path, text)
    except OSError as no:
        return no.errno
    return None


@covers("unbind", "bind", "udev-settle")
def test_unbind_takes_the_netdev_and_bind_brings_it_back(vfs: Pf) -> None:
    vf, name = vfs.vf(1), vfs.vf_netdev(1)
    vfs.host.write(f"{DRIVERS}/igbvf/unbind", vf)
    assert vfs.driver(vf) is None
    assert not exists(vfs.host, f"/sys/class/net/{name}")
    assert vf not in vfs.host.entries(f"{DRIVERS}/igbvf")
    vfs.host.write(f"{DRIVERS}/igbvf/bind", f"{vf}\n")
    assert vfs.driver(vf) == "igbvf"
    vfs.settle()
    assert vfs.vf_netdev(1) == name
    assert len(vfs.link()["vfinfo_list"]) == 3


@covers("bind-refused")
def test_bind_and_unbind_refuse(vfs: Pf) -> None:
    vf = vfs.vf(1)
    assert refusal(vfs, f"{DRIVERS}/igbvf/bind", vf) == errno.EBUSY
    assert refusal(vfs, f"{DRIVERS}/igb/bind", vf) == errno.ENODEV
    assert refusal(vfs, f"{DRIVERS}/igb/unbind", vf) == errno.ENODEV
    assert refusal(vfs, f"{DRIVERS}/igbvf/bind", "0000:ff:1f.7") == errno.ENODEV
    assert refusal(vfs, PROBE, "0000:ff:1f.7") == errno.ENODEV


@covers("modprobe")
def test_modprobe_knows_what_is_on_the_disk(vfs: Pf) -> None:
    ran = vfs.host.run(["modprobe", "nosuch"])
    kernel = vfs.host.read("/proc/sys/kernel/osrelease").strip()
    said = f"modprobe: FATAL: Module nosuch not found in directory /lib/modules/{kernel}\n"
    assert (ran.rc, ran.stderr) == (1, said)
    assert vfs.host.run(["modprobe", "igb"]).rc == 0


@covers("override", "override-null", "vfio-node", "modprobe")
def test_vfio_pci_and_back(vfs: Pf) -> None:
    vf, host = vfs.vf(1), vfs.host
    at = f"/sys/bus/pci/devices/{vf}"
    group = host.readlink(f"{at}/iommu_group").rpartition("/")[2]
    assert host.read(f"{at}/driver_override") == "(null)\n"
    host.write(f"{at}/driver/unbind", vf)
    host.write(f"{at}/driver_override", "vfio-pci")
    assert host.run(["modprobe", "vfio-pci"]).rc == 0  # which probes it, where it was not loaded
    host.write(PROBE, vf)
    assert vfs.driver(vf) == "vfio-pci"
    loaded = {line.split()[0] for line in host.read("/proc/modules").splitlines()}
    assert {"vfio_pci", "vfio_pci_core", "vfio", "vfio_iommu_type1", "irqbypass"} <= loaded
    assert not exists(host, f"{at}/net")
    assert group in host.entries("/dev/vfio")
    assert host.entries(f"{at}/vfio-dev") == ("vfio0",)
    host.write(f"{at}/driver_override", "\n")
    assert host.read(f"{at}/driver_override") == "(null)\n"
    host.write(f"{DRIVERS}/vfio-pci/unbind", vf)
    host.write(PROBE, vf)
    vfs.settle()
    assert vfs.driver(vf) == "igbvf"
    assert not exists(host, f"/dev/vfio/{group}")


@covers("override")
def test_an_override_keeps_other_drivers_off(vfs: Pf) -> None:
    vf = vfs.vf(1)
    override = f"/sys/bus/pci/devices/{vf}/driver_override"
    vfs.host.write(f"{DRIVERS}/igbvf/unbind", vf)
    vfs.host.write(override, "nobody")
    vfs.host.write(PROBE, vf)
    assert vfs.driver(vf) is None
    assert refusal(vfs, f"{DRIVERS}/igbvf/bind", vf) == errno.ENODEV
    vfs.host.write(override, "\n")
    vfs.host.write(PROBE, vf)
    vfs.settle()
    assert vfs.driver(vf) == "igbvf"


@covers("mailbox", "igb-rate")
def test_a_pf_that_is_down_does_not_hear_its_vfs(pf: Pf) -> None:
    pf.make(1)
    assert pf.vf_info(0)["address"] == "00:00:00:00:00:00"
    assert pf.ip("vf", "0", "mac", "02:00:00:00:00:10") == (0, "")
    pf.rebind(0)
    assert pf.netdev(pf.vf_netdev(0))["address"] != "02:00:00:00:00:10"
    assert pf.ip("vf", "0", "max_tx_rate", "100") == (2, "RTNETLINK answers: Invalid argument")


@covers("pf-unbind", "numvfs-enoent", "totalvfs-no-driver")
def test_a_pf_without_driver_has_no_vfs_and_makes_none(pf: Pf) -> None:
    pf.make(1)
    pf.host.write(f"{DRIVERS}/igb/unbind", pf.address)
    assert pf.read("sriov_numvfs") == "0"
    assert pf.read("sriov_totalvfs") == "8"
    assert refusal(pf, f"{pf.path}/sriov_numvfs", "2") == errno.ENOENT
    pf.host.write(f"{DRIVERS}/igb/bind", pf.address)
    pf.settle()
    assert pf.host.entries(f"{pf.path}/net") == (pf.name,)


@covers("rdma-autoload", "rdma-text")
def test_rdma_loads_ib_core_and_prints_text_in_the_lab(pf: Pf) -> None:
    said = pf.host.run(["rdma", "-j", "system"]).stdout
    assert said.startswith(("netns shared ", "netns exclusive "))
    assert exists(pf.host, "/sys/module/ib_core")
    assert exists(pf.host, "/sys/class/infiniband")


@covers("no-devlink")
def test_igb_has_no_devlink(pf: Pf) -> None:
    ran = pf.host.run(["devlink", "-j", "dev", "eswitch", "show", f"pci/{pf.address}"])
    assert ran.rc == 1
    assert "No such device" in ran.stderr
