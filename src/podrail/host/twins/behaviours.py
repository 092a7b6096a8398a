"""Everything a twin claims a machine does, each with what it was copied from.

`proven` means a recording of the lab shows it; `unproven` that only the kernel's or the program's
source says so. A path under tests/ or docs/ is in this repository, any other in the Linux tree.
"""

from __future__ import annotations

from dataclasses import dataclass

PROVEN, UNPROVEN = "proven", "unproven"
_README = "docs/recordings.md"
_IOV = "drivers/pci/iov.c:sriov_numvfs_store"
_BUS = "drivers/base/bus.c"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One claim."""

    id: str
    statement: str
    citation: str
    status: str


def _b(id_: str, status: str, statement: str, citation: str) -> Behaviour:
    return Behaviour(id_, statement, citation, status)


BEHAVIOURS: tuple[Behaviour, ...] = (
    _b("numvfs-create", PROVEN, "N to sriov_numvfs makes N VFs", _README),
    _b("numvfs-erange", PROVEN, "more than sriov_totalvfs is ERANGE", _README),
    _b("numvfs-ebusy", PROVEN, "from one number to another, not 0, is EBUSY", _README),
    _b("numvfs-same", UNPROVEN, "the number there is, is accepted and changes nothing", _IOV),
    _b("numvfs-einval", UNPROVEN, "what is no 16 bit number is EINVAL", _IOV),
    _b("numvfs-enoent", UNPROVEN, "without a PF driver that does SR-IOV it is ENOENT", _IOV),
    _b("totalvfs-driver", PROVEN, "igb allows 7 of the 8 VFs the card has",
       "tests/data/lab/lspci-xxxx-PF.txt at 0x16e, sysfs-PF-device-with-VFs.txt"),
    _b("totalvfs-no-driver", UNPROVEN, "without a driver sriov_totalvfs is what the card has",
       "drivers/pci/iov.c:pci_iov_remove"),
    _b("numvfs-zero", PROVEN, "0 takes all VFs away", "docs/recordings.md"),
    _b("numvfs-config", PROVEN, "NumVFs and VF Enable of the capability follow",
       "tests/data/lab/lspci-xxxx-PF.txt at 0x168 and 0x170"),
    _b("vf-address", PROVEN, "a VF is at PF + offset + stride × index", _README),
    _b("vf-links", PROVEN, "virtfnN and physfn point at each other",
       "tests/data/lab/sysfs-PF-device-with-VFs.txt, sysfs-VF0-device.txt"),
    _b("vf-ids", PROVEN, "a VF has the PF's vendor, class and subsystem, and the VF device id",
       "tests/data/lab/sysfs-VF0-device.txt"),
    _b("vf-numa", PROVEN, "a VF is on its PF's NUMA node", "docs/recordings.md"),
    _b("vf-group", PROVEN, "behind a port with ACS each VF has its own IOMMU group",
       "tests/data/lab/iommu-groups.txt"),
    _b("vf-group-shared", UNPROVEN, "behind a port without ACS they share the port's group",
       "drivers/iommu/iommu.c:pci_device_group"),
    _b("vf-name", PROVEN, "without udev a VF's netdev is the lowest free ethN",
       "tests/data/lab/vfio-bind.txt"),
    _b("vf-name-udev", UNPROVEN, "with udev it is the PF's name and vN",
       "systemd.net-naming-scheme(7), v239"),
    _b("vf-random-mac", PROVEN, "a VF nobody gave a MAC takes a random one; igb shows it at the PF",
       "tests/data/lab/ip-d-j-link-rootns.json, vfio-bind.txt"),
    _b("autoprobe-off", PROVEN, "sriov_drivers_autoprobe=0 leaves new VFs without a driver",
       "tests/data/lab/spoofchk-autoprobe.txt"),
    _b("autoprobe-bind", UNPROVEN, "and bind is ENODEV on them unless driver_override is set",
       "drivers/pci/pci-driver.c:pci_device_can_probe"),
    _b("unbind", PROVEN, "unbind takes the netdev away", "tests/data/lab/vfio-bind.txt"),
    _b("bind", PROVEN, "bind brings it back", "docs/recordings.md"),
    _b("bind-refused", UNPROVEN, "bind is ENODEV on no match, EBUSY when bound; unbind is ENODEV",
       f"{_BUS}:bind_store, unbind_store; drivers/base/dd.c:__driver_probe_device"),
    _b("override", PROVEN, "driver_override and drivers_probe give a VF to vfio-pci and back",
       "tests/data/lab/vfio-bind.txt"),
    _b("override-null", PROVEN, "driver_override reads (null) when unset",
       "tests/data/lab/sysfs-VF0-device.txt"),
    _b("vfio-node", PROVEN, "vfio-pci makes /dev/vfio/GROUP", "tests/data/lab/vfio-bind.txt"),
    _b("pf-unbind", UNPROVEN, "a PF that loses its driver loses its VFs",
       "drivers/net/ethernet/intel/igb/igb_main.c:igb_remove"),
    _b("read-only", UNPROVEN, "a read-only attribute refuses even root with EACCES",
       "fs/kernfs/file.c:kernfs_fop_open"),
    _b("mtu-range", UNPROVEN, "an MTU outside min_mtu and max_mtu is EINVAL",
       "net/core/dev.c:dev_validate_mtu"),
    _b("igb-accepts", PROVEN, "igb takes mac, vlan, qos, spoofchk, trust, max_tx_rate", _README),
    _b("igb-refuses", PROVEN, "igb refuses vlan proto 802.1ad, state, min_tx_rate, an unknown VF",
       _README),
    _b("igb-rate", UNPROVEN, "igb refuses a rate above the link's, and any without a link",
       "drivers/net/ethernet/intel/igb/igb_main.c:igb_ndo_set_vf_bw"),
    _b("admin-mac", PROVEN, "an admin-set MAC shows on the VF after unbind and bind", _README),
    _b("untrusted-mac", PROVEN, "an untrusted VF cannot leave its admin-set MAC: EADDRNOTAVAIL",
       _README),
    _b("ip-json", PROVEN, "ip -d -j link has these keys in this order",
       "tests/data/lab/ip-d-j-link-rootns.json"),
    _b("ip-empty-vfs", UNPROVEN, "a PF without VFs has an empty vfinfo_list",
       "net/core/rtnetlink.c:rtnl_fill_vf"),
    _b("ip-errors", UNPROVEN, "ip exits 1 for no device, 2 when the kernel refuses, 255 for syntax",
       "iproute2 6.1 run on the development machine; ip/iplink.c, lib/utils.c"),
    _b("ip-rename", UNPROVEN, "a netdev that is up cannot be renamed: EBUSY",
       "net/core/dev.c:dev_change_name"),
    _b("no-devlink", PROVEN, "igb has no devlink handle", "tests/data/lab/devlink-j-dev.txt"),
    _b("rdma-text", PROVEN, "the lab's rdma -j system prints text",
       "tests/data/lab/rdma-j-system.json"),
    _b("mlx5-accepts", UNPROVEN, "an mlx5 Ethernet PF also takes state and min_tx_rate",
       "drivers/net/ethernet/mellanox/mlx5/core/en_main.c:mlx5e_netdev_ops"),
    _b("mlx5-ib-accepts", UNPROVEN, "an IPoIB PF takes state, node_guid and port_guid only",
       "drivers/infiniband/ulp/ipoib/ipoib_main.c:ipoib_netdev_ops_pf"),
    _b("mlx5-rdma", UNPROVEN, "an mlx5 VF has an RDMA device while mlx5_ib is loaded",
       "drivers/infiniband/hw/mlx5/main.c:mlx5r_probe"),
    _b("ib-vf-down", UNPROVEN, "an InfiniBand VF is down, without GUID, until both are set",
       "seed 003 step 7; drivers/infiniband/hw/mlx5/ib_virt.c"),
    _b("roce-port", UNPROVEN, "a RoCE port is ACTIVE while its netdev has a carrier",
       "drivers/infiniband/hw/mlx5/main.c:mlx5_query_port_roce"),
    _b("roce-mtu", UNPROVEN, "its active MTU is what fits into the netdev's",
       "include/rdma/ib_addr.h:iboe_get_mtu"),
    _b("ib-eswitch", UNPROVEN, "an InfiniBand PF has no eswitch mode",
       "drivers/net/ethernet/mellanox/mlx5/core/eswitch_offloads.c:mlx5_devlink_eswitch_get"),
    _b("gid-unused", PROVEN, "an unused GID is zero, and its type cannot be read",
       "tests/data/lab/sysfs-infiniband-rxe0.txt"),
    _b("module-users", UNPROVEN, "a module cannot go without those that use it",
       "kernel/module/main.c:delete_module"),
)  # fmt: skip
