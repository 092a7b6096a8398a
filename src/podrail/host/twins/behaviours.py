"""Everything a twin claims a machine does, each with what it was copied from.

`proven` means that the lab shows it: tests/lab/test_contract.py runs the twin's own tests on a
node, or a recording under tests/data/lab/ has it. `unproven` means that only the source of the
kernel or of the program says so. A path under tests/ is in this repository, any other in the Linux
tree.
"""

from __future__ import annotations

from dataclasses import dataclass

PROVEN, UNPROVEN = "proven", "unproven"
_NODE = "tests/lab/test_contract.py"


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
    _b("numvfs-create", PROVEN, "N to sriov_numvfs makes N VFs", _NODE),
    _b("numvfs-sync", PROVEN, "the write returns when each VF has its driver and a netdev", _NODE),
    _b("numvfs-erange", PROVEN, "more than sriov_totalvfs is ERANGE", _NODE),
    _b("numvfs-ebusy", PROVEN, "from one number to another, not 0, is EBUSY", _NODE),
    _b("numvfs-same", PROVEN, "the number there is, is accepted and changes nothing", _NODE),
    _b("numvfs-einval", PROVEN, "what is no 16 bit number is EINVAL", _NODE),
    _b("numvfs-enoent", PROVEN, "without a PF driver that does SR-IOV it is ENOENT", _NODE),
    _b("totalvfs-driver", PROVEN, "igb allows 7 of the 8 VFs the card has",
       "tests/data/lab/lspci-xxxx-PF.txt at 0x16e, sysfs-PF-device-with-VFs.txt"),
    _b("totalvfs-no-driver", PROVEN, "without a driver sriov_totalvfs is what the card has", _NODE),
    _b("numvfs-zero", PROVEN, "0 takes all VFs away, with their netdevs and groups", _NODE),
    _b("numvfs-config", PROVEN, "NumVFs and VF Enable of the capability follow", _NODE),
    _b("vf-address", PROVEN, "a VF is at PF + offset + stride × index", _NODE),
    _b("vf-links", PROVEN, "virtfnN and physfn point at each other", _NODE),
    _b("vf-ids", PROVEN, "a VF has the PF's vendor, class and subsystem, and the VF device id",
       _NODE),
    _b("vf-numa", PROVEN, "a VF is on its PF's NUMA node", _NODE),
    _b("vf-group", PROVEN, "behind a port with ACS each VF has its own IOMMU group", _NODE),
    _b("vf-group-shared", PROVEN, "behind a port without ACS they share the port's group",
       "tests/data/lab/iommu-groups.txt"),
    _b("group-slot", PROVEN, "functions of one slot without ACS share a group", _NODE),
    _b("vf-name", PROVEN, "without udev a VF's netdev is the lowest free ethN",
       "tests/data/lab/vfio-bind.txt, udev-4-vfs.txt"),
    _b("vf-name-udev", PROVEN, "with udev it is the PF's name and vN", _NODE),
    _b("altnames", PROVEN, "so are its altnames; enxMAC only where the MAC is not random", _NODE),
    _b("vf-random-mac", PROVEN, "a VF nobody gave a MAC takes a random one; igb shows it at the PF",
       _NODE),
    _b("vf-mac-udev", PROVEN, "udev replaces it by one that lasts; the first shows as permaddr",
       _NODE),
    _b("module-autoload", PROVEN, "udev loads the VFs' driver when the first of them comes", _NODE),
    _b("udev-settle", PROVEN, "after `udevadm settle` what came has its name", _NODE),
    _b("autoprobe-off", PROVEN, "sriov_drivers_autoprobe=0 leaves new VFs without a driver", _NODE),
    _b("autoprobe-bind", PROVEN, "and bind is ENODEV on them unless driver_override is set", _NODE),
    _b("unbind", PROVEN, "unbind takes the netdev away", _NODE),
    _b("bind", PROVEN, "bind brings it back", _NODE),
    _b("bind-refused", PROVEN, "bind is ENODEV on no match, EBUSY when bound; unbind is ENODEV",
       _NODE),
    _b("override", PROVEN, "driver_override and drivers_probe give a VF to vfio-pci and back",
       _NODE),
    _b("override-null", PROVEN, "driver_override reads (null) when unset", _NODE),
    _b("modprobe", PROVEN, "modprobe loads with what is needed, and the driver takes what waits",
       "tests/data/lab/modprobe-vfio-pci.txt"),
    _b("vfio-node", PROVEN, "vfio-pci makes /dev/vfio/GROUP and vfio-dev/vfioN", _NODE),
    _b("pf-unbind", PROVEN, "a PF that loses its driver loses its VFs", _NODE),
    _b("read-only", PROVEN, "a read-only attribute refuses even root with EACCES", _NODE),
    _b("mtu-range", PROVEN, "an MTU outside min_mtu and max_mtu is EINVAL", _NODE),
    _b("igb-accepts", PROVEN, "igb takes mac, vlan (4095 too), qos, spoofchk, trust, max_tx_rate",
       _NODE),
    _b("igb-refuses", PROVEN, "igb refuses vlan proto 802.1ad, state, min_tx_rate, an unknown VF",
       _NODE),
    _b("igb-rate", PROVEN, "igb refuses a rate above the link's, and any without a link", _NODE),
    _b("mailbox", PROVEN, "an igb PF that is down neither tells its VFs a MAC nor learns theirs",
       _NODE),
    _b("admin-mac", PROVEN, "an admin-set MAC shows on the VF after unbind and bind", _NODE),
    _b("untrusted-mac", PROVEN, "an untrusted VF cannot leave its admin-set MAC: EADDRNOTAVAIL",
       _NODE),
    _b("ip-json", PROVEN, "ip -d -j link has these keys in this order",
       "tests/data/lab/ip-d-j-link-udev.json"),
    _b("ip-empty-vfs", PROVEN, "a PF without VFs has an empty vfinfo_list", _NODE),
    _b("ip-qdisc", PROVEN, "qdisc is noop until a netdev is first up, and stays when it goes down",
       _NODE),
    _b("link-local", PROVEN, "a link that carries has a link-local address, and routes with it",
       _NODE),
    _b("ip-errors", PROVEN, "ip exits 1 for no device, 2 when the kernel refuses, 255 for syntax",
       _NODE),
    _b("ip-rename", UNPROVEN, "before 6.2 a netdev that is up cannot be renamed: EBUSY",
       "net/core/dev.c:dev_change_name"),
    _b("ip-rename-live", PROVEN, "since 6.2 it can", _NODE),
    _b("ip-rename-taken", PROVEN, "a name or altname that is taken is EEXIST", _NODE),
    _b("no-devlink", PROVEN, "igb has no devlink handle", _NODE),
    _b("rdma-text", PROVEN, "the lab's rdma -j system prints text", _NODE),
    _b("rdma-autoload", PROVEN, "rdma loads ib_core", _NODE),
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
