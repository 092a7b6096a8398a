"""apply, status and reset on a real kernel: what was asked for, no more, and all given back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from benchmarks import lab_overhead

from tests.lab.inside.caller import Inside
from tests.lab.inside.policies import policy

pytestmark = pytest.mark.usefixtures("as_found")

PF, NAME, ALTNAME = "0000:81:00.0", "ens2", "enp129s0"
OTHER, OTHER_NAME = "0000:43:00.0", "enp67s0"
RECORD = f"/etc/sriov-operator/pci/{PF}"
MAC = "02:00:5e:00:53:01"

Vf = dict[str, Any]


def vfs_of(inside: Inside, pf: str = PF) -> list[Vf]:
    found: list[Vf] = inside.call("machine.vfs", pf)
    return found


def column(vfs: list[Vf], key: str) -> list[Any]:
    return [vf[key] for vf in vfs]


def line(outcome: Any, beginning: str) -> int:
    """The place of a change among those that were made."""
    (at,) = (i for i, said in enumerate(outcome["changed"]) if said.startswith(beginning))
    return int(at)


def given_back(inside: Inside) -> None:
    for outcome in inside.reset().good().json["outcomes"]:
        assert outcome["state"] == "done", outcome


def test_vfs_are_made_once_and_given_back(inside: Inside) -> None:
    rails = policy("rails", 4, NAME, mtu=9000)
    before = inside.call("machine.snapshot")
    (outcome,) = inside.apply(rails).good().json["outcomes"]
    assert line(outcome, "mtu: ") < line(outcome, "MTU of vf 0-3: "), "the PF's first"
    vfs = vfs_of(inside)
    assert column(vfs, "driver") == ["igbvf"] * 4
    assert column(vfs, "netdev") == [f"{NAME}v{i}" for i in range(4)]
    assert column(vfs, "mtu") == [9000] * 4
    assert column(vfs, "mac") == column(vfs, "admin_mac")
    assert len({*column(vfs, "mac")}) == 4
    mine = inside.call("machine.pf", PF)
    assert (mine["mtu"], mine["up"], mine["autoprobe"]) == (9000, True, "1")
    after = inside.call("machine.snapshot")
    assert after["functions"][OTHER] == before["functions"][OTHER], "nobody asked for that one"
    assert after["links"][OTHER_NAME] == before["links"][OTHER_NAME]
    assert inside.apply(rails).good().json["outcomes"] == [], "nothing is left to do"
    assert vfs_of(inside) == vfs, "the same netdevs, with the same index"
    (standing,) = inside.status().good().json["pfs"]
    assert (standing["state"], standing["numvfs"], standing["drift"]) == ("as wanted", 4, [])
    given_back(inside)
    assert inside.reset().good().json["outcomes"] == [], "there is nothing more to give back"


def test_vfio(inside: Inside) -> None:
    storage = policy("storage", 2, NAME, deviceType="vfio-pci")
    inside.apply(storage).good()
    vfs = vfs_of(inside)
    assert column(vfs, "driver") == column(vfs, "override") == ["vfio-pci"] * 2
    assert inside.call("machine.pf", PF)["autoprobe"] == "1", "off only while they were made"
    assert inside.apply(storage).good().json["outcomes"] == []
    inside.status().good()
    given_back(inside)


def shared(rails: str, storage: str) -> list[str]:
    """One PF's VFs for two drivers."""
    return [
        policy("rails", 4, f"{NAME}#{rails}"),
        policy("storage", 4, f"{NAME}#{storage}", deviceType="vfio-pci"),
    ]


def test_ranges_of_one_pf_for_two_drivers(inside: Inside) -> None:
    inside.apply(*shared("0-1", "2-3")).good()
    assert column(vfs_of(inside), "driver") == ["igbvf", "igbvf", "vfio-pci", "vfio-pci"]
    inside.apply(*shared("2-3", "0-1")).good()
    vfs = vfs_of(inside)
    assert column(vfs, "driver") == ["vfio-pci", "vfio-pci", "igbvf", "igbvf"]
    assert column(vfs, "override") == ["vfio-pci", "vfio-pci", "(null)", "(null)"]
    inside.status().good()
    given_back(inside)


def test_resize_up_and_down(inside: Inside) -> None:
    for count in (4, 7, 2):
        inside.apply(policy("rails", count, NAME)).good()
        vfs = vfs_of(inside)
        assert column(vfs, "netdev") == [f"{NAME}v{i}" for i in range(count)]
        assert column(vfs, "mac") == column(vfs, "admin_mac")
    inside.status().good()
    given_back(inside)


def test_a_policy_that_goes_takes_its_vfs_along(inside: Inside) -> None:
    inside.apply(policy("rail0", 1, NAME), policy("rail1", 1, OTHER_NAME)).good()
    inside.apply(policy("rail1", 1, OTHER_NAME)).good()
    assert (vfs_of(inside), len(vfs_of(inside, OTHER))) == ([], 1)
    given_back(inside)


@pytest.fixture
def by_hand(inside: Inside) -> Iterator[list[Vf]]:
    """Four VFs somebody else made: one on vfio-pci, one with its own MTU, MAC and name."""
    inside.call("hands.make", PF, 4)
    yield vfs_of(inside)
    inside.call("hands.remove", PF)


def own(vfs: list[Vf]) -> list[Vf]:
    """VFs without what the kernel counts up."""
    return [{key: value for key, value in vf.items() if key != "ifindex"} for vf in vfs]


def adopting(count: int) -> list[str]:
    last = f"{NAME}#3-{count - 1}"
    return [
        policy("rails", count, f"{NAME}#0-1", last),
        policy("storage", count, f"{NAME}#2-2", deviceType="vfio-pci"),
    ]


def test_a_node_that_was_made_by_another_is_taken_over_and_handed_back(
    inside: Inside, by_hand: list[Vf]
) -> None:
    assert (by_hand[1]["netdev"], by_hand[1]["mtu"], by_hand[1]["mac"]) == ("custom0", 1400, MAC)
    assert by_hand[2]["driver"] == "vfio-pci"
    inside.apply(*adopting(4)).good()
    assert column(vfs_of(inside), "ifindex") == column(by_hand, "ifindex"), "none was made anew"
    given_back(inside)
    assert vfs_of(inside) == by_hand, "handed back without having been made anew"


def test_a_resize_and_reset_gives_anothers_vfs_back_as_found(
    inside: Inside, by_hand: list[Vf]
) -> None:
    inside.apply(*adopting(6)).good()
    assert len(vfs_of(inside)) == 6
    given_back(inside)
    assert own(vfs_of(inside)) == own(by_hand)


def test_externally_managed_vfs_are_used_and_their_number_is_not_ours(
    inside: Inside, by_hand: list[Vf]
) -> None:
    more = policy("rails", 5, NAME, externallyManaged=True)
    (refused,) = (said := inside.apply(more)).json["refused"]
    assert (said.rc, "only 4 of 5 VFs exist" in refused["reason"]) == (5, True)
    assert vfs_of(inside) == by_hand
    inside.apply(policy("rails", 4, NAME, externallyManaged=True)).good()
    vfs = vfs_of(inside)
    assert column(vfs, "driver") == ["igbvf"] * 4
    assert column(vfs, "ifindex")[0] == by_hand[0]["ifindex"], "the PF was left alone"
    inside.status().good()
    given_back(inside)
    assert own(vfs_of(inside)) == own(by_hand)


def test_a_pf_that_is_stuck_in_the_kernel_holds_no_other(inside: Inside) -> None:
    """No stopwatch: the kernel makes VFs of one PF at a time (drivers/pci/iov.c:sriov_numvfs_store
    holds pci_rescan_remove_lock). One after the other, this would never end."""
    assert inside.call("stuck.beside", PF, OTHER) == {PF: ["done", ""], OTHER: ["done", ""]}


def test_a_pf_that_is_late_is_said_and_finished_later(inside: Inside) -> None:
    late = inside.call("stuck.late", PF, OTHER)
    assert late["state"] == "open"
    assert "the kernel has not answered for 1 s" in late["reason"]
    assert "the next podrail goes on" in late["fix"]
    (subject, state, why), *others = late["meanwhile"]
    assert (subject, state, f"another worker on {PF} (pid " in why) == (PF, "open", True)
    assert others == [[OTHER, "done", ""]] * 2, "nobody else waits for it"
    assert late["driver"] == "igbvf"


def test_the_engine_costs_little_above_the_kernel(inside: Inside) -> None:
    """Once more where the machine was busy with something else."""
    measured = lab_overhead.measure_on(inside.host, rounds=3)
    if measured.ratio > lab_overhead.LIMIT:
        measured = lab_overhead.measure_on(inside.host)
    print(f"\noverhead: {measured.ratio:.3f}, typically {measured.typical:.3f} ({measured})")
    assert measured.ratio <= lab_overhead.LIMIT, measured
