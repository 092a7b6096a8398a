"""A range of addresses, and the next one of it that is free. Pure: who has what is told to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from podrail.attach.ipam.spans import Span, Spans, joined

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class Range:
    """Addresses that may be given out: those of `network` from `first` to `last`, less some."""

    network: Network
    first: Address
    last: Address
    exclusions: tuple[tuple[Address, Address], ...] = ()
    gateway: Address | None = None
    name: str = ""
    """Leases are kept under it: two ranges of one name never give the same address."""
    scope: str = ""
    """Ranges of one scope never give the same address either, whatever their names."""

    def __post_init__(self) -> None:
        ends = (self.first, self.last)
        if any(end not in self.network for end in ends) or int(self.first) > int(self.last):
            raise ValueError(f"{self.first}–{self.last} is no part of {self.network}")

    @property
    def never(self) -> list[Span]:
        """What of first … last is not for pods: the network's own, the gateway, exclusions."""
        low, high = usable(self.network)
        out = [(int(self.first), int(low) - 1), (int(high) + 1, int(self.last))]
        out += [(int(a), int(b)) for a, b in self.exclusions if a.version == self.network.version]
        if self.gateway is not None and self.gateway in self.network:
            out.append((int(self.gateway), int(self.gateway)))
        return joined((max(a, int(self.first)), min(b, int(self.last))) for a, b in out)

    @property
    def size(self) -> int:
        """How many addresses it can give."""
        return int(self.last) - int(self.first) + 1 - sum(b - a + 1 for a, b in self.never)

    @property
    def shown(self) -> str:
        return f"{self.first}–{self.last} of {self.network}"

    def hosts(self, address: Address) -> bool:
        """Whether a host of the network may carry it, inside of first … last or not."""
        low, high = usable(self.network)
        return address in self.network and int(low) <= int(address) <= int(high)

    def address(self, number: int) -> Address:
        return type(self.first)(number)


def usable(network: Network) -> tuple[Address, Address]:
    """First and last address of a network that a host may carry.

    IPv4 loses the network and the broadcast address, except in a /31 (RFC 3021) or /32; IPv6 loses
    the subnet-router anycast address (RFC 4291 §2.6.1), except in a /127 (RFC 6164) or /128.
    """
    first, last = network.network_address, network.broadcast_address
    if network.max_prefixlen - network.prefixlen <= 1:
        return first, last
    return first + 1, last - 1 if network.version == 4 else last


def whole(
    network: Network, name: str, *, first: Address | None = None, last: Address | None = None,
    exclusions: Iterable[tuple[Address, Address]] = (), gateway: Address | None = None,
    scope: str = "",
) -> Range:  # fmt: skip
    """A range from its network; ends that are not given are those of the network."""
    low, high = usable(network)
    return Range(
        network, first or low, last or high, tuple(exclusions), gateway, name, scope
    )  # fmt: skip


class Free:
    """The addresses of a range that nobody has.

    The next one is the lowest free after the last that was given: a restarted pod's old address
    rests until the range has gone round, so that no neighbour's ARP entry points at the wrong pod.
    """

    __slots__ = ("_blocked", "_never", "last", "range")

    def __init__(self, range_: Range, taken: Iterable[int] = (), last: int | None = None) -> None:
        self.range, self.last = range_, last
        never = range_.never
        self._never = Spans(never)
        self._blocked = Spans([*never, *((number, number) for number in taken)])

    def next(self) -> int | None:
        """A free address; None when there is none. Nothing is taken yet."""
        first, end = int(self.range.first), int(self.range.last)
        start = first if self.last is None else max(first, self.last + 1)
        found = self._blocked.after(start)
        if found > end:
            found = self._blocked.after(first)
        return found if found <= end else None

    def take(self, number: int) -> None:
        self._blocked.add(number)

    def give_back(self, number: int) -> None:
        """What was never for pods stays blocked: somebody may have asked for it by name."""
        if number not in self._never:
            self._blocked.discard(number)
