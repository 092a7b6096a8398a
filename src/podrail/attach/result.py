"""CNI results and errors: one form inside, the form of each version of the spec outside."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, TypeVar

from podrail.model.errors import PodrailError

VERSIONS = ("0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
CURRENT = VERSIONS[-1]
_OLD = VERSIONS[:3]

T = TypeVar("T")


class Code(IntEnum):
    """CNI spec 1.1, section 2 "Error"; from 100 on they are ours."""

    INCOMPATIBLE_VERSION = 1
    UNSUPPORTED_FIELD = 2
    UNKNOWN_CONTAINER = 3
    INVALID_ENVIRONMENT = 4
    IO_FAILURE = 5
    UNDECODABLE = 6
    INVALID_CONFIG = 7
    TRY_AGAIN_LATER = 11
    NOT_AVAILABLE = 50
    NOT_AVAILABLE_LIMITED = 51
    REFUSED = 100
    INTERNAL = 999


class CniError(PodrailError):
    """A CNI request that fails: `msg` in one line, `details` for those who look closer."""

    def __init__(self, code: Code | int, msg: str, details: str = "") -> None:
        super().__init__(msg)
        self.code, self.msg, self.details = int(code), msg, details

    def __reduce__(self) -> tuple[type[CniError], tuple[int, str, str]]:
        return type(self), (self.code, self.msg, self.details)

    def render(self, version: str) -> dict[str, Any]:
        body: dict[str, Any] = {"cniVersion": version, "code": self.code, "msg": self.msg}
        return body | {"details": self.details} if self.details else body


@dataclass(frozen=True, slots=True)
class Interface:
    """An interface of the pod, or of the host where `sandbox` is empty."""

    name: str
    mac: str = ""
    mtu: int | None = None
    sandbox: str = ""
    socket_path: str = ""
    pci_id: str = ""


@dataclass(frozen=True, slots=True)
class Address:
    """An address such as `10.0.0.5/24` on the interface with that index."""

    address: str
    gateway: str = ""
    interface: int | None = None


@dataclass(frozen=True, slots=True)
class Route:
    """A route inside the pod; what is after `gw` came with 1.1."""

    dst: str
    gw: str = ""
    mtu: int | None = None
    advmss: int | None = None
    priority: int | None = None
    table: int | None = None
    scope: int | None = None


@dataclass(frozen=True, slots=True)
class Dns:
    """What a pod resolves names with."""

    nameservers: tuple[str, ...] = ()
    domain: str = ""
    search: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """What an ADD made."""

    interfaces: tuple[Interface, ...] = ()
    ips: tuple[Address, ...] = ()
    routes: tuple[Route, ...] = ()
    dns: Dns = field(default_factory=Dns)


def versions() -> dict[str, Any]:
    """The answer to VERSION."""
    return {"cniVersion": CURRENT, "supportedVersions": list(VERSIONS)}


def render(result: Result, version: str) -> dict[str, Any]:
    """The result as the runtime of that version reads it.

    What 1.1 added is also given under 1.0: libcni has one type for both, and Multus takes the MTU
    of network-status from it.
    """
    old = version in _OLD
    body = {
        "interfaces": [_interface(one, old) for one in result.interfaces],
        "ips": [_address(one, old) for one in result.ips],
        "routes": [_route(one, old) for one in result.routes],
        "dns": _set(result.dns, nameservers="nameservers", domain="domain", search="search",
                    options="options"),
    }  # fmt: skip
    return {"cniVersion": version} | {key: value for key, value in body.items() if value}


def _set(one: object, **keys: str) -> dict[str, Any]:
    """The attributes that are set, under their JSON names."""
    found = ((key, getattr(one, name)) for name, key in keys.items())
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in found
        if value not in (None, "", ())
    }


def _interface(one: Interface, old: bool) -> dict[str, Any]:
    body = _set(one, name="name", mac="mac", sandbox="sandbox")
    return body if old else body | _set(one, mtu="mtu", socket_path="socketPath", pci_id="pciID")


def _address(one: Address, old: bool) -> dict[str, Any]:
    body = _set(one, address="address", gateway="gateway", interface="interface")
    return {"version": "6" if ":" in one.address else "4"} | body if old else body


def _route(one: Route, old: bool) -> dict[str, Any]:
    body = _set(one, dst="dst", gw="gw")
    more = ("mtu", "advmss", "priority", "table", "scope")
    return body if old else body | _set(one, **{name: name for name in more})


def parse(raw: object, where: str = "prevResult") -> Result:
    """A result of any supported version; CniError 7 where it is none."""
    body = _checked(raw, where, dict)
    result = Result(
        _each(body, where, "interfaces", _read_interface),
        _each(body, where, "ips", _read_address),
        _each(body, where, "routes", _read_route),
        _read_dns(_checked(_value(body, "dns", {}), f"{where}.dns", dict), f"{where}.dns"),
    )
    for index, ip in enumerate(result.ips):
        if ip.interface is not None and not 0 <= ip.interface < len(result.interfaces):
            raise wrong(f"{where}.ips[{index}].interface", ip.interface, "an index of interfaces")
    return result


def wrong(where: str, found: object, wanted: str) -> CniError:
    """A value of a configuration that will not do."""
    return CniError(Code.INVALID_CONFIG, f"{where}: found {short(found)}, wanted {wanted}")


def short(found: object) -> str:
    """What was found, without letting a hostile value fill the log."""
    try:
        text = ascii(found)
    except RecursionError:
        text = f"a {type(found).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


_WORDS: dict[type, str] = {dict: "an object", list: "a list", str: "a string", int: "a number"}


def _checked(value: object, where: str, kind: type[T]) -> T:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise wrong(where, value, _WORDS[kind])
    return value


def _value(body: Mapping[str, Any], key: str, default: object) -> object:
    found = body.get(key)
    return default if found is None else found


def _each(
    body: Mapping[str, Any], where: str, key: str,
    read: Callable[[Mapping[str, Any], str], T],
) -> tuple[T, ...]:  # fmt: skip
    found = _checked(_value(body, key, []), f"{where}.{key}", list)
    places = [(one, f"{where}.{key}[{index}]") for index, one in enumerate(found)]
    return tuple(read(_checked(one, place, dict), place) for one, place in places)


def _text(body: Mapping[str, Any], where: str, key: str) -> str:
    return _checked(_value(body, key, ""), f"{where}.{key}", str)


def _number(body: Mapping[str, Any], where: str, key: str) -> int | None:
    found = body.get(key)
    return None if found is None else _checked(found, f"{where}.{key}", int)


def _read_interface(body: Mapping[str, Any], where: str) -> Interface:
    return Interface(
        _text(body, where, "name"), _text(body, where, "mac"), _number(body, where, "mtu"),
        _text(body, where, "sandbox"), _text(body, where, "socketPath"),
        _text(body, where, "pciID"),
    )  # fmt: skip


def _read_address(body: Mapping[str, Any], where: str) -> Address:
    address, gateway = _text(body, where, "address"), _text(body, where, "gateway")
    _valid(f"{where}.address", address, ipaddress.ip_interface, "an address such as 10.0.0.5/24")
    if gateway:
        _valid(f"{where}.gateway", gateway, ipaddress.ip_address, "an address such as 10.0.0.1")
    return Address(address, gateway, _number(body, where, "interface"))


def _read_route(body: Mapping[str, Any], where: str) -> Route:
    dst, gw = _text(body, where, "dst"), _text(body, where, "gw")
    _valid(f"{where}.dst", dst, ipaddress.ip_interface, "a network such as 0.0.0.0/0")
    if gw:
        _valid(f"{where}.gw", gw, ipaddress.ip_address, "an address such as 10.0.0.1")
    numbers = (_number(body, where, key) for key in ("mtu", "advmss", "priority", "table", "scope"))
    return Route(dst, gw, *numbers)


def _valid(where: str, text: str, read: Callable[[str], object], wanted: str) -> None:
    try:
        read(text)
    except ValueError:
        raise wrong(where, text, wanted) from None


def _read_dns(body: Mapping[str, Any], where: str) -> Dns:
    def texts(key: str) -> tuple[str, ...]:
        found = _checked(_value(body, key, []), f"{where}.{key}", list)
        return tuple(_checked(one, f"{where}.{key}", str) for one in found)

    return Dns(texts("nameservers"), _text(body, where, "domain"), texts("search"),
               texts("options"))  # fmt: skip


def merge(before: Result, ours: Result) -> Result:
    """What a chained plugin returns: all that was there, and what it added to it.

    An interface both know is one interface; ours is the newer word on it.
    """
    interfaces, places = list(before.interfaces), {}
    for index, one in enumerate(ours.interfaces):
        places[index] = _place(interfaces, one)
    moved = (
        replace(ip, interface=None if ip.interface is None else places[ip.interface])
        for ip in ours.ips
    )
    return Result(
        tuple(interfaces), tuple(dict.fromkeys((*before.ips, *moved))),
        tuple(dict.fromkeys((*before.routes, *ours.routes))),
        before.dns if before.dns != Dns() else ours.dns,
    )  # fmt: skip


def _place(interfaces: list[Interface], one: Interface) -> int:
    for index, old in enumerate(interfaces):
        if (old.name, old.sandbox) == (one.name, one.sandbox):
            interfaces[index] = Interface(
                one.name, one.mac or old.mac, one.mtu or old.mtu, one.sandbox,
                one.socket_path or old.socket_path, one.pci_id or old.pci_id,
            )  # fmt: skip
            return index
    interfaces.append(one)
    return len(interfaces) - 1
