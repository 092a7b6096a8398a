"""Where addresses come from in a bundle: the JSON of `ipam`, and nv-ipam's pools, in one shape."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Any

from podrail.model.bundle import Bundle, Resource
from podrail.model.document import Path
from podrail.model.finding import Status, Where
from podrail.model.kinds.configs import Embedded, JsonProblem, embedded_json
from podrail.model.reach import at
from podrail.planning.lint.attachments import plugins
from podrail.planning.lint.homes import of_kind
from podrail.planning.lint.memo import once
from podrail.planning.lint.registry import Hit
from podrail.planning.lint.view import NAD, Attachment, attachments

Address = IPv4Address | IPv6Address
Net = IPv4Network | IPv6Network

POOLS = ("IPPool", "CIDRPool")
_KEYS = {
    "whereabouts": ("range", "range_start", "range_end"),
    "host-local": ("subnet", "rangeStart", "rangeEnd"),
    "IPPool": ("subnet", "", ""),
    "CIDRPool": ("cidr", "", ""),
}
_SPAN = re.compile(r"^\s*(?P<first>[^-/\s]+)-(?P<last>[^-/\s]+)(?P<mask>/\d+)\s*$")


@dataclass(frozen=True, slots=True)
class Source:
    """One object that says which addresses pods get."""

    resource: Resource
    attachment: Attachment | None
    config: Embedded | None
    base: Path
    type: str
    """The IPAM plugin, or the kind of the pool."""

    def get(self, *path: str | int) -> Any:
        full = (*self.base, *path)
        return at(self.resource.data, *full) if self.config is None else self.config.get(*full)

    def where(self, *path: str | int, key: bool = False) -> Where:
        full = (*self.base, *path)
        at = self.resource.where if self.config is None else self.config.where
        return at(*full, key=key)

    def hit(
        self, path: Path, actual: str, expected: str, fix: str, *, key: bool = False,
        status: Status | None = None, evidence: tuple[str, ...] = (),
    ) -> Hit:  # fmt: skip
        """A finding at a place inside."""
        return Hit(
            self.resource, self.base, actual, expected, fix, status=status, evidence=evidence,
            where=self.where(*path, key=key),
        )  # fmt: skip

    def texts(self, *path: str | int) -> list[tuple[Path, str]]:
        """The strings of a list, each with its place."""
        listed = self.get(*path)
        found = enumerate(listed if isinstance(listed, list) else ())
        return [((*path, at), text) for at, text in found if isinstance(text, str)]


@once
def ipams(bundle: Bundle) -> Iterator[Source]:
    """Every `ipam` object that is readable, of whichever kind of network."""
    for attachment in attachments(bundle):
        for config, base in _configs(attachment):
            data = config.get(*base)
            if isinstance(data, dict) and data:
                yield Source(
                    attachment.resource, attachment, config, base, str(data.get("type") or "")
                )


def _configs(attachment: Attachment) -> Iterator[tuple[Embedded, Path]]:
    if attachment.resource.kind == NAD:
        yield from ((p.config, (*p.path, "ipam")) for p in plugins(attachment.resource))
    elif attachment.ipam_path is not None:
        config = embedded_json(attachment.resource, attachment.ipam_path)
        if not isinstance(config, JsonProblem):
            yield config, ()


@once
def pools(bundle: Bundle) -> Iterator[Source]:
    """nv-ipam's pools."""
    for resource in of_kind(bundle, *POOLS):
        yield Source(resource, None, None, ("spec",), resource.kind)


def pool_names(source: Source) -> list[str]:
    """The pools of nv-ipam a network draws from; by default the one of its own name."""
    if source.type != "nv-ipam":
        return []
    text = source.get("poolName")
    if not isinstance(text, str) or not text:
        return [source.resource.name]
    return [name.strip() for name in text.split(",") if name.strip()]


@once
def sources(bundle: Bundle) -> list[Source]:
    """All of them."""
    return [*ipams(bundle), *pools(bundle)]


# --- ranges -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Range:
    """A subnet addresses are taken from, and the part of it that is handed out."""

    source: Source
    path: Path
    net: Net
    first: Address
    last: Address
    inside: Path
    """Of the object that holds this range and its `gateway`."""

    @property
    def size(self) -> int:
        """Addresses that can be handed out: exclusions are taken off."""
        free, at = 0, int(self.first)
        for low, high in sorted(excluded(self)):
            free += max(0, min(low, int(self.last) + 1) - at)
            at = max(at, high + 1)
        return free + max(0, int(self.last) + 1 - at)

    def hands_out(self, address: Address) -> bool:
        """Whether a pod could be given this address."""
        number = int(address)
        if address.version != self.net.version or not int(self.first) <= number <= int(self.last):
            return False
        return not any(low <= number <= high for low, high in excluded(self))

    def hit(self, actual: str, expected: str, fix: str, *, status: Status | None = None) -> Hit:
        return self.source.hit(self.path, actual, expected, fix, status=status)


def ranges(source: Source) -> list[Range]:
    """The readable ranges of a source; what cannot be read is for `ipam.bad-address`."""
    found = (_range(source, inside) for inside in holders(source))
    return [range_ for range_ in found if range_ is not None]


@once
def all_ranges(bundle: Bundle) -> Iterator[Range]:
    """The ranges of every source of a bundle."""
    for source in sources(bundle):
        yield from ranges(source)


def holders(source: Source) -> list[Path]:
    """Where ranges stand: at the top, in `ipRanges` (whereabouts) or `ranges` (host-local)."""
    if source.type not in _KEYS:
        return []
    found: list[Path] = [()] if source.get(_KEYS[source.type][0]) is not None else []
    if source.type == "whereabouts":
        found += [("ipRanges", n) for n in range(_length(source.get("ipRanges")))]
    elif source.type == "host-local":
        for n in range(_length(source.get("ranges"))):
            found += [("ranges", n, m) for m in range(_length(source.get("ranges", n)))]
    return found


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list) else 0


def range_keys(source: Source) -> tuple[str, str, str]:
    """What range, first and last address are called here; empty where there is no such key."""
    return _KEYS[source.type]


def span(text: str) -> tuple[str, str, str]:
    """whereabouts also writes `10.0.0.10-10.0.0.20/24`: the net, first and last address."""
    found = _SPAN.match(text)
    if found is None:
        return text, "", ""
    return found["first"] + found["mask"], found["first"], found["last"]


def _range(source: Source, inside: Path) -> Range | None:
    key, start, end = _KEYS[source.type]
    text, first, last = span(str(source.get(*inside, key)))
    net = network(text)
    if net is None:
        return None
    low, high = usable(net)
    low = _given(source, (*inside, start), first, net) or low
    high = _given(source, (*inside, end), last, net) or high
    return Range(source, (*inside, key), net, low, high, inside)


def _given(source: Source, path: Path, otherwise: str, net: Net) -> Address | None:
    """An end of the range as written; None when it is not, or is of the other family."""
    found = address(str(source.get(*path) or otherwise)) if path[-1] else None
    return found if found is not None and found.version == net.version else None


def usable(net: Net) -> tuple[Address, Address]:
    """First and last address for hosts: without network and broadcast address where there are."""
    first, last = net.network_address, net.broadcast_address
    return (first, last) if net.num_addresses <= 2 else (first + 1, last - 1)


def excluded(range_: Range) -> list[tuple[int, int]]:
    """What is taken out of a range, as first and last address."""
    source, version = range_.source, range_.net.version
    nets = [network(text) for _, text in source.texts(*range_.inside, "exclude")]
    found = [(n.network_address, n.broadcast_address) for n in nets if n is not None]
    spans = [(int(a), int(b)) for a, b in found if a.version == version]
    for number in range(_length(source.get("exclusions"))):
        low = address(str(source.get("exclusions", number, "startIP")))
        high = address(str(source.get("exclusions", number, "endIP")))
        if low is not None and high is not None and low.version == high.version == version:
            spans.append((int(low), int(high)))
    return spans


class Taken:
    """Ranges seen so far, found again by the addresses they share with another.

    Two subnets either lie in each other or apart, so each is entered under itself and under every
    wider one whose prefix length occurs.
    """

    def __init__(self, found: Iterable[Range]) -> None:
        self._lengths = sorted({r.net.prefixlen for r in found})
        self._exact: dict[Net, dict[Hashable, Range]] = {}
        self._inside: dict[Net, dict[Hashable, Range]] = {}

    def meeting(self, range_: Range) -> Iterator[Range]:
        """The ranges before this one that share an address with it."""
        yield from self._inside.get(range_.net, {}).values()
        for wider in self._wider(range_.net):
            yield from self._exact.get(wider, {}).values()

    def add(self, range_: Range, owner: Hashable) -> None:
        """Of the ranges that one owner has in one subnet, the first is kept."""
        self._exact.setdefault(range_.net, {}).setdefault(owner, range_)
        for net in (range_.net, *self._wider(range_.net)):
            self._inside.setdefault(net, {}).setdefault((owner, range_.net), range_)

    def _wider(self, net: Net) -> Iterator[Net]:
        shorter = (length for length in self._lengths if length < net.prefixlen)
        return (net.supernet(new_prefix=length) for length in shorter)


def network(text: str) -> Net | None:
    """A subnet in CIDR form; host bits are let pass, as the plugins do."""
    if "/" not in text:
        return None
    try:
        return ip_network(text.strip(), strict=False)
    except ValueError:
        return None


def address(text: str) -> Address | None:
    """An address, with or without a prefix length."""
    try:
        return ip_address(text.strip().partition("/")[0])
    except ValueError:
        return None
