"""The distance matrix, and which PF each GPU is given."""

from __future__ import annotations

import pytest

from podrail.inventory.distance import distance, pair
from podrail.model.inventory import Gpu, PciDevice, Pf


def tree(*paths: str, numa: dict[str, int] | None = None) -> dict[str, PciDevice]:
    """Devices from paths such as `0000:00:01.0/0000:01:00.0`."""
    found = {}
    for path in paths:
        parts = path.split("/")
        for above, address in zip([None, *parts], parts, strict=False):
            node = (numa or {}).get(address)
            found[address] = PciDevice(address, "15b3", "1021", "020700", parent=above, numa=node)
    return found


GPU, NIC = "0000:0a:00.0", "0000:0b:00.0"
SWITCH = "0000:00:01.0/0000:01:00.0"


@pytest.mark.parametrize(
    ("gpu", "nic", "expected"),
    [
        pytest.param(f"0000:00:01.0/{GPU}", f"0000:00:01.0/{NIC}", "PIX", id="same-bus"),
        pytest.param(
            f"{SWITCH}/0000:02:00.0/{GPU}", f"{SWITCH}/0000:02:01.0/{NIC}", "PIX", id="one-switch"
        ),
        pytest.param(
            f"{SWITCH}/0000:02:00.0/0000:03:00.0/0000:04:00.0/{GPU}",
            f"{SWITCH}/0000:02:01.0/{NIC}",
            "PXB",
            id="two-switches",
        ),
        pytest.param(
            f"{SWITCH}/0000:02:00.0/{GPU}", f"0000:00:01.0/{NIC}", "PXB", id="behind-a-switch"
        ),
        pytest.param(f"0000:00:01.0/{GPU}", f"0000:00:02.0/{NIC}", "PHB", id="two-root-ports"),
    ],
)
def test_below_one_host_bridge(gpu: str, nic: str, expected: str) -> None:
    devices = tree(gpu, nic)
    assert distance(devices, GPU, NIC) == expected
    assert distance(devices, NIC, GPU) == expected


@pytest.mark.parametrize(
    ("numa", "nodes", "expected"),
    [
        pytest.param({GPU: 0, NIC: 0}, 2, "NODE", id="same-node"),
        pytest.param({GPU: 0, NIC: 1}, 2, "SYS", id="across-nodes"),
        pytest.param({}, 1, "NODE", id="one-node-unnumbered"),
        pytest.param({GPU: 0}, 2, "SYS", id="node-not-known"),
    ],
)
def test_between_host_bridges(numa: dict[str, int], nodes: int, expected: str) -> None:
    devices = tree(f"0000:00:01.0/{GPU}", f"0000:80:01.0/{NIC}", numa=numa)
    assert distance(devices, GPU, NIC, numa_nodes=nodes) == expected


def gpu_at(address: str) -> Gpu:
    return Gpu(address, "10de", "2330")


def pf_at(address: str, *, rdma: str | None = "mlx5_0", totalvfs: int = 8) -> Pf:
    return Pf(address, address, "15b3", "1021", rdma=rdma, totalvfs=totalvfs)


def given(gpus: list[str], pfs: list[Pf], devices: dict[str, PciDevice]) -> dict[str, str]:
    pairs = pair(devices.values(), [gpu_at(g) for g in gpus], pfs, 1)
    return {p.gpu: p.pf for p in pairs if p.nearest}


def test_each_gpu_gets_its_own_switch() -> None:
    devices = tree(
        "0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0",
        "0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0",
        "0000:40:01.0/0000:41:00.0/0000:42:00.0/0000:43:00.0",
        "0000:40:01.0/0000:41:00.0/0000:42:01.0/0000:44:00.0",
    )
    pfs = [pf_at("0000:04:00.0"), pf_at("0000:44:00.0")]
    assert given(["0000:43:00.0", "0000:03:00.0"], pfs, devices) == {
        "0000:03:00.0": "0000:04:00.0",
        "0000:43:00.0": "0000:44:00.0",
    }


def equal_machine() -> dict[str, PciDevice]:
    slots = ("0000:00:01.0/0000:01:00.0", "0000:00:02.0/0000:02:00.0")
    return tree(*slots, "0000:00:03.0/0000:03:00.0", "0000:00:04.0/0000:04:00.0")


def test_equally_near_pfs_share_the_gpus() -> None:
    pfs = [pf_at("0000:03:00.0"), pf_at("0000:04:00.0")]
    found = given(["0000:01:00.0", "0000:02:00.0"], pfs, equal_machine())
    assert sorted(found.values()) == ["0000:03:00.0", "0000:04:00.0"]


def test_a_nearer_pf_without_rdma_is_no_rail() -> None:
    devices = tree("0000:00:01.0/0000:01:00.0", "0000:00:01.0/0000:03:00.0", "0000:80:01.0")
    pfs = [pf_at("0000:03:00.0", rdma=None), pf_at("0000:80:01.0")]
    assert given(["0000:01:00.0"], pfs, devices) == {"0000:01:00.0": "0000:80:01.0"}


def test_where_no_pf_has_rdma_those_with_sriov_stand_in() -> None:
    pfs = [pf_at("0000:03:00.0", rdma=None), pf_at("0000:04:00.0", rdma=None, totalvfs=0)]
    assert given(["0000:01:00.0"], pfs, equal_machine()) == {"0000:01:00.0": "0000:03:00.0"}


def test_a_nic_that_is_no_rail_is_not_paired() -> None:
    plain = pf_at("0000:03:00.0", rdma=None, totalvfs=0)
    assert pair(equal_machine().values(), [gpu_at("0000:01:00.0")], [plain], 1) == ()
