"""ibnetdiscover, ibswitches, ibhosts: which nodes there are, and their cables."""

from __future__ import annotations

import re
from dataclasses import dataclass

from podrail.lab.diags.said import nothing


@dataclass(frozen=True, slots=True)
class Wire:
    """A port ibnetdiscover found something at."""

    port: int
    port_guid: int
    peer_guid: int
    peer_port: int
    peer_port_guid: int
    width: int
    speed: str


@dataclass(frozen=True, slots=True)
class Found:
    """A node that answered."""

    kind: str
    """Switch, Ca or Rt."""
    guid: int
    description: str
    ports: int
    lid: int | None
    vendor: int
    device: int
    wires: tuple[Wire, ...] = ()


@dataclass(frozen=True, slots=True)
class Discovery:
    """The subnet as seen from one port."""

    nodes: tuple[Found, ...]

    def wiring(self) -> frozenset[frozenset[tuple[int, int]]]:
        """Every cable as its two ends, (port GUID, port number)."""
        return frozenset(
            frozenset({(w.port_guid, w.port), (w.peer_port_guid, w.peer_port)})
            for node in self.nodes
            for w in node.wires
        )


_HEAD = re.compile(
    r'(?P<kind>Switch|Ca|Rt)\s+(?P<ports>\d+) "\w-(?P<guid>\w{16})"\s+'
    r'# "(?P<what>.*)"(?:.*? lid (?P<lid>\d+))?'
)
_WIRE = re.compile(
    r'\[(?P<port>\d+)\](?:\((?P<mine>\w+)\))?\s*"\w-(?P<peer>\w{16})"\[(?P<peer_port>\d+)\]'
    r"(?:\((?P<theirs>\w+)\))?.* lid \d+ (?P<width>\d+)x(?P<speed>\w+)"
)
_OWN_LID = re.compile(r"# lid (\d+) lmc")


def ibnetdiscover(text: str) -> Discovery:
    """Every node with what is plugged into it."""
    nodes = tuple(n for part in re.split(r"\n\s*\n", text) if (n := _discovered(part)))
    if not nodes:
        raise nothing("ibnetdiscover", text, "at least the node it ran on")
    return Discovery(nodes)


def _discovered(section: str) -> Found | None:
    head = _HEAD.search(section)
    if head is None:
        return None
    guid = int(head["guid"], 16)
    wires = tuple(_wire(guid, found) for found in map(_WIRE.match, section.splitlines()) if found)
    own = _OWN_LID.search(section)
    lid = head["lid"] or (own[1] if own else None)
    return Found(
        head["kind"], guid, head["what"], int(head["ports"]), int(lid) if lid else None,
        _assigned(section, "vendid"), _assigned(section, "devid"), wires,
    )  # fmt: skip


def _assigned(section: str, key: str) -> int:
    found = re.search(rf"^{key}=(0x\w+)", section, re.MULTILINE)
    return int(found[1], 16) if found else 0


def _wire(guid: int, found: re.Match[str]) -> Wire:
    peer = int(found["peer"], 16)
    return Wire(
        int(found["port"]), int(found["mine"], 16) if found["mine"] else guid,
        peer, int(found["peer_port"]), int(found["theirs"], 16) if found["theirs"] else peer,
        int(found["width"]), found["speed"],
    )  # fmt: skip


_LISTED = re.compile(
    r'(Switch|Ca|Rt)\s*: 0x(\w{16}) ports (\d+)(?: devid 0x(\w+) vendid 0x(\w+))? "(.*)"'
    r"(?:.* lid (\d+))?"
)


def listed(text: str) -> tuple[Found, ...]:
    """Output of ibswitches, ibhosts, ibnodes or `ibnetdiscover -l`; may be empty."""
    return tuple(
        Found(kind, int(guid, 16), what, int(ports), int(lid) if lid else None,
              int(vendor or "0", 16), int(device or "0", 16))
        for kind, guid, ports, device, vendor, what, lid in _LISTED.findall(text)
    )  # fmt: skip
