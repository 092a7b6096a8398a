from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podrail.attach.ipam.pool import Free, Range, usable, whole
from tests.attach.ipam.made import pool


@pytest.mark.parametrize(
    ("network", "first", "last"),
    [
        pytest.param("10.0.0.0/24", "10.0.0.1", "10.0.0.254", id="v4"),
        pytest.param("10.0.0.0/30", "10.0.0.1", "10.0.0.2", id="v4-30"),
        pytest.param("10.0.0.4/31", "10.0.0.4", "10.0.0.5", id="v4-31-rfc3021"),
        pytest.param("10.0.0.4/32", "10.0.0.4", "10.0.0.4", id="v4-32"),
        pytest.param("fd00::/64", "fd00::1", "fd00::ffff:ffff:ffff:ffff", id="v6"),
        pytest.param("fd00::4/127", "fd00::4", "fd00::5", id="v6-127-rfc6164"),
        pytest.param("fd00::4/128", "fd00::4", "fd00::4", id="v6-128"),
    ],
)
def test_usable(network: str, first: str, last: str) -> None:
    assert usable(ip_network(network)) == (ip_address(first), ip_address(last))


def test_network_and_broadcast_are_never_given_even_if_the_range_names_them() -> None:
    range_ = pool("10.0.0.0/29", first="10.0.0.0", last="10.0.0.7")
    assert range_.size == 6
    assert _all(range_) == [f"10.0.0.{n}" for n in range(1, 7)]


def test_gateway_and_exclusions_are_never_given() -> None:
    range_ = pool(
        "10.0.0.0/28", gateway="10.0.0.1", last="10.0.0.8",
        exclusions=[("10.0.0.3", "10.0.0.5"), ("10.0.0.5", "10.0.0.6"), ("fd00::", "fd00::1")],
    )  # fmt: skip
    assert _all(range_) == ["10.0.0.2", "10.0.0.7", "10.0.0.8"]
    assert range_.size == 3


def test_a_gateway_elsewhere_takes_no_address() -> None:
    assert pool("10.0.0.0/30", gateway="192.168.0.1").size == 2


def test_v6_is_given_from_the_first_host() -> None:
    free = Free(pool("fd00::/64"))
    assert free.next() == int(IPv6Address("fd00::1"))


def test_ipv6_range_at_the_end_of_the_address_space() -> None:
    top = 2**128 - 1
    range_ = whole(ip_network("ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127"), "top")
    free = Free(range_, [top], last=top)
    assert free.next() == top - 1
    free.take(top - 1)
    assert free.next() is None


@pytest.mark.parametrize(
    ("first", "last"), [("10.0.0.9", "10.0.0.4"), ("10.0.1.1", "10.0.1.2"), ("fd00::1", "fd00::2")]
)
def test_ends_that_are_no_part_of_the_network(first: str, last: str) -> None:
    with pytest.raises(ValueError, match="no part of"):
        Range(ip_network("10.0.0.0/24"), ip_address(first), ip_address(last))


def test_the_next_is_the_lowest_after_the_last_given() -> None:
    free = Free(pool("10.0.0.0/29"))
    given_ = [_take(free) for _ in range(3)]
    free.give_back(int(ip_address(given_[0])))
    assert given_ == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    assert [_take(free) for _ in range(4)] == ["10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.1"]
    assert free.next() is None


def test_giving_back_what_is_excluded_does_not_free_it() -> None:
    gateway = int(ip_address("10.0.0.1"))
    free = Free(pool("10.0.0.0/30", gateway="10.0.0.1"), last=gateway + 1)
    free.take(gateway)
    free.give_back(gateway)
    assert [_take(free), free.next()] == ["10.0.0.2", None]


def _take(free: Free) -> str:
    number = free.next()
    assert number is not None
    free.take(number)
    free.last = number
    return str(free.range.address(number))


def _all(range_: Range) -> list[str]:
    free, found = Free(range_), []
    while free.next() is not None:
        found.append(_take(free))
    return found


_BASE = int(IPv4Address("10.0.0.0"))


@st.composite
def _ranges(draw: st.DrawFn) -> Range:
    length = draw(st.integers(26, 32))
    net = ip_network(f"10.0.0.0/{length}")
    host = st.integers(0, net.num_addresses - 1)
    first, last = sorted((draw(host), draw(host)))
    pairs = draw(st.lists(st.tuples(host, host).map(sorted), max_size=4))
    gateway = draw(st.none() | host)
    return Range(
        net, IPv4Address(_BASE + first), IPv4Address(_BASE + last),
        tuple((IPv4Address(_BASE + a), IPv4Address(_BASE + b)) for a, b in pairs),
        None if gateway is None else IPv4Address(_BASE + gateway),
    )  # fmt: skip


def _allowed(range_: Range) -> set[int]:
    """The rules said once more, plainly."""
    ends = {int(range_.network.network_address), int(range_.network.broadcast_address)}
    own = ends if range_.network.prefixlen < 31 else set()
    return {
        n
        for n in range(int(range_.first), int(range_.last) + 1)
        if n not in own
        and not any(int(a) <= n <= int(b) for a, b in range_.exclusions)
        and (range_.gateway is None or n != int(range_.gateway))
    }


@given(_ranges(), st.data())
def test_property_one_owner_each_none_excluded_exact_exhaustion(
    range_: Range, data: st.DataObject
) -> None:
    allowed = _allowed(range_)
    assert range_.size == len(allowed)
    free, owned = Free(range_), set[int]()
    for give in data.draw(st.lists(st.booleans(), max_size=80)):
        if give:
            number = free.next()
            assert (number is None) == (owned == allowed)
            if number is not None:
                assert number in allowed
                assert number not in owned
                free.take(number)
                free.last = number
                owned.add(number)
        elif owned:
            back = data.draw(st.sampled_from(sorted(owned)))
            free.give_back(back)
            owned.remove(back)
    while (number := free.next()) is not None:
        assert number in allowed - owned
        free.take(number)
        owned.add(number)
    assert owned == allowed
