"""Reading JSON that somebody else wrote: every value checked, every refusal says where."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from ipaddress import ip_address, ip_interface, ip_network
from typing import TypeVar

from podrail.attach.ipam.pool import Address, Network
from podrail.attach.result import wrong

T = TypeVar("T")


class Fields:
    """A JSON object. Keys match in any case and null is absent, as with Go's encoding/json, which
    the plugins that these configurations are written for read them with."""

    __slots__ = ("_values", "where")

    def __init__(self, data: object, where: str) -> None:
        self.where = where
        if not isinstance(data, Mapping):
            raise wrong(where, data, "an object")
        self._values = {str(key).lower(): value for key, value in data.items()}

    def __iter__(self) -> Iterator[str]:
        """The keys, in small letters."""
        return iter(self._values)

    def _get(self, key: str, kind: type[T], wanted: str) -> T | None:
        value = self._values.get(key.lower())
        if value is None:
            return None
        if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
            raise wrong(self._at(key), value, wanted)
        return value

    def _at(self, key: str) -> str:
        return f"{self.where}.{key}"

    def text(self, key: str) -> str:
        return (self._get(key, str, "text") or "").strip()

    def flag(self, key: str, default: bool) -> bool:
        found = self._get(key, bool, "true or false")
        return default if found is None else found

    def number(self, key: str) -> int | None:
        return self._get(key, int, "a whole number")

    def texts(self, key: str) -> list[str]:
        found = self._get(key, list, "a list of texts") or []
        for text in found:
            if not isinstance(text, str):
                raise wrong(self._at(key), text, "a list of texts")
        return [text.strip() for text in found]

    def inside(self, key: str) -> Fields:
        """The object under a key; an empty one where there is none."""
        return Fields(self._get(key, Mapping, "an object") or {}, self._at(key))

    def each(self, key: str) -> list[Fields]:
        """The objects of a list."""
        found = self._get(key, list, "a list of objects") or []
        return [Fields(one, f"{self._at(key)}[{n}]") for n, one in enumerate(found)]

    def address(self, key: str) -> Address | None:
        text = self.text(key)
        return address(text, self._at(key)) if text else None

    def network(self, key: str) -> Network | None:
        text = self.text(key)
        return network(text, self._at(key)) if text else None


def address(text: str, where: str) -> Address:
    """An address without prefix length."""
    return _plain(_read(ip_address, text, where, "an address such as 10.0.0.5"), text, where)


def network(text: str, where: str) -> Network:
    """A network; host bits are let pass, as the plugins do."""
    if "/" not in text:
        raise wrong(where, text, "a network with its prefix length, such as 10.0.0.0/24")

    def read(text: str) -> Network:
        return ip_network(text, strict=False)

    found = _read(read, text, where, "a network such as 10.0.0.0/24")
    _plain(found.network_address, text, where)
    return found


def interface(text: str, where: str) -> tuple[Address, Network]:
    """An address with its prefix length."""
    if "/" not in text:
        raise wrong(where, text, "an address with its prefix length, such as 10.0.0.5/24")
    found = _read(ip_interface, text, where, "an address such as 10.0.0.5/24")
    return _plain(found.ip, text, where), found.network


def _read(read: Callable[[str], T], text: str, where: str, wanted: str) -> T:
    try:
        return read(text)
    except ValueError:
        raise wrong(where, text, wanted) from None


def _plain(found: Address, text: str, where: str) -> Address:
    """fe80::1%eth0 holds on one machine; ::ffff:10.0.0.1 is IPv4 to some and IPv6 to others."""
    if "%" in text or (found.version == 6 and found.ipv4_mapped):
        raise wrong(where, text, "an address without zone, and IPv4 written as IPv4")
    return found
