"""Who holds a VF, by each of the ways there are."""

from __future__ import annotations

import json

from podrail.host.memory import MemoryHost
from podrail.inventory import discover
from tests.inventory.machines import IP_LINK, bare, links, pf, says, vf

VF = "0000:01:10.0"
CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"


def machine(driver: str | None = "igbvf") -> tuple[MemoryHost, str]:
    """One PF with one VF whose netdev is here."""
    host = bare()
    at = pf(host, "pci0000:00/0000:01:00.0", "eth1")
    vf_at = vf(host, at, 0, VF, driver)
    says(host, IP_LINK, links({"ifname": "eth1"}, {"ifname": "eth1v0"}))
    if driver == "igbvf":
        host.put_dir(f"{vf_at}/net/eth1v0")
    return host, vf_at


def holder(host: MemoryHost) -> str | None:
    return discover(host).pfs[0].vfs[0].holder


def checkpoint(ids: object) -> str:
    entry = {"PodUID": "8d2f-1", "ContainerName": "train", "DeviceIDs": ids}
    return json.dumps({"Data": {"PodDeviceEntries": [entry]}, "Checksum": 1})


def test_a_vf_at_rest_has_no_holder() -> None:
    host, _ = machine()
    assert holder(host) is None


def test_the_kubelet_gave_it_to_a_container() -> None:
    host, _ = machine()
    host.put(CHECKPOINT, checkpoint({"-1": [VF]}))
    assert holder(host) == "pod 8d2f-1 (container train)"


def test_the_checkpoint_of_an_old_kubelet() -> None:
    host, _ = machine()
    host.put(CHECKPOINT, checkpoint([VF]))
    assert holder(host) == "pod 8d2f-1 (container train)"


def test_a_checkpoint_of_another_vf() -> None:
    host, _ = machine()
    host.put(CHECKPOINT, checkpoint({"0": ["0000:01:10.2", "mlx5_0"]}))
    assert holder(host) is None


def test_its_net_device_moved_away() -> None:
    host, at = machine()
    host.remove(f"{at}/net/eth1v0")
    assert holder(host) == "netns (net device moved away)"


def test_a_driver_that_never_made_a_net_device_holds_nothing() -> None:
    host, at = machine()
    host.remove(f"{at}/net")
    assert holder(host) is None


def test_its_rdma_device_moved_away() -> None:
    host, at = machine()
    host.put_dir(f"{at}/infiniband")
    assert holder(host) == "netns (net device moved away)"


def test_sriov_cni_wrote_a_living_namespace() -> None:
    host, _ = machine()
    host.put(f"/var/lib/cni/sriov/pci/{VF}", "/var/run/netns/cni-1\n")
    assert holder(host) is None
    host.put("/var/run/netns/cni-1", "")
    assert holder(host) == "netns /var/run/netns/cni-1"


def test_vfio_group_is_open() -> None:
    host, _ = machine("vfio-pci")
    assert holder(host) is None
    host.put_link("/proc/123/fd/7", "/dev/vfio/10")
    assert holder(host) == "vfio group 10 open by pid 123"


def test_the_vfio_container_alone_holds_nothing() -> None:
    host, _ = machine("vfio-pci")
    host.put_link("/proc/123/fd/7", "/dev/vfio/vfio")
    host.put_link("/proc/123/fd/8", "/dev/vfio/99")
    assert holder(host) is None


def test_vfio_device_is_open_through_iommufd() -> None:
    host, at = machine("vfio-pci")
    host.put_dir(f"{at}/vfio-dev/vfio0")
    host.put_link("/proc/123/fd/7", "/dev/vfio/devices/vfio0")
    assert holder(host) == "vfio device vfio0 open by pid 123"


def verbs(host: MemoryHost, **counts: int) -> None:
    host.put_link("/sys/class/infiniband/mlx5_4/device", f"../../../{VF}")
    says(host, ("rdma", "-j", "resource"), [{"ifname": "mlx5_4", "qp": 1, **counts}])


def test_a_process_has_verbs_open() -> None:
    host, _ = machine()
    verbs(host, ctx=2, cm_id=1)
    assert holder(host) == "rdma: 2 users on mlx5_4"


def test_the_kernel_has_a_connection() -> None:
    host, _ = machine()
    verbs(host, ctx=0, cm_id=1)
    assert holder(host) == "rdma: 1 kernel connection on mlx5_4"


def test_the_gsi_queue_pair_holds_nothing() -> None:
    host, _ = machine()
    verbs(host, ctx=0, cm_id=0)
    assert holder(host) is None


def soft(host: MemoryHost, **port: str) -> None:
    """Soft-RoCE, which has no PCI function of its own, with one connection of the kernel."""
    host.put("/sys/class/infiniband/rxe0/parent", "eth1v0\n")
    host.put("/sys/class/infiniband/rxe0/ports/1/link_layer", "Ethernet\n")
    says(host, IP_LINK, links({"ifname": "eth1"}, {"ifname": "eth1v0", "parentdev": VF}))
    says(host, ("rdma", "-j", "-d", "link"), [{"ifname": "rxe0", "port": 1, **port}])
    says(host, ("rdma", "-j", "resource"), [{"ifname": "rxe0", "cm_id": 1}])


def test_soft_roce_on_its_net_device_has_a_connection() -> None:
    host, _ = machine()
    soft(host, netdev="eth1v0")
    assert discover(host).pfs[0].vfs[0].rdma == "rxe0"
    assert holder(host) == "rdma: 1 kernel connection on rxe0"


def test_a_net_device_of_that_name_in_another_namespace_is_not_this_one() -> None:
    host, _ = machine()
    soft(host)
    assert discover(host).pfs[0].vfs[0].rdma is None
    assert holder(host) is None
