"""A wish spelled out: which steps, in which order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podrail.model.inventory import Inventory, Node, Pf
from podrail.model.policy import PfName, Policy, VfRange
from podrail.model.vf import Vf, VfTable
from podrail.planning.planner import Planner
from podrail.realise.step import KINDS, Step
from podrail.realise.wanted import MANY, steps, vf_addresses
from tests.realise import support  # noqa: F401 - enters every kind of step in the registry

PF = Pf(
    pci="0000:9c:00.0", name="ens8f0", vendor="15b3", device="101d", totalvfs=64, numvfs=0,
    mtu=1500, max_mtu=9978, admin_up=True, autoprobe=True, vf_offset=2, vf_stride=1,
)  # fmt: skip
RAIL = Policy("rail", "r", 4, vendor="15b3", is_rdma=True)
VFIO = replace(RAIL, name="user", resource="u", device_type="vfio-pci", is_rdma=False)


def part(policy: Policy, first: int, last: int, **more: Any) -> Policy:
    return replace(policy, pf_names=(PfName("ens8f0", VfRange(first, last)),), **more)


def spelled(pf: Pf, *policies: Policy, **options: Any) -> tuple[Step, ...]:
    planner = Planner(policies)
    ((_, wish),) = planner.wishes(Inventory(Node("n"), pfs=(pf,)))
    return steps(pf, wish, **options)


def short(found: tuple[Step, ...]) -> list[str]:
    """`kind value`, VFs as a range."""
    return [f"{s.kind} {KINDS[s.kind].says(s.to)}" for s in found]


def test_netdevices_in_upstreams_order() -> None:
    """The MTU of the PF before that of VFs; its link last."""
    assert short(spelled(PF, replace(RAIL, mtu=9000))) == [
        "vfs 4",
        "autoprobe on",
        "mtu 9000",
        "vf-driver vf 0-3 netdevice",
        "vf-mac vf 0-3 its own",
        "vf-node-guid vf 0-3 set",
        "vf-mtu vf 0-3 9000",
        "link up",
    ]


def test_vfio_is_made_without_a_probe() -> None:
    assert short(spelled(PF, VFIO)) == [
        "autoprobe off",
        "vfs 4",
        "autoprobe on",
        "vf-driver vf 0-3 vfio-pci",
        "link up",
    ]


def test_groups_in_order_of_their_vfs() -> None:
    found = short(spelled(PF, part(VFIO, 4, 7, num_vfs=8), part(RAIL, 0, 3, num_vfs=8)))
    drivers = [line for line in found if line.startswith("vf-driver")]
    assert drivers == ["vf-driver vf 0-3 netdevice", "vf-driver vf 4-7 vfio-pci"]


def test_vfs_of_no_group_have_the_driver_they_would_have_had() -> None:
    found = short(spelled(PF, part(VFIO, 4, 5, num_vfs=8)))
    assert "vf-driver vf 0-3,6-7 netdevice" in found
    assert not any("netdevice" in line for line in short(spelled(PF, part(RAIL, 1, 2)))[:2])


def test_vfs_of_no_group_stay_without_one_where_autoprobe_was_off() -> None:
    off = replace(PF, autoprobe=False)
    found = short(spelled(off, part(VFIO, 4, 5, num_vfs=8)))
    assert [line for line in found if "autoprobe" in line] == ["autoprobe off", "autoprobe off"]
    assert [line for line in found if "vf-driver" in line] == ["vf-driver vf 4-5 vfio-pci"]


@pytest.mark.parametrize(("count", "off"), [(MANY - 1, False), (MANY, True)])
def test_many_vfs_are_made_without_a_probe(count: int, off: bool) -> None:
    assert ("autoprobe off" in short(spelled(PF, replace(RAIL, num_vfs=count)))) is off


def test_infiniband_has_its_guids_before_a_driver_sees_it() -> None:
    has = replace(made(2, guid="02:00:00:00:00:00:00:01"), link_type="ib")
    found = short(spelled(has, RAIL))
    at = {line.split()[0]: number for number, line in enumerate(found)}
    assert found[0] == "autoprobe off"
    assert at["vfs"] < at["vf-guid"] < at["vf-state"] < at["vf-driver"]
    assert "vf-mac" not in at
    assert "vf-node-guid" not in at


def made(count: int, **more: Any) -> Pf:
    table = VfTable(Vf(i, f"0000:9c:00.{i + 2}", **more) for i in range(count))
    return replace(PF, numvfs=count, vfs=table)


def test_what_is_there_is_spelled_without_autoprobe() -> None:
    """So that somebody's own setting of it is no drift."""
    assert "autoprobe" not in " ".join(short(spelled(made(4, driver="mlx5_core"), RAIL)))
    assert "autoprobe" not in " ".join(short(spelled(made(4, driver="vfio-pci"), VFIO)))


@pytest.mark.parametrize("driver", [None, "vfio-pci"])
def test_autoprobe_comes_on_where_a_vf_needs_it(driver: str | None) -> None:
    pf = replace(made(4, driver=driver), autoprobe=False)
    assert "autoprobe on" in short(spelled(pf, RAIL))
    bound = replace(made(4, driver="mlx5_core"), autoprobe=False)
    assert "autoprobe on" not in short(spelled(bound, RAIL))


def test_externally_managed_leaves_the_pf_alone() -> None:
    pf = made(4, driver="mlx5_core")
    kinds = {s.kind for s in spelled(pf, replace(RAIL, external=True, mtu=1500))}
    assert kinds == {"vf-driver", "vf-mac", "vf-node-guid", "vf-mtu"}


def test_network_manager_is_told_of_every_vf_before_it_is_made() -> None:
    first = spelled(PF, RAIL, unmanage=True)[0]
    assert (first.kind, first.target) == (
        "file",
        "/etc/udev/rules.d/70-podrail-nm-0000:9c:00.0.rules",
    )
    assert all(f"0000:9c:00.{i}" in first.to for i in range(2, 6))


@pytest.mark.parametrize("now", [None, "legacy", "switchdev"])
def test_eswitch_only_where_there_is_one_or_one_is_wanted(now: str | None) -> None:
    pf = replace(PF, eswitch=now)
    legacy = [s.kind for s in spelled(pf, RAIL) if s.kind in ("eswitch", "name", "file")]
    wanted = replace(RAIL, eswitch="switchdev")
    switched = [s.kind for s in spelled(pf, wanted) if s.kind in ("eswitch", "name", "file")]
    assert legacy == {None: [], "legacy": ["eswitch"], "switchdev": ["eswitch", "name"]}[now]
    assert switched[:2] == ["file", "eswitch"]
    assert ("name" in switched) is (now != "switchdev")


@given(
    count=st.integers(1, 40),
    vfio=st.booleans(),
    link=st.sampled_from(["eth", "ib"]),
    autoprobe=st.sampled_from([True, False, None]),
    mtu=st.sampled_from([None, 9000]),
)
def test_every_step_is_of_a_known_kind_and_names_whose_wish_it_is(
    count: int, vfio: bool, link: str, autoprobe: bool | None, mtu: int | None
) -> None:
    pf = replace(PF, link_type=link, autoprobe=autoprobe)
    found = spelled(pf, replace(VFIO if vfio else RAIL, num_vfs=count, mtu=mtu))
    assert {s.kind for s in found} <= KINDS.keys()
    assert all(s.set_by for s in found)
    probes = [s.to for s in found if s.kind == "autoprobe"]
    assert probes[-1] is not False or (vfio and autoprobe is False)


@given(st.integers(1, 64))
def test_addresses_follow_offset_and_stride(count: int) -> None:
    found = vf_addresses(replace(PF, vf_offset=128, vf_stride=2), count)
    assert len(set(found)) == count
    assert found[:3] == ["0000:9c:10.0", "0000:9c:10.2", "0000:9c:10.4"][:count]


def test_addresses_of_an_unknown_stride_are_those_there_are() -> None:
    pf = replace(made(2), vf_offset=None)
    assert vf_addresses(pf, 4) == ["0000:9c:00.2", "0000:9c:00.3"]
