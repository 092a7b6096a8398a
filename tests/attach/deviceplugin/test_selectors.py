from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podrail.attach.deviceplugin.candidates import AUXILIARY, NET, Candidate
from podrail.attach.deviceplugin.selectors import faults, matches, matches_shared
from podrail.model.kinds.configs import DeviceSelectors, SharedSelectors

VF = Candidate(
    "0000:9c:00.4", NET, "15b3", "101e", driver="mlx5_core", pf="0000:9c:00.0",
    pf_names=("ens8f0", "enp156s0f0"), index=2, link_type="ib", netdev="ens8f0v2",
    rdma="mlx5_4", pkey=0x8001, acpi_index="7", vdpa="vhost", has_rdma=True,
)  # fmt: skip
PF = replace(VF, id="0000:9c:00.0", index=None, netdev="ens8f0")


def selects(one: Candidate, **keys: Any) -> bool:
    return matches(DeviceSelectors.model_validate(keys), one)


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("vendors", ["8086", "15B3"], ["8086"]),
        ("devices", ["101e"], ["101d"]),
        ("drivers", ["vfio-pci", "mlx5_core"], ["vfio-pci"]),
        ("pciAddresses", ["0000:9C:00.4"], ["0000:9c:00.5"]),
        ("acpiIndexes", ["7"], ["8"]),
        ("pfNames", ["ens8f0"], ["ens8f1"]),
        ("pfNames", ["enp156s0f0#2"], ["ens8f0#0-1,3"]),
        ("pfNames", ["other", "ens8f0#0,2-3"], ["ens8f0#x"]),
        ("rootDevices", ["0000:9c:00.0"], ["0000:9c:00.1"]),
        ("rootDevices", ["0000:9c:00.0#1-2"], ["0000:9c:00.0#3-9"]),
        ("linkTypes", ["infiniband"], ["ether"]),
        ("linkTypes", ["IB"], ["carrier pigeon"]),
        ("pKeys", ["0x8001"], ["0xffff"]),
        ("isRdma", True, None),
        ("vdpaType", "vhost", "virtio"),
        ("ddpProfiles", None, ["GTPv1-C/U IPv4/IPv6 payload"]),
    ],
)
def test_each_selector(key: str, good: Any, bad: Any) -> None:
    if good is not None:
        assert selects(VF, **{key: good})
    if bad is not None:
        assert not selects(VF, **{key: bad})


def test_all_keys_must_hold() -> None:
    assert selects(VF, vendors=["15b3"], devices=["101e"], isRdma=True)
    assert not selects(VF, vendors=["15b3"], devices=["101d"], isRdma=True)
    assert selects(VF)


def test_is_rdma_wants_an_rdma_device_and_false_wants_nothing() -> None:
    plain = replace(VF, has_rdma=False, rdma=None)
    assert not selects(plain, isRdma=True)
    assert selects(plain, isRdma=False)


def test_a_partition_is_infinibands() -> None:
    assert not selects(replace(VF, link_type="eth"), pKeys=["0x8001"])
    assert not selects(replace(VF, pkey=None), pKeys=["nonsense"])


def test_a_range_means_vfs_and_never_the_pf() -> None:
    assert selects(PF, pfNames=["ens8f0"])
    assert not selects(PF, pfNames=["ens8f0#0-5"])


def test_types_of_auxiliary_devices() -> None:
    part = replace(VF, id="mlx5_core.sf.4", kind=AUXILIARY, auxiliary="sf")
    assert selects(part, auxTypes=["sf"])
    assert not selects(part, auxTypes=["eth"])


@given(st.sets(st.integers(0, 30), min_size=1), st.integers(0, 30))
def test_indexes(wanted: set[int], index: int) -> None:
    listed = ",".join(f"{n}-{n}" if n % 2 else str(n) for n in sorted(wanted))
    assert selects(replace(VF, index=index), pfNames=[f"ens8f0#{listed}"]) is (index in wanted)


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30))
def test_ranges(first: int, last: int, index: int) -> None:
    found = selects(replace(VF, index=index), pfNames=[f"ens8f0#{first}-{last}"])
    assert found is (first <= index <= last)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"ddpProfiles": ["x"]}, "does not read DDP profiles"),
        ({"isRdma": True, "vdpaType": "vhost"}, "exclude each other"),
        ({"pfNames": ["a#1-"]}, "'a#1-' is no NAME"),
        ({"rootDevices": ["0000:01:00.0#1;2"]}, "is no NAME"),
        ({"linkTypes": ["token ring"]}, "neither ether nor infiniband"),
    ],
)
def test_what_never_matches_is_said(keys: dict[str, Any], said: str) -> None:
    assert any(said in text for text in faults(DeviceSelectors.model_validate(keys)))
    assert not list(faults(DeviceSelectors.model_validate({"pfNames": ["a#0,2-3"]})))


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("vendors", ["15b3"], ["8086"]),
        ("deviceIDs", ["101e"], ["1021"]),
        ("drivers", ["mlx5_core"], ["mlx4_core"]),
        ("ifNames", ["enp156s0f0"], ["ens8f0v2"]),
        ("linkTypes", ["infiniband"], ["ether"]),
    ],
)
def test_selectors_of_the_shared_plugin(key: str, good: list[str], bad: list[str]) -> None:
    assert matches_shared(SharedSelectors.model_validate({key: good}), PF)
    assert not matches_shared(SharedSelectors.model_validate({key: bad}), PF)
