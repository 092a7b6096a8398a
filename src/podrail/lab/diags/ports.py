"""ibstat and perfquery: one port, from near by."""

from __future__ import annotations

import re
from dataclasses import dataclass

from podrail.lab.diags.said import nothing


@dataclass(frozen=True, slots=True)
class AdapterPort:
    """A local port, as ibstat shows it."""

    number: int
    state: str
    physical: str
    rate: int
    lid: int
    sm_lid: int
    guid: int
    link_layer: str
    capabilities: int

    @property
    def is_sm(self) -> bool:
        """PortInfo.CapabilityMask bit 1, IsSM."""
        return bool(self.capabilities & 1 << 1)


@dataclass(frozen=True, slots=True)
class Adapter:
    """A local channel adapter."""

    name: str
    kind: str
    firmware: str
    guid: int
    ports: tuple[AdapterPort, ...]


def ibstat(text: str) -> tuple[Adapter, ...]:
    """Every local adapter."""
    pieces = re.split(r"^CA '(.+)'$", text, flags=re.MULTILINE)
    if len(pieces) < 3:
        raise nothing("ibstat", text, "at least one adapter")
    return tuple(_adapter(n, body) for n, body in zip(pieces[1::2], pieces[2::2], strict=True))


def _adapter(name: str, body: str) -> Adapter:
    top, *rest = re.split(r"^\tPort (\d+):$", body, flags=re.MULTILINE)
    facts = _colons(top)
    ports = tuple(_port(int(n), _colons(b)) for n, b in zip(rest[::2], rest[1::2], strict=True))
    guid = int(facts.get("Node GUID", "0"), 16)
    return Adapter(
        name, facts.get("CA type", ""), facts.get("Firmware version", ""), guid, ports
    )  # fmt: skip


def _port(number: int, facts: dict[str, str]) -> AdapterPort:
    return AdapterPort(
        number, facts["State"], facts["Physical state"], int(facts["Rate"].split()[0]),
        int(facts["Base lid"]), int(facts["SM lid"]), int(facts["Port GUID"], 16),
        facts.get("Link layer", ""), int(facts["Capability mask"], 16),
    )  # fmt: skip


def _colons(text: str) -> dict[str, str]:
    pairs = (line.strip().partition(": ") for line in text.splitlines() if ": " in line)
    return {key: value.strip() for key, _, value in pairs}


@dataclass(frozen=True, slots=True)
class Counters:
    """Performance counters of one port."""

    lid: int
    port: int
    values: dict[str, int]


_COUNTERS = re.compile(r"^# Port (?:extended )?counters: Lid (\d+) port (\d+)", re.MULTILINE)
_COUNTER = re.compile(r"^(\w+):\.+(0x\w+|\d+)$", re.MULTILINE)


def perfquery(text: str) -> Counters:
    """The counters of one port."""
    found = _COUNTERS.search(text)
    if found is None:
        raise nothing("perfquery", text, "a port's counters")
    values = {name: int(value, 0) for name, value in _COUNTER.findall(text)}
    return Counters(int(found[1]), int(found[2]), values)
