"""sminfo and saquery: the subnet manager and what it knows."""

from __future__ import annotations

import re
from dataclasses import dataclass

from podrail.lab.diags.said import nothing

SM_STATES = ("NOT_ACTIVE", "DISCOVERING", "STANDBY", "MASTER")
"""SMInfo.SMState, InfiniBand Architecture Specification volume 1, 14.2.5.13."""

_MTU = {1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096}
_RATE = {
    2: 2.5, 3: 10, 4: 30, 5: 5, 6: 20, 7: 40, 8: 60, 9: 80, 10: 120, 11: 14, 12: 56, 13: 112,
    14: 168, 15: 25, 16: 100, 17: 200, 18: 300, 19: 28, 20: 50, 21: 400, 22: 600,
    23: 800, 24: 1200,
}  # fmt: skip
"""Codes of a PathRecord's MTU, and of its rate in Gb/s: volume 1, 15.2.5.16; enum ib_rate."""


@dataclass(frozen=True, slots=True)
class SmInfo:
    """A subnet manager about itself, or the master about one."""

    lid: int
    guid: int
    activity: int
    priority: int
    state: str
    """NOT_ACTIVE, DISCOVERING, STANDBY or MASTER."""


_SMINFO = re.compile(
    r"sm lid (\d+) sm guid 0x(\w+), activity count (\d+) priority (\d+) state (\d+)"
)


def sminfo(text: str) -> SmInfo:
    """The subnet manager that answered."""
    found = _SMINFO.search(text)
    if found is None:
        raise nothing("sminfo", text, "a subnet manager's LID, GUID and state")
    lid, guid, activity, priority, state = found.groups()
    return SmInfo(int(lid), int(guid, 16), int(activity), int(priority), _sm_state(int(state)))


def _sm_state(code: int) -> str:
    return SM_STATES[code] if code < len(SM_STATES) else f"STATE_{code}"


_RECORD = re.compile(r"^\w+ dump:$", re.MULTILINE)
_FIELD = re.compile(r"^\s+(\w+)\.{2,}(.*)$", re.MULTILINE)


def saquery(text: str) -> tuple[dict[str, str], ...]:
    """Any `saquery` dump, one mapping per record."""
    records = tuple(dict(_FIELD.findall(part)) for part in _RECORD.split(text)[1:])
    if not records:
        raise nothing("saquery", text, "records of the subnet administrator")
    return records


@dataclass(frozen=True, slots=True)
class Path:
    """A PathRecord: how one port reaches another."""

    source: str
    destination: str
    source_lid: int
    destination_lid: int
    pkey: int
    service_level: int
    mtu: int | None
    gbps: float | None


def paths(text: str) -> tuple[Path, ...]:
    """Output of `saquery -p`, without the records ibsim's opensm leaves empty (LID 0)."""
    return tuple(_path(record) for record in saquery(text) if record.get("dlid", "0") != "0")


def _path(record: dict[str, str]) -> Path:
    # The two high bits of mtu and rate select greater, smaller or exactly.
    mtu, rate = int(record["mtu"], 16) & 0x3F, int(record["rate"], 16) & 0x3F
    return Path(
        record["sgid"], record["dgid"], int(record["slid"]), int(record["dlid"]),
        int(record["pkey"], 16), int(record["sl"], 16), _MTU.get(mtu), _RATE.get(rate),
    )  # fmt: skip


def subnet_managers(text: str) -> tuple[SmInfo, ...]:
    """Output of `saquery SMIR`: every subnet manager the master knows."""
    return tuple(
        SmInfo(int(r["LID"]), int(r["GUID"], 16), int(r["ActCount"]), int(r["Priority"]),
               _sm_state(int(r["SMState"])))
        for r in saquery(text)
    )  # fmt: skip
