"""iblinkinfo: every port and the state of its link."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from podrail.lab.diags.said import nothing


@dataclass(frozen=True, slots=True)
class LinkInfo:
    """One port and its link."""

    guid: int
    """Of the port: a switch's own, or the adapter's port's."""
    name: str
    lid: int
    port: int
    state: str
    physical: str
    width: int | None = None
    lane_gbps: float | None = None
    peer_lid: int | None = None
    peer_port: int | None = None
    peer: str = ""
    could_be: str = ""

    @property
    def gbps(self) -> float | None:
        """Signalling rate of the whole link."""
        return None if self.width is None or self.lane_gbps is None else self.width * self.lane_gbps


_LINK = re.compile(
    r"^\s*(?:0x(?P<guid>\w{16})\s+)?(?:\"\s*(?P<name>[^\"]*)\"\s+)?"
    r"(?P<lid>\d+)\s+(?P<port>\d+)\[.*?\] ==\("
    r"\s*(?:(?P<width>\d+)X\s+(?P<lane>[\d.]+) Gbps)?\s*(?P<state>\w+)/\s*(?P<phys>[\w ]+?)\)==>\s+"
    r"(?:0x\w{16}\s+)?(?:(?P<plid>\d+)\s+(?P<pport>\d+))?\[.*?\] "
    r"\"(?P<peer>.*)\" \((?P<could>.*)\)"
)
_BLOCK = re.compile(r"^(?:Switch: 0x(?P<guid>\w{16}) |(?:CA|Rt|Router): )(?P<name>.*):$")


def iblinkinfo(text: str) -> tuple[LinkInfo, ...]:
    """Every port, from the grouped form or from `--line`."""
    links = tuple(_links(text))
    if not links:
        raise nothing("iblinkinfo", text, "at least one port")
    return links


def _links(text: str) -> Iterator[LinkInfo]:
    name, guid = "", "0"
    for line in text.splitlines():
        if block := _BLOCK.match(line):
            name, guid = block["name"], block["guid"] or "0"
        elif found := _LINK.match(line):
            shown = found["name"]
            yield LinkInfo(
                int(found["guid"] or guid, 16), name if shown is None else shown.strip(),
                int(found["lid"]), int(found["port"]), found["state"], found["phys"],
                _int(found["width"]), float(found["lane"]) if found["lane"] else None,
                _int(found["plid"]), _int(found["pport"]), found["peer"],
                found["could"].strip(),
            )  # fmt: skip


def _int(text: str | None) -> int | None:
    return None if text is None else int(text)
