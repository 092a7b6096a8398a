"""GUIDs for InfiniBand VFs, which are born with none: from a file, from a range, or derived."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podrail.host.seam import Host
from podrail.inventory.reader import guid_of
from podrail.model.errors import Refused
from podrail.model.inventory import Pf

FILE = "/etc/sriov-operator/infiniband/guids"
"""Where the upstream operator looks for static GUIDs."""

_LOCAL = 0x02
"""The universal/local bit: not assigned by the manufacturer."""


@dataclass(frozen=True, slots=True)
class Pool:
    """The GUIDs of one PF, in order of VF index."""

    pci: str | None
    pf_guid: str | None
    guids: Sequence[int]

    def is_for(self, pf: Pf) -> bool:
        own = pf.ipoib.guid if pf.ipoib else None
        return self.pci == pf.pci or (self.pf_guid is not None and self.pf_guid == own)


def derived(pf_guid: str, index: int) -> str:
    """A GUID that stays the same for this VF of this port.

    A card's own GUID is its MAC with two filler octets in the middle; those take the VF's number,
    and the local bit sets it apart from anything a manufacturer gave out.
    """
    octets = bytearray.fromhex(pf_guid.replace(":", ""))
    octets[0] ^= _LOCAL
    octets[3:5] = (int.from_bytes(octets[3:5], "big") + index + 1 & 0xFFFF).to_bytes(2, "big")
    return octets.hex(":")


def pools(host: Host) -> tuple[Pool, ...]:
    """The static file of a machine, if it has one."""
    try:
        text = host.read(FILE)
    except FileNotFoundError:
        return ()
    return parse(text)


def parse(text: str) -> tuple[Pool, ...]:
    """Upstream's file; its documentation and its code spell the keys differently, both are read.

    Of two entries for one PF the last counts, as in upstream's code.
    """
    try:
        entries = json.loads(text)
        return tuple(_pools(entries))
    except (ValueError, TypeError, KeyError, AttributeError) as no:
        raise Refused(
            f"{FILE} cannot be used ({no}): wanted a list of objects with pciAddress or pfGuid, "
            "and guids (a list) or guidsRange (start, end)"
        ) from no


def _pools(entries: Any) -> Iterator[Pool]:
    for entry in entries:
        pci = entry.get("pciAddress", entry.get("pci_address"))
        pf_guid = guid_of(entry.get("pfGuid", entry.get("pf_guid")))
        if not pci and not pf_guid:
            raise ValueError("an entry names no PF")
        yield Pool(pci, pf_guid, _numbers(entry))


def _numbers(entry: Mapping[str, Any]) -> Sequence[int]:
    if entry.get("guids"):
        return [_number(guid) for guid in entry["guids"]]
    span = entry.get("guidsRange", entry.get("guids_range", entry.get("rangeStart") and entry))
    start = _number(span.get("start", span.get("rangeStart")))
    end = _number(span.get("end", span.get("rangeEnd")))
    if end < start:
        raise ValueError("a range ends before it starts")
    return range(start, end + 1)


def _number(text: Any) -> int:
    guid = guid_of(text)
    if guid is None or not guid.strip("0:"):
        raise ValueError(f"{text!r} is no GUID such as 02:00:00:00:00:00:00:01")
    return int(guid.replace(":", ""), 16)


def guids_for(pf: Pf, count: int, pools: Sequence[Pool]) -> dict[str, str]:
    """VF index → GUID. A GUID that a VF has stays, unless a file says otherwise."""
    mine = [pool for pool in pools if pool.is_for(pf)]
    if mine:
        return _static(count, mine[-1])
    own = pf.ipoib.guid if pf.ipoib else None
    has = {i: guid for i, guid in pf.vfs.columns("index", "guid") if guid and guid.strip("0:")}
    if own is None:
        return {str(i): guid for i, guid in has.items() if i < count}
    return {str(i): has.get(i) or derived(own, i) for i in range(count)}


def lacking(pf: Pf, count: int, pools: Sequence[Pool]) -> tuple[str, str] | None:
    """Where the file names a PF and has too few GUIDs for it: that, and the way out."""
    mine = [pool for pool in pools if pool.is_for(pf)]
    if not mine or len(mine[-1].guids) >= count:
        return None
    has = f"{FILE} has {len(mine[-1].guids)} GUIDs for {pf.name or pf.pci}, wanted {count}"
    return has, "add GUIDs, or ask for fewer VFs"


def _static(count: int, pool: Pool) -> dict[str, str]:
    return {str(i): pool.guids[i].to_bytes(8, "big").hex(":") for i in range(count)}
