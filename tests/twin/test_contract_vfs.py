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


@covers("numvfs-create")
@pytest.mark.parametrize("count", [1, 4, 7])
def test_n_to_sriov_numvfs_makes_n_vfs(pf: Pf, count: int) -> None:
    pf.write("sriov_numvfs", str(count))
    assert pf.read("sriov_numvfs") == str(count)
    assert len([n for n in pf.host.entries(pf.path) if n.startswith("virtfn")]) == count
    assert len(pf.link()["vfinfo_list"]) == count


@covers("numvfs-erange")
def test_more_than_totalvfs_is_erange(pf: Pf) -> None:
    assert pf.read("sriov_totalvfs") == "7"
    assert refusal(pf, "sriov_numvfs", "8") == errno.ERANGE


@covers("numvfs-ebusy")
def test_another_number_without_zero_between_is_ebusy(pf: Pf) -> None:
    pf.write("sriov_numvfs", "7")
    assert refusal(pf, "sriov_numvfs", "4") == errno.EBUSY
    assert pf.read("sriov_numvfs") == "7"


@covers("numvfs-same")
def test_the_same_number_is_accepted_and_changes_nothing(pf: Pf) -> None:
    pf.write("sriov_numvfs", "3")
    before = pf.vf_netdev(0), pf.host.read(f"/sys/class/net/{pf.vf_netdev(0)}/ifindex")
    pf.write("sriov_numvfs", "3\n")
    assert (pf.vf_netdev(0), pf.host.read(f"/sys/class/net/{pf.vf_netdev(0)}/ifindex")) == before


@covers("numvfs-einval")
@pytest.mark.parametrize("text", ["four", "-1", "4 4", "4\n\n", " 4", "0x", "65536", "09", "\n"])
def test_what_is_no_16_bit_number_is_einval(pf: Pf, text: str) -> None:
    assert refusal(pf, "sriov_numvfs", text) == errno.EINVAL


@covers("numvfs-einval")
@pytest.mark.parametrize(("text", "count"), [("0x4", "4"), ("04\n", "4"), ("+2", "2")])
def test_numbers_are_read_in_base_zero(pf: Pf, text: str, count: str) -> None:
    pf.write("sriov_numvfs", text)
    assert pf.read("sriov_numvfs") == count


@covers("numvfs-zero")
def test_zero_takes_everything_away(pf: Pf) -> None:
    before = pf.host.entries("/sys/bus/pci/devices"), pf.host.entries("/sys/class/net")
    groups = pf.host.entries("/sys/kernel/iommu_groups")
    pf.write("sriov_numvfs", "5")
    pf.write("sriov_numvfs", "0")
    assert (pf.host.entries("/sys/bus/pci/devices"), pf.host.entries("/sys/class/net")) == before
    assert pf.host.entries("/sys/kernel/iommu_groups") == groups
    assert not [n for n in pf.host.entries(pf.path) if n.startswith("virtfn")]


@covers("numvfs-config")
@pytest.mark.parametrize("count", [0, 4])
def test_the_capability_follows(pf: Pf, count: int) -> None:
    pf.write("sriov_numvfs", str(count))
    raw = pf.host.read_bytes(f"{pf.path}/config")
    at = 0x100
    while int.from_bytes(raw[at : at + 2], "little") != 0x10:
        at = int.from_bytes(raw[at : at + 4], "little") >> 20
    assert int.from_bytes(raw[at + 0x10 : at + 0x12], "little") == count
    assert bool(raw[at + 0x08] & 1) == bool(count)


@covers("vf-address")
def test_vfs_are_at_offset_and_stride(pf: Pf) -> None:
    pf.write("sriov_numvfs", "4")
    first = pci_number(pf.address) + int(pf.read("sriov_offset"))
    stride = int(pf.read("sriov_stride"))
    assert [pf.vf(i) for i in range(4)] == [pci_address(first + i * stride) for i in range(4)]
    assert pf.vf(1).endswith(":10.2")


@covers("vf-links")
def test_virtfn_and_physfn_point_at_each_other(pf: Pf) -> None:
    pf.write("sriov_numvfs", "2")
    assert pf.host.readlink(f"{pf.path}/virtfn1") == f"../{pf.vf(1)}"
    assert pf.host.readlink(f"/sys/bus/pci/devices/{pf.vf(1)}/physfn") == f"../{pf.address}"
    assert pf.host.resolve(f"{pf.path}/virtfn1/physfn") == pf.host.resolve(pf.path)


@covers("vf-ids")
def test_a_vf_has_ids_of_its_own(pf: Pf) -> None:
    pf.write("sriov_numvfs", "1")
    vf = f"{pf.path}/virtfn0"
    for name in ("vendor", "class", "subsystem_vendor", "subsystem_device"):
        assert pf.host.read(f"{vf}/{name}") == pf.host.read(f"{pf.path}/{name}")
    assert pf.host.read(f"{vf}/device").strip() == f"0x{pf.read('sriov_vf_device')}"
    assert pf.driver(pf.vf(0)) == "igbvf"
    assert not exists(pf.host, f"{vf}/sriov_totalvfs")


@covers("vf-numa")
def test_a_vf_is_on_its_pfs_numa_node(pf: Pf) -> None:
    pf.write("sriov_numvfs", "1")
    assert pf.host.read(f"{pf.path}/virtfn0/numa_node") == pf.host.read(f"{pf.path}/numa_node")


@covers("vf-group")
def test_each_vf_has_its_own_iommu_group(pf: Pf) -> None:
    pf.write("sriov_numvfs", "4")
    groups = {pf.host.resolve(f"{pf.path}/virtfn{i}/iommu_group") for i in range(4)}
    groups.add(pf.host.resolve(f"{pf.path}/iommu_group"))
    assert len(groups) == 5
    assert all(pf.host.read(f"{group}/type") == "identity\n" for group in groups)


@covers("vf-name")
def test_without_udev_names_are_the_lowest_free(pf: Pf) -> None:
    taken = set(pf.host.entries("/sys/class/net"))
    pf.write("sriov_numvfs", "1")
    free = next(f"eth{n}" for n in range(99) if f"eth{n}" not in taken)
    assert pf.vf_netdev(0) == free


@covers("autoprobe-off")
def test_without_autoprobe_vfs_have_no_driver(pf: Pf) -> None:
    pf.write("sriov_drivers_autoprobe", "0")
    pf.write("sriov_numvfs", "2")
    assert [pf.driver(pf.vf(i)) for i in range(2)] == [None, None]
    assert not exists(pf.host, f"{pf.path}/virtfn0/net")
    assert len(pf.link()["vfinfo_list"]) == 2


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
