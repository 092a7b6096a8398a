"""Which events matter. Most on a busy node do not, and must cost next to nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from podrail.host.seam import Event, Host
from podrail.inventory.pci import ADDRESS, DEVICES, NETWORK
from podrail.inventory.reader import Reader
from podrail.realise.functions import names, virtfns

EVERYTHING = "*"
"""Not one PF: a NIC that is new here, or events that were lost."""

_VIRTUAL = "/sys/devices/virtual/"
_COMING = frozenset({"add", "bind", "move"})
_SUBSYSTEMS = frozenset({"pci", "net", "infiniband"})


@dataclass(frozen=True, slots=True)
class Watched:
    """The functions and netdevs that belong to wanted PFs, each with the PF it belongs to."""

    functions: Mapping[str, str] = field(default_factory=dict)
    netdevs: Mapping[str, str] = field(default_factory=dict)


def look(host: Host, pfs: Iterable[str]) -> Watched:
    """PFs with the VFs and netdevs they have now."""
    functions: dict[str, str] = {}
    netdevs: dict[str, str] = {}
    for pf in pfs:
        for pci in (pf, *virtfns(host, pf).values()):
            functions[pci] = pf
            netdevs.update(dict.fromkeys(names(host, f"{DEVICES}/{pci}/net"), pf))
    return Watched(functions, netdevs)


def concerns(event: Event, watched: Watched) -> bool:
    """Whether an event is worth a look at the machine."""
    return concerned(event, watched) is not None


def concerned(event: Event, watched: Watched) -> str | None:
    """The PF an event is about, a function not known yet, everything, or nothing."""
    if event.source == "lost":
        return EVERYTHING
    if event.source == "link":
        return watched.netdevs.get(event.name)
    function = function_of(event.path)
    if function is None or function in watched.functions:
        return watched.functions.get(function or "")
    new = event.action in _COMING and event.subsystem in _SUBSYSTEMS
    return function if new else None


def function_of(path: str) -> str | None:
    """The innermost PCI function of a device's path: a VF is beside its PF, not below it."""
    if path.startswith(_VIRTUAL):
        return None
    return next((part for part in reversed(path.split("/")) if ADDRESS.fullmatch(part)), None)


def belongs(host: Host, function: str, watched: Watched) -> str | None:
    """What a function not known yet means: a VF of a wanted PF, a new NIC, or nothing."""
    reader = Reader(host)
    pf = reader.link(f"{DEVICES}/{function}/physfn", quiet=True)
    if pf is not None:
        return watched.functions.get(pf)
    code = (reader.text(f"{DEVICES}/{function}/class", quiet=True) or "").strip()
    return EVERYTHING if code.removeprefix("0x").startswith(NETWORK) else None
