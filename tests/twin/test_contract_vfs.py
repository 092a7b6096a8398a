"""The kernel's SR-IOV contract: which writes it takes, and what VFs look like.

These tests speak to the host seam only: PODRAIL_CONTRACT_HOST runs them against another machine.
"""

from __future__ import annotations

import errno

import pytest

from podrail.host.seam import exists
from podrail.model.vf import pci_address, pci_number
from tests.twin.conftest import Pf
from tests.twin.covers import covers


def refusal(pf: Pf, attribute: str, text: str) -> int | None:
    try:
        pf.write(attribute, text)
    except OSError as no:
        return no.errno
    return None


def virtfns(pf: Pf) -> list[str]:
    return [name for name in pf.host.entries(pf.path) if name.startswith("virtfn")]


def capability(pf: Pf) -> tuple[int, bool]:
    """NumVFs and VF Enable of the SR-IOV capability."""
    raw = pf.host.read_bytes(f"{pf.path}/config")
    at = 0x100
    while int.from_bytes(raw[at : at + 2], "little") != 0x10:
        at = int.from_bytes(raw[at : at + 4], "little") >> 20
    return int.from_bytes(raw[at + 0x10 : at + 0x12], "little"), bool(raw[at + 0x08] & 1)


def groups(pf: Pf, count: int) -> list[str]:
    """The IOMMU group of the PF, then those of its VFs."""
    places = [pf.path, *(f"{pf.path}/virtfn{i}" for i in range(count))]
    return [pf.host.resolve(f"{place}/iommu_group") for place in places]


@covers("numvfs-create", "numvfs-sync", "numvfs-zero", "vf-group-shared", "numvfs-config")
def test_all_vfs_come_and_go(pf: Pf) -> None:
    before = pf.host.entries("/sys/bus/pci/devices"), pf.host.entries("/sys/class/net")
    isolated = pf.host.entries("/sys/kernel/iommu_groups")
    assert capability(pf) == (0, False)
    pf.host.run(["modprobe", "igbvf"])
    pf.write("sriov_numvfs", "7")
    bound = [
        (pf.driver(pf.vf(i)), len(pf.host.entries(f"{pf.path}/virtfn{i}/net"))) for i in range(7)
    ]
    assert bound == [("igbvf", 1)] * 7
    pf.settle()
    assert [pf.vf_netdev(i) for i in range(7)] == [f"{pf.name}v{i}" for i in range(7)]
    assert pf.read("sriov_numvfs") == "7"
    assert len(virtfns(pf)) == len(pf.link()["vfinfo_list"]) == 7
    assert len(set(groups(pf, 7))) == 1
    pf.make(0)
    assert (pf.host.entries("/sys/bus/pci/devices"), pf.host.entries("/sys/class/net")) == before
    assert pf.host.entries("/sys/kernel/iommu_groups") == isolated
    assert virtfns(pf) == []


@covers("numvfs-create", "numvfs-config")
def test_n_to_sriov_numvfs_makes_n_vfs(vfs: Pf) -> None:
    assert vfs.read("sriov_numvfs") == "3"
    assert len(virtfns(vfs)) == len(vfs.link()["vfinfo_list"]) == 3
    assert capability(vfs) == (3, True)


@covers("numvfs-erange")
def test_more_than_totalvfs_is_erange(vfs: Pf) -> None:
    assert vfs.read("sriov_totalvfs") == "7"
    assert refusal(vfs, "sriov_numvfs", "8") == errno.ERANGE


@covers("numvfs-ebusy")
def test_another_number_without_zero_between_is_ebusy(vfs: Pf) -> None:
    assert [refusal(vfs, "sriov_numvfs", n) for n in ("2", "7")] == [errno.EBUSY] * 2
    assert vfs.read("sriov_numvfs") == "3"


@covers("numvfs-same", "numvfs-einval")
@pytest.mark.parametrize("text", ["3", "3\n", "0x3", "03\n", "+3"])
def test_the_same_number_in_any_base_changes_nothing(vfs: Pf, text: str) -> None:
    before = vfs.vf_netdev(0), vfs.host.read(f"/sys/class/net/{vfs.vf_netdev(0)}/ifindex")
    vfs.write("sriov_numvfs", text)
    after = vfs.vf_netdev(0), vfs.host.read(f"/sys/class/net/{vfs.vf_netdev(0)}/ifindex")
    assert after == before


@covers("numvfs-einval")
@pytest.mark.parametrize("text", ["four", "-1", "4 4", "4\n\n", " 4", "0x", "65536", "09", "\n"])
def test_what_is_no_16_bit_number_is_einval(vfs: Pf, text: str) -> None:
    assert refusal(vfs, "sriov_numvfs", text) == errno.EINVAL


@covers("vf-address")
def test_vfs_are_at_offset_and_stride(vfs: Pf) -> None:
    first = pci_number(vfs.address) + int(vfs.read("sriov_offset"))
    stride = int(vfs.read("sriov_stride"))
    assert [vfs.vf(i) for i in range(3)] == [pci_address(first + i * stride) for i in range(3)]
    assert vfs.vf(1).endswith(":10.2")


@covers("vf-links")
def test_virtfn_and_physfn_point_at_each_other(vfs: Pf) -> None:
    assert vfs.host.readlink(f"{vfs.path}/virtfn1") == f"../{vfs.vf(1)}"
    assert vfs.host.readlink(f"/sys/bus/pci/devices/{vfs.vf(1)}/physfn") == f"../{vfs.address}"
    assert vfs.host.resolve(f"{vfs.path}/virtfn1/physfn") == vfs.host.resolve(vfs.path)


@covers("vf-ids", "module-autoload")
def test_a_vf_has_ids_of_its_own(vfs: Pf) -> None:
    vf = f"{vfs.path}/virtfn0"
    for name in ("vendor", "class", "subsystem_vendor", "subsystem_device"):
        assert vfs.host.read(f"{vf}/{name}") == vfs.host.read(f"{vfs.path}/{name}")
    assert vfs.host.read(f"{vf}/device").strip() == f"0x{vfs.read('sriov_vf_device')}"
    assert vfs.driver(vfs.vf(0)) == "igbvf"
    assert "\nigbvf " in "\n" + vfs.host.read("/proc/modules")
    assert not exists(vfs.host, f"{vf}/sriov_totalvfs")


@covers("vf-numa")
def test_a_vf_is_on_its_pfs_numa_node(vfs: Pf) -> None:
    node = vfs.host.read(f"{vfs.path}/numa_node")
    assert (vfs.host.read(f"{vfs.path}/virtfn0/numa_node"), node) == ("1\n", "1\n")


@covers("vf-group")
def test_each_vf_has_its_own_iommu_group(vfs: Pf) -> None:
    found = groups(vfs, 3)
    assert len(set(found)) == 4
    assert all(vfs.host.read(f"{group}/type") == "identity\n" for group in found)


@covers("group-slot")
def test_functions_of_one_slot_without_acs_share_a_group(vfs: Pf) -> None:
    at = "/sys/bus/pci/devices/0000:00"
    found = {vfs.host.resolve(f"{at}:1f.{function}/iommu_group") for function in (0, 2, 3)}
    assert len(found) == 1
    assert vfs.host.resolve(f"{at}:06.0/iommu_group") not in found


@covers("vf-name-udev", "altnames")
def test_udev_names_a_vf_after_its_pf(vfs: Pf) -> None:
    assert vfs.vf_netdev(2) == f"{vfs.name}v2"
    of_pf = vfs.link()["altnames"]
    assert of_pf == ["enp129s0", f"enx{vfs.link()['address'].replace(':', '')}"]
    assert vfs.netdev(vfs.vf_netdev(2))["altnames"] == ["enp129s0v2"]


@covers("autoprobe-off", "autoprobe-bind")
def test_without_autoprobe_a_vf_has_no_driver_until_one_is_forced(pf: Pf) -> None:
    pf.write("sriov_drivers_autoprobe", "0")
    pf.make(1)
    at, bind = f"{pf.path}/virtfn0", "/sys/bus/pci/drivers/igbvf/bind"
    assert (pf.driver(pf.vf(0)), exists(pf.host, f"{at}/net")) == (None, False)
    assert len(pf.link()["vfinfo_list"]) == 1
    with pytest.raises(OSError, match="No such device"):
        pf.host.write(bind, pf.vf(0))
    pf.host.write("/sys/bus/pci/drivers_probe", pf.vf(0))
    assert pf.driver(pf.vf(0)) is None
    pf.host.write(f"{at}/driver_override", "igbvf")
    pf.host.write(bind, pf.vf(0))
    assert pf.driver(pf.vf(0)) == "igbvf"


@covers("autoprobe-off")
def test_autoprobe_takes_a_switch(pf: Pf) -> None:
    pf.write("sriov_drivers_autoprobe", "n")
    assert pf.read("sriov_drivers_autoprobe") == "0"
    assert refusal(pf, "sriov_drivers_autoprobe", "perhaps") == errno.EINVAL


@covers("read-only")
def test_a_read_only_attribute_refuses_root(pf: Pf) -> None:
    assert refusal(pf, "sriov_totalvfs", "8") == errno.EACCES
    assert refusal(pf, "no_such_attribute", "8") == errno.ENOENT


@covers("mtu-range")
@pytest.mark.parametrize(("mtu", "code"), [("9217", errno.EINVAL), ("1", 22), ("x", 22)])
def test_an_mtu_outside_the_range_is_einval(pf: Pf, mtu: str, code: int) -> None:
    assert refusal(pf, f"net/{pf.name}/mtu", mtu) == code


@covers("mtu-range")
def test_an_mtu_inside_the_range_shows_in_ip(pf: Pf) -> None:
    pf.write(f"net/{pf.name}/mtu", "9216")
    assert pf.link()["mtu"] == 9216
    pf.write(f"net/{pf.name}/mtu", "1500")


@covers("read-only")
def test_no_file_is_made_or_removed_in_sysfs(pf: Pf) -> None:
    with pytest.raises(OSError, match="podrail") as no:
        pf.host.place(f"{pf.path}/podrail", "x")
    assert no.value.errno == errno.EACCES
    with pytest.raises(OSError, match="sriov_numvfs") as no:
        pf.host.unlink(f"{pf.path}/sriov_numvfs")
    assert no.value.errno == errno.EPERM
    with pytest.raises(FileNotFoundError):
        pf.host.unlink(f"{pf.path}/podrail")
    assert pf.read("sriov_numvfs") == "0"


def test_a_file_is_placed_and_taken_away(pf: Pf) -> None:
    path = "/run/podrail-contract/deep/file"
    for text in ("one\n", "two\n"):
        pf.host.place(path, text)
        assert pf.host.read(path) == text
    assert pf.host.entries("/run/podrail-contract/deep") == ("file",)
    pf.host.unlink(path)
    with pytest.raises(FileNotFoundError):
        pf.host.unlink(path)
