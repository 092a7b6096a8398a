from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from podrail.attach.ipam.addresses import Addresses, AddressRequest, Lease, Owner
from podrail.attach.ipam.leases import LocalAddresses, PoolFull
from podrail.attach.result import CniError, Code
from tests.attach.ipam.made import ask, owner, pool


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "leases.db")


@pytest.fixture
def addresses(path: str) -> Iterator[LocalAddresses]:
    with LocalAddresses(path) as found:
        yield found


def test_it_is_what_the_cluster_pool_will_be(addresses: LocalAddresses) -> None:
    same: Addresses = addresses
    assert same.leases() == []


def test_a_lease_says_all(addresses: LocalAddresses) -> None:
    lease = addresses.allocate(ask(1, pool(gateway="10.0.0.1")))
    assert lease == Lease(owner(1), "10.0.0.2/24", "10.0.0.1", "10.0.0.0/24")
    assert addresses.leases() == [lease] == addresses.held(owner(1))


def test_the_same_owner_gets_its_address_again(addresses: LocalAddresses) -> None:
    first = addresses.allocate(ask(1))
    addresses.allocate(ask(2))
    assert addresses.allocate(ask(1)) == first
    assert len(addresses.leases()) == 2


def test_another_interface_is_another_owner(addresses: LocalAddresses) -> None:
    first = addresses.allocate(ask(1))
    second = addresses.allocate(replace(ask(1), owner=owner(1, "net2")))
    assert first.address != second.address
    assert addresses.release(owner(1)) == [first]
    assert addresses.leases() == [second]


def test_a_new_sandbox_of_the_pod_takes_the_address_over(addresses: LocalAddresses) -> None:
    first = addresses.allocate(ask(1))
    anew = replace(owner(1), container_id="anew")
    second = addresses.allocate(AddressRequest(anew, (pool(),)))
    assert second == replace(first, owner=anew)
    assert addresses.release(owner(1)) == [], "the late DEL of the old sandbox frees nothing"
    assert addresses.release(anew) == [second]


def test_the_next_pod_of_the_same_name_is_another(addresses: LocalAddresses) -> None:
    first = addresses.allocate(ask(1))
    successor = replace(owner(1), container_id="next", pod_uid="uid-next")
    assert addresses.allocate(AddressRequest(successor, (pool(),))).address != first.address


def test_without_a_uid_the_name_counts_as_in_whereabouts(addresses: LocalAddresses) -> None:
    first = addresses.allocate(AddressRequest(Owner("c1", "net1", pod="ns/a"), (pool(),)))
    again = addresses.allocate(AddressRequest(Owner("c2", "net1", pod="ns/a"), (pool(),)))
    assert first.address == again.address


def test_release_is_idempotent(addresses: LocalAddresses) -> None:
    lease = addresses.allocate(ask(1))
    assert addresses.release(owner(1)) == [lease]
    assert addresses.release(owner(1)) == []
    assert addresses.release(owner("never-seen")) == []


def test_a_released_address_rests_until_the_range_has_gone_round(
    addresses: LocalAddresses,
) -> None:
    small = pool("10.0.0.0/30")
    first = addresses.allocate(ask(1, small)).address
    addresses.release(owner(1))
    assert addresses.allocate(ask(2, small)).address != first
    assert addresses.allocate(ask(3, small)).address == first


def test_it_rests_across_a_restart_too(path: str) -> None:
    with LocalAddresses(path) as before:
        first = before.allocate(ask(1)).address
        before.release(owner(1))
    with LocalAddresses(path) as after:
        assert after.allocate(ask(2)).address != first


def test_dual_stack_is_all_or_nothing(addresses: LocalAddresses) -> None:
    v4, v6 = pool("10.0.0.0/30"), pool("fd00::4/128")
    both = addresses.allocate_all([ask(1, v4), ask(1, v6)])
    assert [lease.address for lease in both] == ["10.0.0.1/30", "fd00::4/128"]
    with pytest.raises(PoolFull):
        addresses.allocate_all([ask(2, v4), ask(2, v6)])
    assert addresses.held(owner(2)) == []
    assert addresses.allocate(ask(3, v4)).address == "10.0.0.2/30", "it was really given back"


def test_the_second_range_of_a_set_serves_when_the_first_is_full(
    addresses: LocalAddresses,
) -> None:
    small, other = pool("10.0.0.0/32"), pool("10.0.1.0/24")
    given_ = [addresses.allocate(ask(n, small, other)).address for n in (1, 2)]
    assert given_ == ["10.0.0.0/32", "10.0.1.1/24"]
    assert addresses.allocate(ask(2, small, other)).address == "10.0.1.1/24"


# --- a full pool ------------------------------------------------------------------------------


def test_a_full_pool_says_its_name_its_size_and_who_has_it(addresses: LocalAddresses) -> None:
    small = pool("10.0.0.0/30", "rail0")
    for number in (1, 2):
        addresses.allocate(ask(number, small))
    with pytest.raises(PoolFull) as full:
        addresses.allocate(ask(3, small))
    assert full.value.code == Code.TRY_AGAIN_LATER
    for part in ("rail0", "all 2 addresses", "10.0.0.1–10.0.0.2", "train/pod-1 net1 (10.0.0.1/30)"):
        assert part in full.value.msg
    assert addresses.allocate(ask(2, small)).address == "10.0.0.2/30", "who has one is not refused"


def test_a_full_pool_says_who_could_be_reclaimed(path: str) -> None:
    small = pool("10.0.0.0/30", "rail0")
    with LocalAddresses(path, alive=lambda who: who.pod_uid != "uid-2") as addresses:
        for number in (1, 2):
            addresses.allocate(ask(number, small))
        with pytest.raises(PoolFull, match=r"1 can be reclaimed.*train/pod-2") as full:
            addresses.allocate(ask(3, small))
    assert "pod-1" not in full.value.msg


def test_a_full_pool_names_few_of_many(addresses: LocalAddresses) -> None:
    for number in range(14):
        addresses.allocate(ask(number, pool("10.0.0.0/28")))
    with pytest.raises(PoolFull, match="9 more"):
        addresses.allocate(ask(99, pool("10.0.0.0/28")))


# --- static requests --------------------------------------------------------------------------


def test_a_named_address_is_given_inside_and_outside_of_the_range(
    addresses: LocalAddresses,
) -> None:
    block = pool("10.0.0.0/24", first="10.0.0.10", last="10.0.0.20")
    given_ = [
        addresses.allocate(ask(n, block, static=(text,))).address
        for n, text in enumerate(("10.0.0.10", "10.0.0.200/24"))
    ]
    assert given_ == ["10.0.0.10/24", "10.0.0.200/24"]
    assert addresses.allocate(ask(7, block)).address == "10.0.0.11/24"


def test_naming_an_address_does_not_move_the_turn(addresses: LocalAddresses) -> None:
    addresses.allocate(ask(1, static=("10.0.0.50",)))
    assert addresses.allocate(ask(2)).address == "10.0.0.1/24"


def test_a_named_address_does_not_stand_in_for_the_next_one(addresses: LocalAddresses) -> None:
    named, next_ = ask(1, static=("10.0.0.1",)), ask(1)
    both = [lease.address for lease in addresses.allocate_all([named, next_])]
    assert both == ["10.0.0.1/24", "10.0.0.2/24"]
    assert [lease.address for lease in addresses.allocate_all([next_, named])] == both[::-1]
    assert len(addresses.release(owner(1))) == 2


def test_an_excluded_address_may_be_named_and_is_excluded_again_after(
    addresses: LocalAddresses,
) -> None:
    tight = pool("10.0.0.0/30", exclusions=[("10.0.0.1", "10.0.0.1")])
    addresses.allocate(ask(1, tight, static=("10.0.0.1",)))
    addresses.release(owner(1))
    assert addresses.allocate(ask(2, tight)).address == "10.0.0.2/30"
    with pytest.raises(PoolFull):
        addresses.allocate(ask(3, tight))


def test_a_named_address_that_somebody_has(addresses: LocalAddresses) -> None:
    addresses.allocate(ask(1, static=("10.0.0.9",)))
    with pytest.raises(CniError, match=r"10\.0\.0\.9 was asked for, but train/pod-1 net1 has it"):
        addresses.allocate(ask(2, static=("10.0.0.9",)))
    assert addresses.allocate(ask(1, static=("10.0.0.9",))).address == "10.0.0.9/24"
    assert len(addresses.leases()) == 1


@pytest.mark.parametrize(
    "text",
    ["192.168.0.1", "fd00::1", "10.0.0.0", "10.0.0.255", "10.0.0.256", "", "10.0.0.1; DROP"],
)
def test_a_named_address_that_cannot_be(addresses: LocalAddresses, text: str) -> None:
    with pytest.raises(CniError, match="asked for") as no:
        addresses.allocate(ask(1, static=(text,)))
    assert no.value.code == Code.INVALID_CONFIG
    assert addresses.leases() == []


# --- pools that share addresses ---------------------------------------------------------------


def test_overlapping_ranges_of_one_scope_share_no_address(addresses: LocalAddresses) -> None:
    wide, narrow = pool("10.0.0.0/29", scope="s"), pool("10.0.0.0/30", scope="s")
    given_ = [addresses.allocate(ask(n, wide)).address.partition("/")[0] for n in range(1, 3)]
    with pytest.raises(PoolFull):
        addresses.allocate(ask(3, narrow))
    addresses.release(owner(1))
    assert addresses.allocate(ask(4, narrow)).address == f"{given_[0]}/30"
    rest = [addresses.allocate(ask(n, wide)).address for n in range(5, 9)]
    assert rest == [f"10.0.0.{n}/29" for n in range(3, 7)]


def test_ranges_of_different_scopes_do_not_know_each_other(addresses: LocalAddresses) -> None:
    same = [addresses.allocate(ask(n, pool("10.0.0.0/30", f"net{n}"))).address for n in (1, 2)]
    assert same == ["10.0.0.1/30"] * 2


def test_one_pool_in_two_scopes_gives_no_address_twice(addresses: LocalAddresses) -> None:
    """One network says enable_overlapping_ranges, another of the same range does not."""
    here, there = pool("10.0.0.0/30", "p", scope="all"), pool("10.0.0.0/30", "p")
    assert addresses.allocate(ask(1, here)).address == "10.0.0.1/30"
    assert addresses.allocate(ask(2, there)).address == "10.0.0.2/30"
    with pytest.raises(CniError, match="train/pod-1"):
        addresses.allocate(ask(3, there, static=("10.0.0.1",)))


def test_a_pool_that_was_edited(addresses: LocalAddresses) -> None:
    addresses.allocate(ask(1, pool("10.0.0.0/24", "p")))
    moved = addresses.allocate(ask(1, pool("10.9.0.0/24", "p")))
    assert moved.address == "10.9.0.1/24"
    wider = addresses.allocate(ask(1, pool("10.9.0.0/16", "p", gateway="10.9.9.9")))
    assert (wider.address, wider.gateway) == ("10.9.0.1/16", "10.9.9.9")
    assert len(addresses.release(owner(1))) == 2


# --- reclaim ----------------------------------------------------------------------------------


def test_reclaim_by_uid(addresses: LocalAddresses) -> None:
    kept = [addresses.allocate(ask(n)) for n in range(4)]
    gone = addresses.reclaim(lambda who: who.pod_uid in ("uid-0", "uid-3"))
    assert sorted(lease.address for lease in gone) == ["10.0.0.2/24", "10.0.0.3/24"]
    assert addresses.leases() == [kept[0], kept[3]]
    assert addresses.reclaim(lambda who: True) == []


def test_reclaim_spares_who_came_back_meanwhile(addresses: LocalAddresses) -> None:
    addresses.allocate(ask(1))

    def dead_but_returns(who: Owner) -> bool:
        addresses.allocate(ask(1))
        return False

    assert addresses.reclaim(dead_but_returns) == []
    assert len(addresses.leases()) == 1


# --- bad requests -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "who", [Owner("", "net1"), Owner("c", ""), Owner("c", "net1", pod="\udcff")]
)
def test_an_owner_that_is_none(addresses: LocalAddresses, who: Owner) -> None:
    with pytest.raises(CniError) as no:
        addresses.allocate(AddressRequest(who, (pool(),)))
    assert no.value.code == Code.INVALID_ENVIRONMENT
    assert addresses.release(who) == []
    assert addresses.allocate(ask(1)).address == "10.0.0.1/24"


def test_a_request_without_a_pool(addresses: LocalAddresses) -> None:
    with pytest.raises(CniError, match="no pool"):
        addresses.allocate(AddressRequest(owner(), ()))
